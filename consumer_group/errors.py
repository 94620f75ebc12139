"""What the consumer raises, under kafka-python's names.

KafkaError (of kafka_wire; `.retriable` says whether trying again can help)
    +- ConsumerError          what is about this consumer
       +- CommitFailedError          the claim is over: somebody else may own the partition; nothing was committed
       +- KafkaTimeoutError          not within the time given; it may still happen
       +- IllegalStateError          a call that makes no sense now
       +- GroupRefusedError          this group cannot be joined (the other kind is in it, or it is full)
       +- NoOffsetForPartitionError  no committed offset and auto_offset_reset="none"
       +- OffsetOutOfRangeError      the log does not have the position, and auto_offset_reset="none"
       +- LogTruncationError         the log ends before our position: records that we read are gone (R28)
       +- CorruptRecordError         bytes that cannot be read; has the partition and the offset to seek past
"""

from __future__ import annotations

from kafka_wire.errors import KafkaError
from kafka_wire.ids import TopicPartition

__all__ = [
    "CommitFailedError",
    "ConsumerError",
    "CorruptRecordError",
    "GroupRefusedError",
    "IllegalStateError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NoOffsetForPartitionError",
    "OffsetOutOfRangeError",
]


class ConsumerError(KafkaError):
    """See the head of the file."""


class CommitFailedError(ConsumerError):
    """The claim is over: the member was fenced, or the partition was given up; nothing was committed (B17)."""


class KafkaTimeoutError(ConsumerError):
    """Not within the time given."""

    retriable = True


class IllegalStateError(ConsumerError):
    """A call that makes no sense now."""


class GroupRefusedError(ConsumerError):
    """This group cannot be joined; the text says why."""


class PositionError(ConsumerError):
    """A partition that cannot be read on as things are; `seek` is the way out."""

    def __init__(self, partition: TopicPartition, offset: int, message: str) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset


class NoOffsetForPartitionError(PositionError):
    """No committed offset, and auto_offset_reset="none"."""


class OffsetOutOfRangeError(PositionError):
    """The log does not have the position, and auto_offset_reset="none"."""


class LogTruncationError(PositionError):
    """The log ends before our position; `offset` is where it parted from what we read."""


class CorruptRecordError(PositionError):
    """Bytes at `offset` that cannot be read; `seek(partition, next_offset)` goes past them."""

    def __init__(self, partition: TopicPartition, offset: int, next_offset: int, message: str) -> None:
        super().__init__(partition, offset, message)
        self.next_offset = next_offset
