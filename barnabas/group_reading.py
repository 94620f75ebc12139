"""Messages as a member of a consumer group reads them: `barnabas consume --group`."""

from __future__ import annotations

import logging
import time

from barnabas.errors import UserError
from barnabas.message_format import Message
from consumer_group import Consumer
from consumer_group.types import LOG_APPEND_TIME, ConsumerRecord
from kafka_wire.records import Record

UNKNOWN_BROKER = -1
MAX_POLL = 500
CONNECT_SECONDS = 10.0


class GroupReader:
    """A member of a group as `consume` reads: what it has printed is committed, what it has not is not."""

    def __init__(
        self,
        zookeeper: str,
        group: str,
        topics: tuple[str, ...],
        *,
        from_beginning: bool,
        strategy: str = "range",
        max_messages: int | None = None,
    ) -> None:
        """`max_messages` are all that will ever be asked for: more must not be taken, or it would be committed."""
        # Lost connections are waited out; kazoo would tell of each on stderr.
        logging.getLogger("kazoo").addHandler(logging.NullHandler())
        self._left = max_messages
        self._zookeeper = zookeeper
        self._started = time.monotonic()
        self._connected = False
        self._consumer = Consumer(
            *topics,
            group_id=group,
            zookeeper_connect=zookeeper,
            auto_offset_reset="earliest" if from_beginning else "latest",
            assignment_strategy=strategy,
            client_id="barnabas-consume",
        )

    @property
    def is_at_end(self) -> bool:
        """Whether everything that there was is read; never before the group gave us something."""
        assigned = self._consumer.assignment()
        ends = {partition: self._consumer.highwater(partition) for partition in assigned}
        return bool(assigned) and all(
            end is not None and self._consumer.position(partition) >= end for partition, end in ends.items()
        )

    def poll(self, seconds: float) -> list[Message]:
        """What came within so many seconds."""
        limit = MAX_POLL if self._left is None else min(MAX_POLL, self._left)
        found = self._consumer.poll(seconds * 1000, limit)
        if not self._connected:
            self._check_connection()
        messages = [_message(record) for records in found.values() for record in records]
        if self._left is not None:
            self._left -= len(messages)
        return messages

    def _check_connection(self) -> None:
        self._connected = self._consumer.metrics()["connected"]
        if not self._connected and time.monotonic() > self._started + CONNECT_SECONDS:
            raise UserError(f"no ZooKeeper answers at {self._zookeeper}; name another with --zookeeper")

    def close(self, *, printed: bool = True) -> None:
        """Leave the group. What was polled last is committed only if it was printed."""
        self._consumer.close(autocommit=printed, timeout_ms=10_000)


def _message(record: ConsumerRecord) -> Message:
    return Message(
        record.topic,
        record.partition,
        UNKNOWN_BROKER,
        record.timestamp_type == LOG_APPEND_TIME,
        Record(record.offset, record.timestamp, record.key, record.value, record.headers),
    )
