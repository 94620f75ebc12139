"""Opening the log of a partition: quickly after a clean stop, carefully after a crash.

After a clean stop the directory is listed and the end of the last segment looked at. Otherwise everything from the
recovery point on is read: it was not known to be on the disk. What is not a whole good batch there is a torn tail and
is cut off with all that follows, indexes are made anew, and the result is flushed before anybody sees it. Below the
recovery point everything was durable: what is missing or bad there is damage (LogDamaged), and nothing is changed.
"""

import os
from collections.abc import Callable
from pathlib import Path

import attrs

from brokerd.storage import epochs, snapshots
from brokerd.storage.checkpoint import BadCheckpoint
from brokerd.storage.epochs import EpochHistory
from brokerd.storage.errors import LogDamaged
from brokerd.storage.file_range import FilePool, sync_directory, sync_file_system
from brokerd.storage.log_dir import LogDir
from brokerd.storage.log_writer import MANY_SEGMENTS, clock_ms
from brokerd.storage.partition_log import PRODUCER_EXPIRATION_MS, PartitionLog
from brokerd.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    Stored,
)
from brokerd.storage.segment_list import SegmentList
from brokerd.topic_config import TopicConfig
from kafka_wire.errors import CorruptMessage
from kafka_wire.ids import TopicPartition

LEFT_OVERS = (DELETED_SUFFIX, ".tmp", ".cleaned")
SWAP_SUFFIX = ".swap"


@attrs.define
class _Opening:
    """What is being found out about one log."""

    tp: TopicPartition
    directory: Path
    pool: FilePool
    report: Callable[[str], None]
    index_interval: int
    segments: list[Segment] = attrs.Factory(list)
    new_epochs: list[tuple[int, int]] = attrs.Factory(list)


def open_log(
    tp: TopicPartition,
    topic_id: bytes | None,
    log_dir: LogDir,
    directory: Path,
    config: TopicConfig,
    pool: FilePool,
    *,
    clean: bool,
    report: Callable[[str], None],
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
) -> PartitionLog:
    """The log in a directory, recovered unless `clean`. Raises LogDamaged, and OSError from the disk."""
    opening = _Opening(tp, directory, pool, report, config.index_interval_bytes)
    try:
        return _open(opening, topic_id, log_dir, config, clean, producer_expiration_ms)
    except CorruptMessage as problem:
        raise LogDamaged(
            f"{problem}, where everything was durable; the files are left as they are, for a person to look at"
        ) from problem


def _open(
    opening: _Opening,
    topic_id: bytes | None,
    log_dir: LogDir,
    config: TopicConfig,
    clean: bool,
    producer_expiration_ms: int,
) -> PartitionLog:
    tp, directory = opening.tp, opening.directory
    recovery_point = log_dir.recovery_points.get(tp, 0)
    unindexed = _list(opening)
    if not opening.segments:
        if recovery_point:
            raise LogDamaged(f"{directory} has no segment, but {recovery_point} records were durable")
        _begin(opening, log_dir.log_starts.get(tp, 0))
    for segment in unindexed:
        segment.reindex(opening.index_interval)
    log_end = _clean_end(opening, recovery_point) if clean else None
    if log_end is None:
        log_end = _recover(opening, recovery_point)
    segments = opening.segments
    log_start = min(max(log_dir.log_starts.get(tp, 0), segments[0].base_offset), log_end)
    history = _epochs(opening, log_start, log_end)
    now = clock_ms()
    producers = snapshots.rebuild(directory, segments, log_start, log_end, now)
    _remove_stray_snapshots(opening)
    return PartitionLog(
        tp,
        topic_id,
        log_dir,
        directory,
        config,
        opening.pool,
        SegmentList(segments),
        history,
        producers,
        log_start=log_start,
        log_end=log_end,
        producer_expiration_ms=producer_expiration_ms,
    )


# ---- listing


def _list(opening: _Opening) -> list[Segment]:
    """Finds the segments; removes what earlier removals left. Returns the segments without an index file."""
    names = set()
    for entry in os.scandir(opening.directory):
        if entry.name.endswith(SWAP_SUFFIX):
            raise LogDamaged(f"{entry.path}: a compaction was interrupted; start the broker that did it once more")
        if entry.name.endswith(LEFT_OVERS):
            os.unlink(entry.path)
            continue
        names.add(entry.name)
        stem = entry.name[: -len(LOG_SUFFIX)]
        if entry.name.endswith(LOG_SUFFIX) and stem.isdigit():
            stat = entry.stat()
            opening.segments.append(
                Segment(f"{opening.directory}/{stem}", int(stem), opening.pool, stat.st_size, int(stat.st_mtime * 1000))
            )
    opening.segments.sort(key=lambda segment: segment.base_offset)
    return [
        segment
        for segment in opening.segments
        if not {os.path.basename(segment.stem) + suffix for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)} <= names
    ]


def _begin(opening: _Opening, base_offset: int) -> None:
    segment = Segment(f"{opening.directory}/{base_offset:020d}", base_offset, opening.pool, 0, clock_ms())
    segment.create()
    sync_directory(opening.directory)
    opening.segments.append(segment)


# ---- finding the end


def _clean_end(opening: _Opening, recovery_point: int) -> int | None:
    """The end of the log after a clean stop; None if it does not look like one."""
    try:
        end = opening.segments[-1].end_from_index()
    except CorruptMessage as problem:
        opening.report(f"{opening.tp}: {problem}, although the last stop was clean; recovering")
        return None
    if end < recovery_point:
        raise LogDamaged(f"{opening.directory} ends at offset {end}, but {recovery_point} records were durable")
    return end


def _recover(opening: _Opening, recovery_point: int) -> int:
    """Reads everything from the recovery point on; returns the end of the log."""
    segments = opening.segments
    recovery_point = max(recovery_point, segments[0].base_offset)
    number = max(index for index, segment in enumerate(segments) if segment.base_offset <= recovery_point)
    position = _position_of(opening, segments[number], recovery_point)
    end = recovery_point
    scanned = segments[number:]
    for segment in scanned:
        if segment is not scanned[0] and segment.base_offset != end:
            _drop_from(opening, segment, f"nothing leads from offset {end} to")
            break
        if segment is not scanned[0]:
            position = 0
            segment.start_indexes_over()
        end, stop = _scan(opening, segment, position, end)
        if stop < segment.size:
            opening.report(
                f"{opening.tp}: {segment.size - stop} bytes after offset {end} are not whole good batches; cut off"
            )
            segment.file.truncate(stop)
            following = [later for later in scanned if later.base_offset > segment.base_offset]
            if following:
                _drop_from(opening, following[0], "a torn segment comes before")
            break
    _sync(opening, scanned)
    return end


def _position_of(opening: _Opening, segment: Segment, offset: int) -> int:
    """Where the batch that starts at the recovery point is or would be, index entries kept up to there."""
    if not (segment.offsets.is_sound() and segment.times.is_sound()):
        segment.reindex(opening.index_interval)
    position = segment.boundary(offset)
    segment.keep_indexes(offset, position)
    return position


def _scan(opening: _Opening, segment: Segment, position: int, end: int) -> tuple[int, int]:
    """Takes in the good batches from `position`; returns (the end of the log, where the good bytes end)."""
    for at, header in segment.file.scan(position):
        if header.base_offset < end:
            break
        segment.add([Stored(header.last_offset, header.size, header.max_timestamp)], at, opening.index_interval)
        if not opening.new_epochs or opening.new_epochs[-1][0] != header.leader_epoch:
            opening.new_epochs.append((header.leader_epoch, header.base_offset))
        end, position = header.next_offset, at + header.size
    return end, position


def _drop_from(opening: _Opening, first: Segment, why: str) -> None:
    """Takes away a segment and all after it, which cannot be part of the log."""
    number = opening.segments.index(first)
    opening.report(f"{opening.tp}: {why} the segment at {first.base_offset}; it and later ones are dropped")
    for segment in opening.segments[number:]:
        segment.retire(opening.pool)
    del opening.segments[number:]


def _sync(opening: _Opening, scanned: list[Segment]) -> None:
    """Makes what was scanned durable, indexes included. A new log has only names, whose sync may be deferred."""
    last = opening.segments[-1]
    scanned = [segment for segment in scanned if segment.size and segment in opening.segments]
    last.store_indexes()
    for segment in scanned:
        if segment is not last:
            segment.seal()
    if len(scanned) > MANY_SEGMENTS:
        file = last.file.open()
        sync_file_system(file.fd)
        return
    for segment in scanned:
        for file in segment.files():
            os.fsync(file.fd)
    sync_directory(opening.directory)


# ---- epochs and producers


def _epochs(opening: _Opening, log_start: int, log_end: int) -> EpochHistory:
    """The stored history, brought in line with the log; made again from the log if it is damaged."""
    changed = False
    try:
        history = epochs.load(opening.directory)
    except BadCheckpoint as problem:
        opening.report(f"{problem}; it is made again from the log")
        history, changed = _epochs_of_batches(opening), True
    for epoch, start in opening.new_epochs:
        if epoch > history.latest:
            changed |= history.assign(epoch, start)
    changed |= history.truncate_end(log_end)
    changed |= history.truncate_start(log_start)
    if changed:
        epochs.store(opening.directory, history)
    return history


def _epochs_of_batches(opening: _Opening) -> EpochHistory:
    history = EpochHistory()
    for segment in opening.segments:
        for _, header in segment.file.headers(0):
            if header.leader_epoch > history.latest:
                history.assign(header.leader_epoch, header.base_offset)
    return history


def _remove_stray_snapshots(opening: _Opening) -> None:
    """Only the last one and those of segments are of use."""
    bases = {segment.base_offset for segment in opening.segments}
    for offset in snapshots.offsets(opening.directory)[:-1]:
        if offset not in bases:
            snapshots.remove(opening.directory, offset)
