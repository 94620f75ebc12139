"""What a broker sent of one partition, taken batch by batch by the application's thread.

Decoding waits until the application comes for the records: it then costs the thread that wants them, and a rebalance
or a seek throws away bytes, not work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consumer_group.decoding import read_batch, records_of, values_of
from consumer_group.errors import CorruptRecordError
from consumer_group.types import ConsumerRecord
from kafka_wire.batches import BatchHeader, read_header
from kafka_wire.errors import KafkaError
from kafka_wire.ids import TopicPartition


class MessageBatch:
    """Messages that were written together: the fast way to read. `values` are decoded alone, without their records.

    Iterating gives records. `offset` is the first one's, `next_offset` where the partition goes on after them.
    """

    __slots__ = ("_data", "_header", "_skip", "next_offset", "offset", "partition", "topic")

    def __init__(self, partition: TopicPartition, header: BatchHeader, data: bytes, from_offset: int) -> None:
        self.topic, self.partition = partition
        self.offset = max(header.base_offset, from_offset)
        self.next_offset = header.next_offset
        self._header = header
        self._data = data
        self._skip = header.base_offset < from_offset

    @property
    def values(self) -> list[bytes | None]:
        """The values, in order."""
        if self._skip:
            return [record.value for record in self.records]
        try:
            return values_of(self._header, self._data)
        except KafkaError as problem:
            raise self._corrupt(problem) from problem

    @property
    def records(self) -> list[ConsumerRecord]:
        """The records, in order."""
        try:
            records = records_of(TopicPartition(self.topic, self.partition), self._header, self._data)
        except KafkaError as problem:
            raise self._corrupt(problem) from problem
        if self._skip:
            return [record for record in records if record.offset >= self.offset]
        return records

    def offset_after(self, count: int) -> int:
        """Where the partition goes on after the first `count` of its messages."""
        header = self._header
        if not self._skip and header.record_count == header.last_offset_delta + 1:
            return header.base_offset + count
        return self.offset if count == 0 else self.records[count - 1].offset + 1

    def _corrupt(self, problem: KafkaError) -> CorruptRecordError:
        return corrupt(TopicPartition(self.topic, self.partition), self.offset, self.next_offset, problem)

    def __len__(self) -> int:
        return len(self.records) if self._skip else self._header.record_count

    def __iter__(self) -> Any:
        return iter(self.records)


def corrupt(partition: TopicPartition, offset: int, next_offset: int, problem: KafkaError) -> CorruptRecordError:
    """The error that tells a person where, and how to go on."""
    text = f"{partition} cannot be read at offset {offset}: {problem.message}; seek to {next_offset} to go past it"
    return CorruptRecordError(partition, offset, next_offset, text)


class Chunk:
    """Whole batches as they came, to be delivered from `offset` on. With a `problem` there is nothing else in it."""

    def __init__(
        self,
        data: Any,
        offset: int,
        next_offset: int,
        *,
        problem: Exception | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.offset = offset
        self.next_offset = next_offset
        self.problem = problem
        self.size = len(data)
        self._data = data
        self._check_crcs = check_crcs
        self._at = 0
        self._ready: list[ConsumerRecord] = []
        self._used = 0

    @property
    def done(self) -> bool:
        """Whether everything was taken."""
        return self.problem is None and self._at >= self.size and self._used >= len(self._ready)

    def take(self, partition: TopicPartition, limit: int) -> Sequence[ConsumerRecord]:
        """The next records, up to `limit`, of one batch; none if there are none left. CorruptRecordError."""
        while self._used >= len(self._ready):
            batch = self.batch(partition)
            if batch is None:
                return ()
            try:
                self._ready, self._used = batch.records, 0
            except CorruptRecordError:
                self.rewind(batch.offset)
                raise
        if self._used == 0 and limit >= len(self._ready):
            taken, self._ready = self._ready, []
            return taken
        taken = self._ready[self._used : self._used + limit]
        self._used += len(taken)
        return taken

    def batch(self, partition: TopicPartition) -> MessageBatch | None:
        """The next batch with messages for the application, None if there is none left. CorruptRecordError."""
        while self._at < self.size:
            header = read_header(self._data, self._at)
            if header.is_control or header.last_offset < self.offset or not header.record_count:
                self._at += header.size
                continue
            try:
                header, data = read_batch(self._data, self._at, check_crc=self._check_crcs)
            except KafkaError as problem:
                raise corrupt(partition, max(header.base_offset, self.offset), header.next_offset, problem) from problem
            self._at += header.size
            return MessageBatch(partition, header, data, self.offset)
        return None

    def rewind(self, offset: int) -> None:
        """Begin again at an offset that was taken already and not delivered."""
        self.offset = max(self.offset, offset)
        self._at = self._used = 0
        self._ready = []
