"""Lines to messages to batches: what `barnabas produce` does between stdin and the brokers, without either.

Splitter     bytes as they are read -> lines
Parser       a line -> a record with its key and headers
Outbox       records -> batches by partition, in order, each with its sequence number
"""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import attrs

from kafka_wire.records import Header, Record
from producer.partitioner import partition_of

BATCH_BYTES = 100_000
OUTBOX_BYTES = 1_000_000
RECORD_OVERHEAD = 20  # lengths, deltas and attributes of a record, rounded up: batches are measured by estimate

_SEQUENCES = 2**31  # after the last one they begin again at 0


class Splitter:
    """Cuts a stream at a delimiter. A line that comes in many pieces is searched once, not once for each piece."""

    def __init__(self, delimiter: bytes = b"\n") -> None:
        self._delimiter = delimiter
        self._rest = bytearray()

    @property
    def buffered(self) -> int:
        """How long the unfinished line is by now."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines now complete, without their delimiter."""
        if not self._rest:
            lines = data.split(self._delimiter)
        else:
            searched = max(0, len(self._rest) - len(self._delimiter) + 1)
            self._rest += data
            if self._rest.find(self._delimiter, searched) < 0:
                return []
            lines = bytes(self._rest).split(self._delimiter)
        self._rest = bytearray(lines.pop())
        return lines

    def end(self) -> list[bytes]:
        """The last line, if it had no delimiter."""
        rest, self._rest = self._rest, bytearray()
        return [bytes(rest)] if rest else []


@attrs.frozen
class Parser:
    """How a line becomes a message."""

    key_separator: bytes | None = None
    null_marker: bytes | None = None
    headers: tuple[Header, ...] = ()

    def record(self, line: bytes, now_ms: int) -> Record:
        """The message. A line without the separator has no key; the null marker stands for no key or no value."""
        key, value = None, line
        if self.key_separator is not None:
            before, separator, after = line.partition(self.key_separator)
            if separator:
                key, value = before, after
        return Record(0, now_ms, self._or_null(key), self._or_null(value), self.headers)

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text is not None and text == self.null_marker else text


def size_of(record: Record) -> int:
    """About how many bytes a record takes in a batch."""
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 10
    return size


@attrs.define
class Batch:
    """Records for one partition that are sent together; `tries` counts how often that was begun."""

    records: list[Record]
    size: int = 0
    tries: int = 0


class Outbox:
    """Batches that wait to be sent, in order for each partition; only the first of each may be under way.

    Messages with a key go where the key says, others to one partition until its batch is full (or everything was
    sent), then to another: few large batches instead of many small ones (KIP-480).
    """

    def __init__(
        self,
        partitions: int,
        *,
        only: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        choose: Callable[[Sequence[int]], int] = random.choice,
    ) -> None:
        self.messages = 0
        self.bytes = 0
        self._partitions = range(partitions)
        self._only = only
        self._batch_bytes = batch_bytes
        self._choose = choose
        self._waiting: dict[int, deque[Batch]] = {}
        self._sequences: dict[int, int] = {}
        self._sticky = choose(self._partitions)

    @property
    def is_full(self) -> bool:
        """Whether it is time to send, although more could be read."""
        return self.bytes >= OUTBOX_BYTES or any(len(queue) > 1 for queue in self._waiting.values())

    def add(self, record: Record) -> None:
        """Put a record behind those of its partition."""
        size = size_of(record)
        partition = self._partition_of(record)
        if record.key is None and not self._fits(partition, size):
            self._turn()
            partition = self._partition_of(record)
        queue = self._waiting.setdefault(partition, deque())
        if not self._fits(partition, size):
            queue.append(Batch([]))
        queue[-1].records.append(record)
        queue[-1].size += size
        self.messages += 1
        self.bytes += size

    def due(self) -> Mapping[int, Batch]:
        """The first batch of each partition that has one."""
        return {partition: queue[0] for partition, queue in self._waiting.items() if queue}

    def sequence(self, partition: int) -> int:
        """The sequence number of the first record of the partition's first batch."""
        return self._sequences.get(partition, 0)

    def done(self, partition: int) -> Batch:
        """The first batch of a partition is stored: forget it, and count its sequence numbers."""
        batch = self._waiting[partition].popleft()
        self._sequences[partition] = (self.sequence(partition) + len(batch.records)) % _SEQUENCES
        self.messages -= len(batch.records)
        self.bytes -= batch.size
        return batch

    def split(self, partition: int) -> bool:
        """Make two batches of one that was refused as too large; False if it is a single record."""
        batch = self._waiting[partition][0]
        middle = len(batch.records) // 2
        if not middle:
            return False
        self._waiting[partition].popleft()
        for half in (batch.records[middle:], batch.records[:middle]):
            self._waiting[partition].appendleft(Batch(half, sum(map(size_of, half))))
        return True

    def restart_sequences(self) -> None:
        """A new producer id counts from 0 in every partition."""
        self._sequences.clear()

    def _fits(self, partition: int, size: int) -> bool:
        queue = self._waiting.get(partition)
        if not queue:
            return False
        return not queue[-1].tries and queue[-1].size + size <= self._batch_bytes

    def _turn(self) -> None:
        others = [partition for partition in self._partitions if partition != self._sticky]
        self._sticky = self._choose(others) if others else self._sticky

    def _partition_of(self, record: Record) -> int:
        if self._only is not None:
            return self._only
        if record.key is None:
            return self._sticky
        return partition_of(record.key, len(self._partitions))
