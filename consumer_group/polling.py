"""How an application's thread takes messages from one lane: tasks first, then records, one poll after another.

A lane is used by one thread at a time; a second one waits until the first poll is over. Whatever is iterated here is
delivered under the lease: asked for each slice, and in between the engine interrupts a slice when the lease ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from consumer_group.chunks import Chunk, MessageBatch
from consumer_group.deliveries import Deliveries, Flow, Lane, Slice, Task, TaskKind
from consumer_group.errors import IllegalStateError
from consumer_group.types import ConsumerRebalanceListener, ConsumerRecord
from kafka_wire.ids import TopicPartition

Deserializer = Callable[[bytes | None], Any] | None
NEVER = float("inf")
_LONGEST_WAIT = 3600.0


def deserializer_of(given: Any, topic_too: str = "deserialize") -> Any:
    """A function of (topic, bytes): kafka-python takes both plain functions and objects with `deserialize`."""
    if given is None:
        return None
    method = getattr(given, topic_too, None)
    return method if method is not None else lambda _, data: given(data)


class Poller:
    """One lane of one consumer."""

    def __init__(
        self,
        deliveries: Deliveries,
        lane: Lane,
        hand_over: Callable[[Sequence[Flow]], None],
        *,
        listener: Callable[[], ConsumerRebalanceListener | None],
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        slice_size: int = 500,
    ) -> None:
        self.lane = lane
        self._deliveries = deliveries
        self._hand_over = hand_over
        self._listener = listener
        self._key = deserializer_of(key_deserializer)
        self._value = deserializer_of(value_deserializer)
        self._slice_size = slice_size

    def poll(self, seconds: float, max_records: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Up to so many records, as soon as there are any."""
        with self.lane.owner:
            deadline = time.monotonic() + seconds
            while True:
                self.work(self._deliveries.begin_poll(self.lane))
                found = self._collect(max_records)
                if found or not self._wait(deadline):
                    return found

    def records(self, patience: float) -> Iterator[ConsumerRecord]:
        """Record after record; ends when none came for `patience` seconds, or the consumer is closed."""
        lane, deliveries = self.lane, self._deliveries
        while (taken := self._next(patience)) is not None:
            flow, chunk = taken
            records = self._take(flow, chunk, self._slice_size)
            held = Slice(flow, chunk)
            if not records or not deliveries.hold(lane, held):
                self._undo(flow, chunk, records[0].offset if records else None)
                continue
            proven = False
            try:
                for record in records:
                    if held.stop:
                        break
                    held.in_hand = record
                    yield record
                proven = True
            finally:
                held.stop = held.stop or not proven
                deliveries.put_down(lane, held, proven=proven)

    def batches(self, patience: float) -> Iterator[MessageBatch]:
        """Batch after batch, as they were written. One counts as handled when the next is asked for."""
        lane, deliveries = self.lane, self._deliveries
        while (taken := self._next(patience)) is not None:
            flow, chunk = taken
            batch = chunk.batch(flow.partition)
            held = Slice(flow, chunk)
            if batch is None or not deliveries.hold(lane, held):
                self._undo(flow, chunk, None if batch is None else batch.offset)
                continue
            proven = False
            try:
                held.after = batch.next_offset
                held.in_hand = batch
                yield batch
                proven = True
            finally:
                self._end_batch(held, batch.next_offset, proven)

    def values(self, patience: float) -> Iterator[bytes | None]:
        """Value after value: the fastest way. Within a batch, an automatic commit stays at its beginning."""
        lane, deliveries = self.lane, self._deliveries
        while (taken := self._next(patience)) is not None:
            flow, chunk = taken
            batch = chunk.batch(flow.partition)
            held = Slice(flow, chunk)
            if batch is None or not deliveries.hold(lane, held):
                self._undo(flow, chunk, None if batch is None else batch.offset)
                continue
            given, proven = 0, False
            try:
                values = batch.values
                held.after = batch.next_offset
                held.in_hand = batch
                for value in values:
                    if held.stop:
                        break
                    given += 1
                    yield value
                proven = True
            finally:
                self._end_batch(held, batch.offset_after(given), proven)

    def work(self, tasks: Sequence[Task]) -> None:
        """Tell the listener what came and went, and let go of what goes."""
        listener = self._listener()
        for kind, flows in _merged(tasks):
            partitions = [flow.partition for flow in flows]
            try:
                if listener is not None and kind is TaskKind.ASSIGNED:
                    listener.on_partitions_assigned(partitions)
                elif listener is not None and kind is TaskKind.REVOKED:
                    listener.on_partitions_revoked(partitions)
                elif listener is not None:
                    listener.on_partitions_lost(partitions)
            finally:
                if kind is TaskKind.REVOKED:
                    self._hand_over(flows)

    # --- inside ---

    def _next(self, patience: float) -> tuple[Flow, Chunk] | None:
        """The next chunk to deliver from, after the tasks; None when the patience or the consumer is at its end."""
        with self.lane.owner:
            deadline = time.monotonic() + patience
            while True:
                self.work(self._deliveries.begin_poll(self.lane))
                taken = self._deliveries.take(self.lane)
                if taken is not None:
                    if taken[1].problem is not None:
                        raise taken[1].problem
                    return taken
                if not self._wait(deadline):
                    return None

    def _wait(self, deadline: float) -> bool:
        if self._deliveries.closed:
            return False
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        return self._deliveries.wait(self.lane, min(left, _LONGEST_WAIT)) or deadline == NEVER

    def _collect(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = limit
        while left > 0:
            taken = self._deliveries.take(self.lane)
            if taken is None:
                break
            flow, chunk = taken
            try:
                if chunk.problem is not None:
                    raise chunk.problem
                records = self._take(flow, chunk, left)
            except Exception:
                if found:
                    break
                raise
            position = records[-1].offset + 1 if records else chunk.next_offset
            if not self._deliveries.delivered(flow, chunk, position):
                self._undo(flow, chunk, records[0].offset if records else None)
                break
            if records:
                found.setdefault(flow.partition, []).extend(records)
                left -= len(records)
        return found

    def _take(self, flow: Flow, chunk: Chunk, limit: int) -> Sequence[ConsumerRecord]:
        records = chunk.take(flow.partition, limit)
        if self._key is None and self._value is None:
            return records
        topic, key, value = flow.partition.topic, self._key, self._value
        try:
            return [
                record._replace(
                    key=record.key if key is None else key(topic, record.key),
                    value=record.value if value is None else value(topic, record.value),
                )
                for record in records
            ]
        except Exception:
            chunk.rewind(records[0].offset)
            raise

    def _undo(self, flow: Flow, chunk: Chunk, offset: int | None) -> None:
        """What was taken from `offset` on must not be delivered; or there was nothing in it, and it is done with."""
        if offset is not None:
            chunk.rewind(offset)
        else:
            self._deliveries.delivered(flow, chunk, chunk.next_offset)

    def _end_batch(self, held: Slice, position: int, proven: bool) -> None:
        held.after = position
        if not proven or (held.in_hand is not None and position < held.in_hand.next_offset):
            held.stop = True
        self._deliveries.put_down(self.lane, held, proven=proven)


def _merged(tasks: Sequence[Task]) -> list[tuple[TaskKind, list[Flow]]]:
    """Neighbours of one kind together, and nothing about an assignment that is over again already."""
    merged: list[tuple[TaskKind, list[Flow]]] = []
    for task in tasks:
        if merged and merged[-1][0] is task.kind:
            merged[-1][1].extend(task.flows)
        else:
            merged.append((task.kind, list(task.flows)))
    return merged


def milliseconds(timeout_ms: float | None, default: float) -> float:
    """Seconds of a timeout in milliseconds."""
    if timeout_ms is None:
        return default
    if timeout_ms < 0:
        raise IllegalStateError(f"a timeout of {timeout_ms} ms")
    return timeout_ms / 1000
