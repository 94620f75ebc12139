"""Idempotent producers of one partition (R40-R43): the last five batches of each, and Kafka's `.snapshot` files.

A batch that is one of a producer's last five is a duplicate: not appended again, answered with its first offsets. Any
other batch must go on where the last one ended. A producer that is not known here may start anywhere.

A snapshot holds, big endian: version i16 (1), CRC-32C u32 of the rest, count i32, and for each producer: id i64, epoch
i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32, start of the open
transaction i64. It has only the last batch of each producer; `refill` finds the others in the log.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from crc32c import crc32c

from kafka_wire.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber

SNAPSHOT_SUFFIX = ".snapshot"
KEPT_BATCHES = 5
SEQUENCES = 1 << 31  # a sequence number wraps from 2^31-1 to 0
SNAPSHOT_VERSION = 1
NO_COORDINATOR = -1
NO_TRANSACTION = -1

_snapshot_head = struct.Struct(">hIi")
_entry = struct.Struct(">qhiqiqiq")
_CRC_COVERS_FROM = 6

_new = tuple.__new__


class Sent(NamedTuple):
    """One batch of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class Producer(NamedTuple):
    """What is known of one producer; `batches` are at most five, the newest last."""

    epoch: int
    batches: tuple[Sent, ...]
    timestamp: int


class ProducerState:
    """All producers of a partition. Values never change, they are replaced: so a roll-back is cheap."""

    __slots__ = ("_undo", "producers")

    def __init__(self, producers: Mapping[int, Producer] | None = None) -> None:
        self.producers: dict[int, Producer] = dict(producers or {})
        self._undo: list[tuple[int, Producer | None]] = []

    def check(self, producer_id: int, epoch: int, sequence: int, count: int) -> Sent | None:
        """R41: the earlier batch if this is its duplicate, None if it may be appended; raises otherwise."""
        known = self.producers.get(producer_id)
        if known is None:
            return None
        known_epoch, batches, _ = known
        if epoch != known_epoch:
            if epoch < known_epoch:
                raise InvalidProducerEpoch(f"producer {producer_id}: epoch {epoch} is over, {known_epoch} is current")
            if sequence != 0:
                raise OutOfOrderSequenceNumber(f"producer {producer_id}: epoch {epoch} starts at sequence {sequence}")
            return None
        expected = (batches[-1][1] + 1) % SEQUENCES
        if sequence == expected:
            return None
        last = (sequence + count - 1) % SEQUENCES
        for batch in batches:
            if batch[0] == sequence and batch[1] == last:
                return batch
        raise OutOfOrderSequenceNumber(f"producer {producer_id}: sequence {sequence} where {expected} is next")

    def record(
        self, producer_id: int, epoch: int, sequence: int, first_offset: int, last_offset: int, now_ms: int
    ) -> None:
        """Takes note of an appended batch, unchecked: followers and recovery use it as well."""
        known = self.producers.get(producer_id)
        self._undo.append((producer_id, known))
        last = (sequence + last_offset - first_offset) % SEQUENCES
        batches: tuple[Sent, ...] = (_new(Sent, (sequence, last, first_offset, last_offset)),)
        if known is not None and known[0] == epoch:
            batches = known[1][1 - KEPT_BATCHES :] + batches
        self.producers[producer_id] = _new(Producer, (epoch, batches, now_ms))

    def mark(self) -> int:
        """A moment that `roll_back` can go back to, until `settle`."""
        return len(self._undo)

    def settle(self) -> None:
        """What was recorded is in the file: it will not be rolled back."""
        if self._undo:
            self._undo = []

    def roll_back(self, mark: int = 0) -> None:
        """Undoes everything since `mark`, or since `settle`."""
        for producer_id, before in reversed(self._undo[mark:]):
            if before is None:
                self.producers.pop(producer_id, None)
            else:
                self.producers[producer_id] = before
        self._undo = []

    def expire(self, before_ms: int) -> None:
        """Forgets producers that have been silent since `before_ms`."""
        gone = [producer_id for producer_id, known in self.producers.items() if known.timestamp < before_ms]
        for producer_id in gone:
            del self.producers[producer_id]

    def refill(self, tail: "ProducerState") -> None:
        """Adds the earlier batches that a replay of the end of the log found: a snapshot has only the last ones."""
        for producer_id, known in self.producers.items():
            found = tail.producers.get(producer_id)
            if found is not None and found.epoch == known.epoch and found.batches[-1][1:] == known.batches[-1][1:]:
                self.producers[producer_id] = known._replace(batches=found.batches)


def encode_snapshot(producers: Mapping[int, Producer]) -> bytes:
    """The content of a snapshot file."""
    body = [struct.pack(">i", len(producers))]
    for producer_id, known in producers.items():
        last = known.batches[-1]
        body.append(
            _entry.pack(
                producer_id,
                known.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.first_offset,
                known.timestamp,
                NO_COORDINATOR,
                NO_TRANSACTION,
            )
        )
    data = b"".join(body)
    return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(data)) + data


def decode_snapshot(data: bytes) -> dict[int, Producer]:
    """The producers in a snapshot file; ValueError if it is damaged or of another version."""
    try:
        version, crc, count = _snapshot_head.unpack_from(data)
        if version != SNAPSHOT_VERSION or crc32c(data[_CRC_COVERS_FROM:]) != crc:
            raise ValueError("a snapshot of producers is damaged")
        producers = {}
        for number in range(count):
            producer_id, epoch, sequence, offset, delta, timestamp, _, _ = _entry.unpack_from(
                data, _snapshot_head.size + number * _entry.size
            )
            if sequence >= 0:
                first = (sequence - delta) % SEQUENCES
                producers[producer_id] = Producer(epoch, (Sent(first, sequence, offset - delta, offset),), timestamp)
    except struct.error:
        raise ValueError("a snapshot of producers is cut short") from None
    return producers
