"""The paper's message streams (P10): iterators that never end and block when there is nothing new."""

from __future__ import annotations

from collections.abc import Iterator

from consumer_group.chunks import MessageBatch
from consumer_group.polling import Poller, milliseconds
from consumer_group.types import ConsumerRecord
from kafka_wire.ids import TopicPartition


class MessageStream:
    """One stream of a consumer, for one thread. The streams of a consumer share its partitions evenly."""

    def __init__(self, poller: Poller, patience: float) -> None:
        self._poller = poller
        self._patience = patience
        self._iterator: Iterator[ConsumerRecord] | None = None

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self._poller.records(self._patience)

    def __next__(self) -> ConsumerRecord:
        if self._iterator is None:
            self._iterator = iter(self)
        try:
            return next(self._iterator)
        except BaseException:
            self._iterator = None
            raise

    def poll(self, timeout_ms: float = 0, max_records: int = 500) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Messages by partition, as soon as there are any; an empty dict after `timeout_ms`."""
        return self._poller.poll(milliseconds(timeout_ms, 0.0), max_records)

    def batches(self) -> Iterator[MessageBatch]:
        """Messages as they were written, a batch at a time."""
        return self._poller.batches(self._patience)

    def values(self) -> Iterator[bytes | None]:
        """Only the values, one by one."""
        return self._poller.values(self._patience)
