"""Topics made for a run and deleted after it, with confluent-kafka's admin client, at any broker."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.bench.target import Target
from barnabas.errors import UserError
from barnabas.peers.ready import answers_metadata

_SECONDS = 30.0
_POLL_SECONDS = 0.05


@contextlib.contextmanager
def temporary_topic(target: Target, partitions: int, config: Mapping[str, str] | None = None) -> Iterator[str]:
    """A topic with a name of its own and one replica, ready for producing; deleted at the end."""
    if not answers_metadata(*target.address):
        raise UserError(f"there is no broker at {target.bootstrap}")
    name = f"bench-{secrets.token_hex(5)}"
    admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 2})
    topic = NewTopic(name, partitions, 1, config={**target.topic_config, **(config or {})})
    try:
        admin.create_topics([topic], operation_timeout=_SECONDS, request_timeout=_SECONDS)[name].result()
        _wait_for_leaders(admin, name, partitions)
    except KafkaException as error:
        raise UserError(f"{target.bootstrap} made no topic for the run: {error.args[0].str()}") from None
    try:
        yield name
    finally:
        with contextlib.suppress(KafkaException):
            admin.delete_topics([name], operation_timeout=_SECONDS, request_timeout=_SECONDS)[name].result()


def _wait_for_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        topic = admin.list_topics(name, timeout=_SECONDS).topics[name]
        if len(topic.partitions) == partitions and all(one.leader >= 0 for one in topic.partitions.values()):
            return
        if time.monotonic() > deadline:
            raise UserError(f"the partitions of a new topic had no leader after {_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
