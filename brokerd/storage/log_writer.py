"""The growing end of a partition's log: queue, write, roll, flush, and take back what a disk refuses.

An append only queues: `write` puts all that a turn has queued into the file with one system call, and `flushed` moves
when a flush of the file has come back (flusher.py). So

    log_start <= flushed <= written_end <= log_end

and a failed write takes back everything beyond `written_end`: bytes, offsets, producers, epochs.

What every produce request runs through is in `append_as_leader` and `write`; whatever needs unusual settings, a roll
or a failure is in functions of its own. An append only plans a roll, `write` makes it.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import NamedTuple

from brokerd.config_keys import LONG_MAX
from brokerd.storage import batch_rules, epochs, snapshots
from brokerd.storage.epochs import EpochHistory
from brokerd.storage.errors import StorageError, storage_error
from brokerd.storage.file_range import FilePool, OpenFile, open_directory
from brokerd.storage.producer_state import Producer, ProducerState
from brokerd.storage.segment import MAX_RELATIVE, Segment, Stored
from brokerd.storage.segment_list import SegmentList
from brokerd.topic_config import TopicConfig
from kafka_wire.batches import TRANSACTIONAL, BatchHeader, Buffer, check_batch, prefix, walk
from kafka_wire.errors import InvalidRecord, MessageTooLarge, OffsetOutOfRange, RecordListTooLarge
from kafka_wire.ids import TopicPartition

PREFIX_SIZE = 16
PARTS_OF_BATCH = 2  # in the queue: the first 16 bytes, which the leader replaces, and the rest
FLUSHED = "flushed"
MANY_SEGMENTS = 16  # unflushed ones, above which it is not worth while to open each of their files

_new = tuple.__new__


def clock_ms() -> int:
    """The wall clock."""
    return int(time.time() * 1000)


class Appended(NamedTuple):
    """Where a batch is; `log_append_time_ms` is -1 where producers set the time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


class FlushTarget(NamedTuple):
    """What is to be synced so that everything below `end` is durable. Valid as long as the log is not cut.

    `files` is None if there are so many that the whole file system is to be synced.
    """

    end: int
    files: tuple[OpenFile, ...] | None
    segments_created: int
    cuts: int


class _Roll(NamedTuple):
    """Before the queued batch with this number a new segment begins; producers as they were at that moment."""

    number: int
    base_offset: int
    producers: dict[int, Producer]
    producers_mark: int


class LogWriter:
    """Appends to the last of `segments`."""

    def __init__(
        self,
        tp: TopicPartition,
        directory: Path,
        config: TopicConfig,
        pool: FilePool,
        segments: SegmentList,
        history: EpochHistory,
        producers: ProducerState,
        *,
        log_start: int,
        log_end: int,
    ) -> None:
        self.tp = tp
        self.directory = directory
        self.log_start = log_start
        self.log_end = log_end
        self.written_end = log_end
        self.flushed = log_end  # whoever opens a log flushes what was not
        self.latest_epoch = history.latest
        self.size = segments.size
        self._pool = pool
        self._segments = segments
        self._epochs = history
        self._producers = producers
        self._parts: list[Buffer] = []
        self._queued: list[Stored] = []
        self._queued_bytes = 0
        self._rolls: list[_Roll] = []
        self._epochs_before: list[tuple[int, int]] | None = None  # of the last write, if the queue has changed them
        self._unflushed_sealed: list[Segment] = []
        self._created = 0  # new segments; the names of the first `_created_synced` are durable
        self._created_synced = 0
        self._cuts = 0
        self._dirty_since_ms: int | None = None
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Takes new settings; they hold from the next append on."""
        self.config = config
        self._has_rules = batch_rules.needs_rules(config)
        self._max_message_bytes = config.max_message_bytes
        self._plan_segment()

    # ---- appending

    def append_as_leader(self, records: memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Queues one batch of a producer under the next offsets. Raises what the producer is to be told."""
        size = len(records)
        header = check_batch(records, 0, size)
        _, batch_size, _, _, _, attributes, delta, _, timestamp, producer_id, producer_epoch, sequence, count = header
        if batch_size != size:
            raise InvalidRecord("a produce request holds exactly one batch for each partition")
        if size > self._max_message_bytes:
            raise MessageTooLarge(f"a batch of {size} bytes, max.message.bytes is {self._max_message_bytes}")
        if attributes & TRANSACTIONAL:
            raise InvalidRecord("transactions are not served by this broker")
        append_time = -1
        if self._has_rules:
            records = batch_rules.apply(records, header, self.config, now_ms)
            size = len(records)
            if self.config.message_timestamp_type == batch_rules.LOG_APPEND_TIME:
                append_time = timestamp = now_ms
        if producer_id >= 0:
            earlier = self._producers.check(producer_id, producer_epoch, sequence, count)
            if earlier is not None:
                return Appended(earlier.first_offset, earlier.last_offset, append_time, True)
        first = self.log_end
        last = first + delta
        if size > self._room or timestamp > self._roll_after or now_ms > self._roll_at or last > self._last_possible:
            self._plan_roll(first, size, timestamp, now_ms)
        if leader_epoch != self.latest_epoch:
            self._assign_epoch(leader_epoch, first)
        if producer_id >= 0:
            self._producers.record(producer_id, producer_epoch, sequence, first, last, now_ms)
        self._room -= size
        self._queued_bytes += size
        self._parts += (prefix(first, size, leader_epoch), records[PREFIX_SIZE:])
        self._queued.append(_new(Stored, (last, size, timestamp)))
        self.log_end = last + 1
        return _new(Appended, (first, last, append_time, False))

    def append_as_follower(self, records: memoryview, now_ms: int | None = None) -> int:
        """Queues batches copied from the leader, offsets and epochs as they are; returns the new end of the log.

        A cut last batch is left out, as a fetch answer may hold one. Raises CorruptMessage for bad bytes and
        OffsetOutOfRange where the batches do not go on from the end of this log; nothing of the call is then queued.
        """
        now_ms = clock_ms() if now_ms is None else now_ms
        expected, checked = self.log_end, []
        for position, _ in walk(records, 0, len(records)):
            header = check_batch(records, position, len(records), from_client=False)
            if header.base_offset < expected:
                raise OffsetOutOfRange(f"a batch starts at {header.base_offset} where the log ends at {expected}")
            expected = header.next_offset
            checked.append((records[position : position + header.size], header))
        for batch, header in checked:
            self._queue_copy(batch, header, now_ms)
        return self.log_end

    def _queue_copy(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        first, last, size, timestamp = header.base_offset, header.last_offset, header.size, header.max_timestamp
        if size > self._room or timestamp > self._roll_after or now_ms > self._roll_at or last > self._last_possible:
            self._plan_roll(first, size, timestamp, now_ms)
        if header.leader_epoch != self.latest_epoch:
            self._assign_epoch(header.leader_epoch, first)
        if header.producer_id >= 0 and not header.is_control:
            self._producers.record(header.producer_id, header.producer_epoch, header.base_sequence, first, last, now_ms)
        self._room -= size
        self._queued_bytes += size
        self._parts += (batch[:PREFIX_SIZE], batch[PREFIX_SIZE:])
        self._queued.append(Stored(last, size, timestamp))
        self.log_end = last + 1

    def _assign_epoch(self, epoch: int, start: int) -> None:
        """A batch of a new epoch; the write stores it before the batch."""
        if self._epochs_before is None:
            self._epochs_before = self._epochs.entries
        self._epochs.assign(epoch, start)
        self.latest_epoch = self._epochs.latest

    # ---- writing

    def write(self) -> None:
        """Writes what is queued. StorageError: the rest was taken back, `written_end` says what was not."""
        if not self._queued:
            return
        if self._rolls or self._epochs_before is not None:
            self._write_in_steps()
            return
        active = self._segments.active
        position = active.file.size
        try:
            active.file.append(self._parts, self._queued_bytes)
        except OSError as problem:
            raise self._take_back(problem, 0) from problem
        queued, count = self._queued, self._queued_bytes
        self._parts, self._queued, self._queued_bytes = [], [], 0
        self._producers.settle()
        self._wrote(active, queued, position, count)

    def _wrote(self, segment: Segment, batches: list[Stored], position: int, count: int) -> None:
        """Batches are in the file: they count from now on."""
        indexed = segment.add(batches, position, self.config.index_interval_bytes)
        self.size += count
        self.written_end = end = batches[-1][0] + 1
        if self._dirty_since_ms is None:
            self._dirty_since_ms = clock_ms()
        self._segments.remember(end, segment, position + count)
        if not position or (indexed and segment.is_index_full(self.config.segment_index_bytes)):
            self._plan_segment()

    def _write_in_steps(self) -> None:
        """`write` where a new segment or a new epoch begins somewhere in the queue."""
        queued, parts, rolls = self._queued, self._parts, self._rolls
        done = producers_mark = 0
        try:
            if self._epochs_before is not None:
                epochs.store(self.directory, self._epochs)
            for roll in [*rolls, None]:
                number = len(queued) if roll is None else roll.number
                batches = queued[done:number]
                if batches:
                    active = self._segments.active
                    position, count = active.size, sum(batch.size for batch in batches)
                    active.file.append(parts[done * PARTS_OF_BATCH : number * PARTS_OF_BATCH], count)
                    self._wrote(active, batches, position, count)
                    done = number
                if roll is not None:
                    producers_mark = roll.producers_mark
                    self._roll(roll.base_offset, roll.producers)
        except OSError as problem:
            raise self._take_back(problem, producers_mark) from problem
        self._forget_queue()
        self._producers.settle()
        self._plan_segment()

    def _take_back(self, problem: OSError, producers_mark: int) -> StorageError:
        """After a failed write: forgets everything that is not in the file."""
        self._forget_queue(keep_epochs=True)
        self.log_end = self.written_end
        self._producers.roll_back(producers_mark)
        if self._epochs_before is not None:
            kept = [entry for entry in self._epochs.entries if entry[1] < self.written_end]
            self._epochs.entries = max(kept, self._epochs_before)  # those of before, unless later ones were written
            self._epochs_before = None
            self.latest_epoch = self._epochs.latest
            with contextlib.suppress(OSError):  # an epoch too many is cut when the log is opened
                epochs.store(self.directory, self._epochs)
        self._plan_segment()
        return storage_error(problem, f"an append to {self.directory}")

    def _forget_queue(self, *, keep_epochs: bool = False) -> None:
        self._parts, self._queued, self._queued_bytes, self._rolls = [], [], 0, []
        if not keep_epochs:
            self._epochs_before = None

    # ---- rolling

    def _plan_segment(self) -> None:
        """Works out what the last segment (the one to come, if a roll is planned) still takes, so that an append need
        only compare."""
        active, config = self._segments.active, self.config
        base, size, first = active.base_offset, active.size, active.first_timestamp
        waiting = self._queued
        if self._rolls:
            base, size, first = self._rolls[-1].base_offset, 0, None
            waiting = waiting[self._rolls[-1].number :]
        if first is None and waiting:
            first = waiting[0].max_timestamp
        self._room = max(config.segment_bytes - size - sum(batch.size for batch in waiting), 0)
        self._last_possible = base + MAX_RELATIVE
        self._roll_after = self._roll_at = LONG_MAX
        if first is not None and first >= 0:
            self._roll_after = first + config.segment_ms
        elif first is not None:
            self._roll_at = active.created_ms + config.segment_ms
        if active.is_index_full(config.segment_index_bytes) and not self._rolls:
            self._room = 0

    def _plan_roll(self, base_offset: int, size: int, timestamp: int, now_ms: int) -> None:
        """A new segment is to begin with the batch that comes next, unless the last one is still empty."""
        config = self.config
        if size > config.segment_bytes:
            raise RecordListTooLarge(f"a batch of {size} bytes, segment.bytes is {config.segment_bytes}")
        planned = self._rolls[-1].number if self._rolls else 0
        if len(self._queued) > planned or (self._segments.active.size and not self._rolls):
            producers = self._producers
            self._rolls.append(_Roll(len(self._queued), base_offset, dict(producers.producers), producers.mark()))
        self._room = config.segment_bytes
        self._last_possible = base_offset + MAX_RELATIVE
        self._roll_after = timestamp + config.segment_ms if timestamp >= 0 else LONG_MAX
        self._roll_at = LONG_MAX if timestamp >= 0 else now_ms + config.segment_ms

    def _roll(self, base_offset: int, producers: dict[int, Producer]) -> None:
        """Seals the active segment and makes the next one; OSError leaves the active one active."""
        active = self._segments.active
        stem = f"{self.directory}/{base_offset:020d}"
        segment = Segment(stem, base_offset, self._pool, 0, clock_ms())
        active.seal()
        try:
            segment.create()
            snapshots.store(self.directory, base_offset, producers)
        except OSError:
            segment.discard(self._pool)
            raise
        self._unflushed_sealed.append(active)
        self._segments.add(segment)
        self._created += 1

    # ---- flushing

    @property
    def is_dirty(self) -> bool:
        """Whether something written is not flushed."""
        return self._dirty_since_ms is not None

    def is_flush_due(self) -> bool:
        """Whether there is something that should be made durable now, by the topic's settings.

        `flushed` topics: always, unless flush.ms lets it wait. `replicated` ones: by flush.messages and flush.ms, and
        once a segment is full.
        """
        if self._dirty_since_ms is None:
            return False
        config = self.config
        if config.flush_ms == LONG_MAX and config.durability == FLUSHED:
            return True
        if self._unflushed_sealed or self.written_end - self.flushed >= config.flush_messages:
            return True
        return config.flush_ms != LONG_MAX and clock_ms() - self._dirty_since_ms >= config.flush_ms

    def flush_due_in_ms(self) -> int | None:
        """When `is_flush_due` will hold for the time alone, from now; None: it never will, or nothing is dirty."""
        if self._dirty_since_ms is None or self.config.flush_ms == LONG_MAX:
            return None
        left = self._dirty_since_ms + self.config.flush_ms - clock_ms()
        return min(max(left, 1), self.config.flush_ms)  # whatever the wall clock did meanwhile

    def flush_target(self) -> FlushTarget:
        """The files to sync so that everything written is durable; give it to `flush_done` after that."""
        files: tuple[OpenFile, ...] | None = (self._segments.active.file.open(),)
        if len(self._unflushed_sealed) > MANY_SEGMENTS:
            files = None
        elif self._unflushed_sealed or self._created != self._created_synced:
            sealed = [file for segment in self._unflushed_sealed for file in segment.files()]
            files = (*sealed, self._segments.active.file.open(), open_directory(self.directory))
        return _new(FlushTarget, (self.written_end, files, self._created, self._cuts))

    def flush_done(self, target: FlushTarget) -> bool:
        """The files of a target have been synced; False if the log was cut meanwhile and it means nothing."""
        if target.cuts != self._cuts:
            return False
        end = target.end
        self.flushed = max(self.flushed, end)
        self._created_synced = max(self._created_synced, target.segments_created)
        if self._unflushed_sealed:
            active_base = self._segments.active.base_offset
            self._unflushed_sealed = [
                segment
                for segment, after in zip(
                    self._unflushed_sealed,
                    [*(later.base_offset for later in self._unflushed_sealed[1:]), active_base],
                    strict=True,
                )
                if after > end
            ]
        self._dirty_since_ms = None if self.flushed == self.written_end else clock_ms()
        return True
