"""One segment of a log: its file and both indexes.

A batch gets an index entry when more than `index.interval.bytes` were appended since the last one, as in Kafka. The
highest timestamp of a segment is known without reading it: the last entry of the time index has it once the segment
is sealed.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import NamedTuple

from brokerd.storage.file_range import FilePool, OpenFile
from brokerd.storage.offset_index import OffsetIndex
from brokerd.storage.segment_file import SegmentFile
from brokerd.storage.time_index import ENTRY_SIZE, TimeIndex
from kafka_wire.errors import CorruptMessage

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DELETED_SUFFIX = ".deleted"
MAX_RELATIVE = (1 << 31) - 1
NO_TIME = -1
USUAL_INTERVAL = 4096  # of index entries that are made outside of an append: Kafka's default


class Stored(NamedTuple):
    """What the indexes need to know of a batch."""

    last_offset: int
    size: int
    max_timestamp: int


class Segment:
    """The records from `base_offset` up to the next segment's. Lazy: a segment that nobody reads has no open file."""

    __slots__ = (
        "_first_timestamp",
        "_max",
        "_since_index",
        "base_offset",
        "created_ms",
        "file",
        "offsets",
        "stem",
        "times",
    )

    def __init__(self, stem: str, base_offset: int, pool: FilePool, size: int, created_ms: int) -> None:
        self.stem = stem
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.file = SegmentFile(stem + LOG_SUFFIX, pool, size)
        self.offsets = OffsetIndex(stem + INDEX_SUFFIX, base_offset, pool)
        self.times = TimeIndex(stem + TIME_INDEX_SUFFIX, base_offset, pool)
        self._max: tuple[int, int] | None = None if size else (NO_TIME, base_offset)
        self._first_timestamp: int | None = None
        self._since_index = 0

    @property
    def size(self) -> int:
        """Bytes of the log file."""
        return self.file.size

    @property
    def highest(self) -> tuple[int, int]:
        """(the highest timestamp, last offset of the first batch that has it)"""
        if self._max is None:
            self._max = self.times.last() or (NO_TIME, self.base_offset)
        return self._max

    @property
    def first_timestamp(self) -> int | None:
        """The timestamp of the first batch, from which `segment.ms` counts; None while it is empty."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = next(self.file.headers(0))[1].max_timestamp
        return self._first_timestamp

    def age_ms(self, now_ms: int) -> int:
        """How long ago the newest record was written; by the file's own time where records have none."""
        newest = self.highest[0]
        if newest < 0:
            try:
                newest = int(os.stat(self.file.path).st_mtime * 1000)
            except OSError:
                return 0
        return now_ms - newest

    def index_entries(self) -> int:
        """The number of entries of the fuller index."""
        return max(len(self.offsets), len(self.times))

    def is_index_full(self, limit_bytes: int) -> bool:
        """Whether the next entry would not fit; the time index has larger entries, and one is kept for `seal`."""
        return self.index_entries() >= max(limit_bytes // ENTRY_SIZE - 1, 1)

    # ---- growing

    def create(self) -> None:
        """Makes the files of a new segment."""
        self.file.create()
        self.offsets.start_over()
        self.times.start_over()

    def add(self, batches: Iterable[Stored], position: int, interval: int) -> bool:
        """Takes note of batches that were written from `position` on; True if an index entry was made."""
        if not self.offsets.is_held:
            self.offsets.hold()
            self.times.hold()
        base, since = self.base_offset, self._since_index
        highest, highest_offset = self.highest
        if self._first_timestamp is None:
            self.first_timestamp  # noqa: B018 - read from the file once, now that it has a batch
        indexed = False
        for last_offset, size, timestamp in batches:
            if timestamp > highest:
                highest, highest_offset = timestamp, last_offset
            if since > interval:
                indexed = True
                self.offsets.add(last_offset - base, position)
                self._add_time(highest, highest_offset)
                since = 0
            since += size
            position += size
        self._since_index = since
        self._max = highest, highest_offset
        return indexed

    def _add_time(self, timestamp: int, offset: int) -> None:
        last = self.times.last()
        if timestamp > (NO_TIME if last is None else last[0]) and (last is None or offset > last[1]):
            self.times.add(timestamp, offset - self.base_offset)

    def store_indexes(self) -> None:
        """Writes new entries to the index files."""
        self.offsets.store()
        self.times.store()

    def seal(self) -> None:
        """Ends the growing: the highest timestamp gets its entry, memory is given back."""
        if self.size:
            self.times.hold()
            self._add_time(*self.highest)
        self.offsets.release()
        self.times.release()

    def files(self) -> tuple[OpenFile, ...]:
        """The open files, to be synced."""
        return self.file.open(), self.offsets.file(create=True), self.times.file(create=True)

    # ---- looking up

    def walk_start(self, entry: tuple[int, int] | None) -> int:
        """The position of an index entry, if the log has that very batch there; else the beginning."""
        if entry is not None:
            with contextlib.suppress(CorruptMessage):
                head = next(self.file.heads(entry[1]), None)
                if head is not None and head[3] == self.base_offset + entry[0]:
                    return entry[1]
        return 0

    def find(self, offset: int) -> tuple[int, int, int, int]:
        """(position, size, base offset, last offset) of the first batch that ends at or after `offset`.

        CorruptMessage if the file holds no such batch. An index that leads astray is made again.
        """
        entry = self.offsets.last_up_to(offset - self.base_offset)
        if entry is None:
            return self._find_from(0, offset)
        try:
            found = next(self.file.heads(entry[1]), None)
            if found is not None and found[3] == self.base_offset + entry[0]:
                return found if found[3] >= offset else self._find_from(found[0] + found[1], offset)
        except CorruptMessage:
            pass  # perhaps only the index is wrong
        self.reindex(USUAL_INTERVAL)
        return self._find_from(0, offset)

    def _find_from(self, position: int, offset: int) -> tuple[int, int, int, int]:
        for head in self.file.heads(position):
            if head[3] >= offset:
                return head
        raise CorruptMessage(f"{self.file.path} has no batch with offset {offset}")

    def end_from_index(self) -> int:
        """The offset after the last batch, by a walk from the last index entry; CorruptMessage if that fails."""
        end = self.base_offset
        count = len(self.offsets)
        start = self.offsets.entry(count - 1)[1] if count else 0
        if not start < self.size and start:
            raise CorruptMessage(f"{self.offsets.path} points beyond the log")
        for _, _, base, last in self.file.heads(start):
            if base < end:
                raise CorruptMessage(f"{self.file.path} has offset {base} after {end - 1}")
            end = last + 1
        return end

    def boundary(self, offset: int) -> int:
        """The position of the first batch from `offset` on, or the end; CorruptMessage if no batch begins there."""
        if offset <= self.base_offset:
            return 0
        position, size, base, last = self.find(offset - 1)
        if base > offset - 1:  # compaction took what was there
            return position
        if last != offset - 1:
            raise CorruptMessage(f"{self.file.path} has offset {offset} in the middle of a batch")
        return position + size

    # ---- mending

    def reindex(self, interval: int) -> None:
        """Makes both indexes again from the headers in the file, as far as those are sound, and stores them."""
        self.start_indexes_over()
        with contextlib.suppress(CorruptMessage):
            for position, header in self.file.headers(0):
                self.add([Stored(header.last_offset, header.size, header.max_timestamp)], position, interval)
        self._add_time(*self.highest)
        self.store_indexes()

    def start_indexes_over(self) -> None:
        """Forgets all entries; `add` makes new ones."""
        self.offsets.start_over()
        self.times.start_over()
        self._max = (NO_TIME, self.base_offset)
        self._since_index = 0

    def keep_indexes(self, offset: int, position: int) -> None:
        """Drops the index entries of `offset` and more, whose batch begins at `position`; the rest goes on to grow."""
        self.offsets.hold()
        self.times.hold()
        self.offsets.truncate(self.offsets.count_up_to(position - 1, 1))
        self.times.truncate(self.times.count_up_to(offset - 1 - self.base_offset, 1))
        self._max = self.times.last() or (NO_TIME, self.base_offset)
        start = self.offsets.entry(len(self.offsets) - 1)[1] if len(self.offsets) else 0
        self._since_index = position - start
        self._first_timestamp = None
        for _, header in self.file.headers(start, position):  # what the time index does not know yet
            if header.max_timestamp > self._max[0]:
                self._max = header.max_timestamp, header.last_offset

    def truncate(self, offset: int, position: int) -> None:
        """Cuts the file at a batch boundary; `offset` is the base of the first batch that goes."""
        self.file.truncate(position)
        self.keep_indexes(offset, position)

    def discard(self, pool: FilePool) -> None:
        """Removes what a failed `create` may have left."""
        for path in (self.file.path, self.offsets.path, self.times.path):
            pool.forget(path)
            with contextlib.suppress(OSError):
                os.unlink(path)

    def retire(self, pool: FilePool) -> list[str]:
        """Renames the files away, to be removed later; returns their new names."""
        names = []
        for path in (self.file.path, self.offsets.path, self.times.path):
            pool.forget(path)
            try:
                os.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            names.append(path + DELETED_SUFFIX)
        return names
