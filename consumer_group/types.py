"""The values that the consumer takes and gives, with kafka-python's names."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafka_wire.ids import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class ConsumerRecord(NamedTuple):
    """One message and where it came from. `key` and `value` are what the deserializers made of the bytes."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def serialized_key_size(self) -> int:
        """Bytes of the key, -1 for none; only for keys that were not deserialized."""
        return -1 if self.key is None else len(self.key)

    @property
    def serialized_value_size(self) -> int:
        """Bytes of the value, -1 for none; only for values that were not deserialized."""
        return -1 if self.value is None else len(self.value)


class OffsetAndMetadata(NamedTuple):
    """The next offset to read, and what goes with it in the offset registry."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """What `offsets_for_times` finds."""

    offset: int
    timestamp: int
    leader_epoch: int


class ConsumerRebalanceListener:
    """Told of partitions that come and go, on the thread that polls, from within poll or iteration.

    `revoked` may commit: the partitions are still ours until it returns. After `lost` they may be somebody else's, so
    a commit would fail; by default it does what `revoked` does.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """These are about to be given up."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """These are ours from now on; nothing of them was delivered yet, so `seek` decides where it begins."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """These are not ours any more."""
        self.on_partitions_revoked(lost)
