"""The log of one partition: appended to at its end (log_writer.py), read anywhere, cut at both ends.

Only one thread uses a log; the flusher's threads see nothing but its open files. Errors that a client is to be told are
kafka_wire.errors'; a disk that fails raises StorageError.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from brokerd.storage import epochs, retention, snapshots
from brokerd.storage.deferred_sync import without_sync
from brokerd.storage.epochs import EpochHistory
from brokerd.storage.errors import storage_error
from brokerd.storage.file_range import FilePool, FileRange, sync_directory, sync_file_system
from brokerd.storage.log_dir import LogDir
from brokerd.storage.log_writer import Appended, FlushTarget, LogWriter, clock_ms
from brokerd.storage.producer_state import ProducerState
from brokerd.storage.segment import Segment
from brokerd.storage.segment_list import Found, SegmentList
from brokerd.topic_config import TopicConfig
from kafka_wire.errors import CorruptMessage, FencedLeaderEpoch, OffsetOutOfRange
from kafka_wire.ids import TopicPartition

__all__ = ["Appended", "FlushTarget", "PartitionLog"]

PRODUCER_EXPIRATION_MS = 86_400_000


class PartitionLog(LogWriter):
    """One partition's log. `recovery.py` opens it, `LogManager` owns it."""

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: bytes | None,
        log_dir: LogDir,
        directory: Path,
        config: TopicConfig,
        pool: FilePool,
        segments: SegmentList,
        history: EpochHistory,
        producers: ProducerState,
        *,
        log_start: int,
        log_end: int,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        super().__init__(
            tp, directory, config, pool, segments, history, producers, log_start=log_start, log_end=log_end
        )
        self.topic, self.partition = tp
        self.topic_id = topic_id
        self.log_dir = log_dir
        self._producer_expiration_ms = producer_expiration_ms
        self._retired: list[tuple[int, list[str]]] = []  # (since when, files)
        self._snapshot = -1  # offset of the one that is not a segment's
        self._prepared = log_end  # the end at the last checkpoint

    def __repr__(self) -> str:
        return f"PartitionLog({self.tp})"

    # ---- reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, min_one: bool) -> FileRange:
        """Batches below `end_offset`, from the one that holds `offset`: at most `max_bytes`, the last one perhaps cut.

        If the first batch alone is larger, it comes whole with `min_one`, else nothing does. All of it is from one
        segment: at a segment's end the next read goes on.
        """
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRange(f"offset {offset} is outside {self.log_start} to {self.log_end}")
        return self._segments.read(offset, max_bytes, min(end_offset, self.written_end), self.written_end, min_one)

    def offset_for_timestamp(self, timestamp: int, end_offset: int) -> Found | None:
        """(timestamp, offset, epoch) of the first record with at least this timestamp, below `end_offset`."""
        end = min(end_offset, self.written_end)
        return self._segments.offset_for_timestamp(timestamp, self.log_start, end)

    def max_timestamp(self, end_offset: int) -> Found | None:
        """(timestamp, offset, epoch) of the record with the highest timestamp, below `end_offset`."""
        found = self._segments.max_timestamp(min(end_offset, self.written_end), self.written_end)
        return found if found is not None and found[1] >= self.log_start else None

    # ---- leader epochs

    def start_epoch(self, epoch: int) -> None:
        """This broker leads at `epoch` from the end of the log on; durable when it returns (A11, R21)."""
        self.write()
        if epoch <= self.latest_epoch:
            raise FencedLeaderEpoch(f"{self.tp} has seen epoch {self.latest_epoch}, {epoch} is not newer")
        before = self._epochs.entries
        self._epochs.assign(epoch, self.log_end)
        self._store_epochs(before)
        self.latest_epoch = epoch

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """R23: (the largest known epoch up to `epoch`, where it ends); (-1, -1) if that is not known."""
        return self._epochs.end_offset(epoch, self.log_end)

    @property
    def last_record_epoch(self) -> int:
        """Epoch of the last record; -1 if there is none. An epoch that was started and wrote nothing is not it."""
        return self._epochs.before(self.log_end) if self.log_end > self.log_start else -1

    def _store_epochs(self, before: list[tuple[int, int]]) -> None:
        try:
            epochs.store(self.directory, self._epochs)
        except OSError as problem:
            self._epochs.entries = before
            raise storage_error(problem, f"the leader epochs of {self.tp}") from problem

    # ---- cutting

    def truncate_to(self, offset: int) -> None:
        """Drops the batches that hold `offset` or more; `log_end` says where it ends then. Durable when it returns."""
        self.write()
        if offset >= self.log_end:
            return
        try:
            self._truncate(max(offset, 0))
        except OSError as problem:
            raise storage_error(problem, f"cutting {self.tp} at {offset}") from problem

    def _truncate(self, offset: int) -> None:
        segments = self._segments
        number, position, end = self._cutting_point(offset)
        self.log_dir.lower(self.tp, end)
        self._cuts += 1
        segments.forget_places()
        gone: list[str] = []
        while len(segments) > number + 1:
            gone += segments.drop_last().retire(self._pool)
        if end < segments.active.base_offset:  # nothing is left: the log starts again there
            gone += segments.drop_last().retire(self._pool)
            segment = Segment(f"{self.directory}/{end:020d}", end, self._pool, 0, clock_ms())
            segment.create()
            segments.add(segment)
        else:
            segments.active.truncate(end, position)
        os.fsync(segments.active.file.open().fd)
        sync_directory(self.directory)
        self._retired.append((clock_ms(), gone))
        self._ends_at(end)

    def restart_at(self, offset: int) -> None:
        """Drops everything: the log starts and ends at `offset`. For a follower whose leader has nothing that this
        log could go on from (R9). Durable when it returns."""
        self.write()
        try:
            segments, gone = self._segments, list[str]()
            self.log_dir.lower(self.tp, min(offset, self.log_start))
            self._cuts += 1
            segments.forget_places()
            while len(segments):
                gone += segments.drop_last().retire(self._pool)
            segment = Segment(f"{self.directory}/{offset:020d}", offset, self._pool, 0, clock_ms())
            segment.create()
            segments.add(segment)
            sync_directory(self.directory)
            self._retired.append((clock_ms(), gone))
            self._epochs.entries = []
            epochs.store(self.directory, self._epochs)
            for number in snapshots.offsets(self.directory):
                snapshots.remove(self.directory, number)
            self._snapshot = -1
            self._unflushed_sealed = []
            self.log_start = self.flushed = offset
            self._ends_at(offset)
        except OSError as problem:
            raise storage_error(problem, f"starting {self.tp} anew at {offset}") from problem

    def _cutting_point(self, offset: int) -> tuple[int, int, int]:
        """(segment, position, offset) where the log is to end so that it holds nothing of `offset` or more."""
        number = self._segments.number_of(offset)
        segment = self._segments.segments[number]
        if offset <= segment.base_offset:
            return number, 0, offset
        try:
            position, _, base, _ = segment.find(offset)
        except CorruptMessage:  # compaction took the end of the segment
            return number, segment.size, offset
        return number, position, min(base, offset)

    def _ends_at(self, end: int) -> None:
        self.log_end = self.written_end = end
        self._prepared = -1
        self.flushed = min(self.flushed, end)
        self.log_start = min(self.log_start, end)
        self.size = self._segments.size
        bases = {segment.base_offset for segment in self._segments.segments}
        self._unflushed_sealed = [one for one in self._unflushed_sealed if one.base_offset in bases]
        if self._unflushed_sealed and self._unflushed_sealed[-1] is self._segments.active:
            self._unflushed_sealed.pop()
        if self.flushed == end:
            self._dirty_since_ms = None
        if self._epochs.truncate_end(end):
            epochs.store(self.directory, self._epochs)
        self.latest_epoch = self._epochs.latest
        self._producers = snapshots.rebuild(self.directory, self._segments.segments, self.log_start, end, clock_ms())
        self._plan_segment()

    def advance_log_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; durable when it returns. `delete_old` removes their files."""
        self.write()
        if offset > self.log_end:
            raise OffsetOutOfRange(f"{self.tp} ends at {self.log_end}, it cannot start at {offset}")
        if offset <= self.log_start:
            return
        try:
            self.log_dir.store_log_start(self.tp, offset)
            self.log_start = offset
            self._trim_epochs()
        except OSError as problem:
            raise storage_error(problem, f"the log start of {self.tp}") from problem

    def adopt_log_start(self, offset: int) -> None:
        """A follower takes its leader's start, without waiting for the disk: the next checkpoint stores it, and after a
        crash before that the leader tells it again."""
        self.write()
        self.log_start = max(self.log_start, min(offset, self.log_end))
        try:
            with without_sync():
                self._trim_epochs()
        except OSError as problem:
            raise storage_error(problem, f"the log start of {self.tp}") from problem

    def _trim_epochs(self) -> None:
        if self._epochs.truncate_start(self.log_start):
            epochs.store(self.directory, self._epochs)

    # ---- retention

    def delete_old(self, now_ms: int, high_watermark: int) -> int:
        """Takes away the oldest segments that the settings do not keep; returns how many. Files go later: `purge`."""
        self.write()
        self._producers.expire(now_ms - self._producer_expiration_ms)
        segments = self._segments
        candidates = (
            retention.Candidate(segments.end_of(number, self.log_end), segment.size, segment.age_ms(now_ms))
            for number, segment in enumerate(segments.segments)
        )
        count, size = retention.removable(candidates, self.size, self.config, self.log_start, high_watermark)
        if not count:
            return 0
        try:
            if count == len(segments):
                self.roll()
            gone = segments.drop_first(count)
            for segment in gone:
                self._retired.append((now_ms, segment.retire(self._pool)))
                snapshots.remove(self.directory, segment.base_offset)
            self._unflushed_sealed = [one for one in self._unflushed_sealed if one not in gone]
            self.size = size
            self.log_start = max(self.log_start, segments.first_offset)
            self._trim_epochs()
        except OSError as problem:
            raise storage_error(problem, f"removing old segments of {self.tp}") from problem
        return count

    def expire_producers_after(self, milliseconds: int) -> None:
        """How long the sequence of an idle producer is remembered, from the next `delete_old` on."""
        self._producer_expiration_ms = milliseconds

    def purge(self, now_ms: int) -> list[str]:
        """Files that were taken away long enough ago: the caller removes them, out of the reactor's way."""
        delay = self.config.file_delete_delay_ms
        due = [path for since, paths in self._retired if since + delay <= now_ms for path in paths]
        self._retired = [(since, paths) for since, paths in self._retired if since + delay > now_ms]
        return due

    # ---- checkpoints and the end

    def roll(self) -> None:
        """Begins a new segment now, unless the last one is empty; nothing may be queued."""
        if self._segments.active.size:
            try:
                self._roll(self.log_end, self._producers.producers)
            except OSError as problem:
                raise storage_error(problem, f"a new segment of {self.tp}") from problem
            self._plan_segment()

    def prepare_checkpoint(self) -> None:
        """Stores what makes the next start quick: index entries, and a snapshot of producers."""
        self.write()
        if self._prepared == self.log_end:
            return
        self._segments.active.store_indexes()
        self._prepared = self.log_end
        if self._producers.producers or self._snapshot >= 0:
            snapshots.store(self.directory, self.log_end, self._producers.producers)
            if self._snapshot >= 0 and all(one.base_offset != self._snapshot for one in self._segments.segments):
                with contextlib.suppress(OSError):
                    snapshots.remove(self.directory, self._snapshot)
            self._snapshot = self.log_end

    def flush(self) -> None:
        """Makes everything durable, here and now: for tests and for the end."""
        self.write()
        target = self.flush_target()
        try:
            if target.files is None:
                active = self._segments.active.file.open()
                sync_file_system(active.fd)
            for file in target.files or ():
                os.fsync(file.fd)
        except OSError as problem:
            raise storage_error(problem, f"flushing {self.tp}") from problem
        self.flush_done(target)

    def close(self) -> FlushTarget:
        """Writes and stores all that a clean start needs; the caller syncs it (nothing, if nothing has changed) and
        then calls `closed`."""
        self.write()
        active = self._segments.active
        target = self.flush_target()
        if active.offsets.is_held:
            active.seal()
            if target.files is not None:
                target = target._replace(files=(*target.files, *active.files()))
        elif self._dirty_since_ms is None:
            target = target._replace(files=())
        if not snapshots.path_of(self.directory, self.log_end).exists():
            snapshots.store(self.directory, self.log_end, self._producers.producers)
        return target

    def closed(self) -> None:
        """Everything is durable; files that were taken away go at once."""
        self.flushed = self.written_end
        for _, paths in self._retired:
            for path in paths:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        self.forget_files()

    def forget_files(self) -> None:
        """Closes the files: others may come under their names."""
        for segment in self._segments.segments:
            for path in (segment.file.path, segment.offsets.path, segment.times.path):
                self._pool.forget(path)

    @property
    def first_offset(self) -> int:
        """Where the oldest segment starts: at `log_start` or before it."""
        return self._segments.first_offset

    @property
    def segment_count(self) -> int:
        """Segments, the one that is being written included."""
        return len(self._segments)
