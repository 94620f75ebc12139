"""One member of a group, as a process of its own: prints every value it gets, and every assignment as `!assigned 0,1`.

Called as `<kind> <bootstrap> <group> <topic> [instance id]`, with the session timeout in MEMBER_SESSION_MS; ends,
leaving its group in good order, at SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

SESSION_MS = int(os.environ.get("MEMBER_SESSION_MS", "6000"))
HEARTBEAT_MS = 500

_stopping = False


def _stop(*_: Any) -> None:
    global _stopping
    _stopping = True


def _tell(text: str) -> None:
    print(text, flush=True)


def _assigned(partitions: Iterable[Any]) -> None:
    _tell("!assigned " + ",".join(sorted(str(one.partition) for one in partitions)))


def confluent(strategy: str, bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.commit.interval.ms": 200,
        "partition.assignment.strategy": strategy,
        "log_level": 2,
    }
    consumer = Consumer(settings if instance is None else {**settings, "group.instance.id": instance})
    seen: list[Any] = []
    consumer.subscribe([topic])
    while not _stopping:
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            _tell(f"!error {error.name()}" if error else (message.value() or b"").decode())
        if consumer.assignment() != seen:
            seen = consumer.assignment()
            _assigned(seen)
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    """kafka-python."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing to do."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            """Tells."""
            _assigned(assigned)

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_commit_interval_ms=200,
        max_poll_interval_ms=30_000,
    )
    consumer.subscribe([topic], listener=Listener())
    while not _stopping:
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                _tell(record.value.decode())
    consumer.close()


async def aiokafka(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing to do."""

        async def on_partitions_assigned(self, assigned: Any) -> None:
            """Tells."""
            _assigned(assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_commit_interval_ms=200,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not _stopping:
        for records in (await consumer.getmany(timeout_ms=100)).values():
            for record in records:
                _tell(record.value.decode())
    await consumer.stop()


def main() -> None:
    """One member until SIGTERM."""
    kind, bootstrap, group, topic, *rest = sys.argv[1:]
    instance = rest[0] if rest else None
    signal.signal(signal.SIGTERM, _stop)
    if kind.startswith("confluent-"):
        confluent(kind.removeprefix("confluent-"), bootstrap, group, topic, instance)
    elif kind == "kafka-python":
        kafka_python(bootstrap, group, topic, instance)
    else:
        asyncio.run(aiokafka(bootstrap, group, topic, instance))


if __name__ == "__main__":
    main()
