"""The segments of one log in order, and every way to look into them: by offset, by timestamp, for bytes to send.

A reader at the end of the log costs no system call: the position of each offset at which a turn's write ended, or a
reader stopped, is remembered for a while. Any other read costs a search in the index and a short walk over headers.
"""

from __future__ import annotations

from bisect import bisect_right

from brokerd.storage.file_range import EMPTY, FileRange
from brokerd.storage.segment import Segment
from kafka_wire.batches import read_header
from kafka_wire.errors import CorruptMessage, KafkaStorageError
from kafka_wire.records import decode_batch

PLACES = 128  # remembered positions of a log

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch) of a record."""


class SegmentList:
    """At least one segment; the last one is being written."""

    __slots__ = ("_bases", "_places", "active", "segments")

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._places: dict[int, tuple[Segment, int]] = {}
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def first_offset(self) -> int:
        """Where the oldest segment starts."""
        return self._bases[0]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def end_of(self, number: int, log_end: int) -> int:
        """The offset after the last one of a segment."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end

    # ---- changing

    def add(self, segment: Segment) -> None:
        """A new last segment."""
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._places[segment.base_offset] = segment, 0

    def drop_last(self) -> Segment:
        """Takes the last segment away: its creation failed, or the log is cut."""
        self._bases.pop()
        gone = self.segments.pop()
        self._places.clear()
        self.active = self.segments[-1] if self.segments else gone
        return gone

    def drop_first(self, count: int) -> list[Segment]:
        """Takes the oldest segments away."""
        gone = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self._places.clear()
        return gone

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """The batch that holds `offset` begins (or, at the end of the log, will begin) at `position`."""
        places = self._places
        places[offset] = segment, position
        if len(places) > PLACES:
            del places[next(iter(places))]

    def forget_places(self) -> None:
        """To be called when a file was cut."""
        self._places.clear()

    # ---- by offset

    def number_of(self, offset: int) -> int:
        """Which segment holds an offset."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def locate(self, offset: int) -> tuple[Segment, int]:
        """(segment, position) of the first batch that ends at or after `offset`; CorruptMessage if there is none."""
        place = self._places.get(offset)
        if place is not None and place[1] < place[0].file.size:
            return place
        number = self.number_of(offset)
        try:
            segment = self.segments[number]
            position = segment.find(offset)[0]
        except CorruptMessage:
            if number + 1 == len(self.segments):
                raise
            # Compaction may have removed the end of a segment: the next batch is the next segment's first.
            segment, position = self.segments[number + 1], 0
        self.remember(offset, segment, position)
        return segment, position

    def read(self, offset: int, max_bytes: int, end_offset: int, log_end: int, min_one: bool) -> FileRange:
        """Batches from the one that holds `offset` up to `end_offset`, all from one segment: see PartitionLog.read."""
        if offset >= end_offset:
            return EMPTY
        try:
            segment, start = self.locate(offset)
            count = self._stop(segment, end_offset, log_end) - start
            if count > max_bytes:
                count = self._cut(segment, start, max_bytes, min_one)
        except CorruptMessage as problem:
            raise KafkaStorageError(f"the log cannot be read: {problem}") from problem
        return FileRange(segment.file.open(), start, count) if count > 0 else EMPTY

    def _stop(self, segment: Segment, end_offset: int, log_end: int) -> int:
        """The position in a segment up to which batches are below `end_offset`."""
        if end_offset >= log_end or (segment is not self.active and end_offset >= self._next_base(segment)):
            return segment.file.size
        place = self._places.get(end_offset)
        if place is not None and place[0] is segment:
            return place[1]
        position, _, base, _ = segment.find(end_offset)
        if base == end_offset:
            self.remember(end_offset, segment, position)
        return position

    def _next_base(self, segment: Segment) -> int:
        return self._bases[bisect_right(self._bases, segment.base_offset)]

    def _cut(self, segment: Segment, start: int, max_bytes: int, min_one: bool) -> int:
        """At most `max_bytes` but at least the first batch (nothing if that is not wanted and does not fit), up to
        an indexed batch where there is one: bytes of a batch that does not fit are sent for nothing."""
        first = segment.file.batch_size(start)
        if first > max_bytes:
            return first if min_one else 0
        boundary = segment.offsets.batch_before(start + max_bytes)
        return boundary - start if boundary >= start + first else max_bytes

    # ---- by timestamp

    def offset_for_timestamp(self, timestamp: int, start_offset: int, end_offset: int) -> Found | None:
        """The first record from `start_offset` on with at least this timestamp, below `end_offset`."""
        for number in range(self.number_of(start_offset), len(self.segments)):
            segment = self.segments[number]
            if segment.base_offset >= end_offset:
                return None
            if segment.highest[0] < timestamp or not segment.size:
                continue
            found = _first_since(segment, timestamp, start_offset, end_offset)
            if found is not None:
                return found
        return None

    def max_timestamp(self, end_offset: int, log_end: int) -> Found | None:
        """The first of the records with the highest timestamp below `end_offset`."""
        best: tuple[int, int, Segment] | None = None
        for number, segment in enumerate(self.segments):
            if segment.base_offset >= end_offset or not segment.size:
                continue
            whole = self.end_of(number, log_end) <= end_offset
            timestamp, offset = segment.highest if whole else _highest_below(segment, end_offset)
            if timestamp >= 0 and (best is None or timestamp > best[0]):
                best = timestamp, offset, segment
        if best is None:
            return None
        timestamp, offset, segment = best
        position, size, _, _ = segment.find(offset)
        # A producer may have announced a timestamp that none of its records has: its batch still is the newest.
        return _first_in_batch(segment, position, size, timestamp, 0) or (timestamp, offset, -1)


def _first_since(segment: Segment, timestamp: int, start_offset: int, end_offset: int) -> Found | None:
    begin = segment.find(max(segment.times.offset_before(timestamp), start_offset))[0]
    for position, header in segment.file.headers(begin):
        if header.base_offset >= end_offset:
            return None
        if header.max_timestamp >= timestamp:
            found = _first_in_batch(segment, position, header.size, timestamp, start_offset)
            if found is not None:
                return found if found[1] < end_offset else None
    return None


def _first_in_batch(segment: Segment, position: int, size: int, timestamp: int, start_offset: int) -> Found | None:
    """Decodes one batch, the only place where the broker looks at single records."""
    data = segment.file.read(position, size)
    epoch = read_header(data).leader_epoch
    for record in decode_batch(data):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset, epoch
    return None


def _highest_below(segment: Segment, end_offset: int) -> tuple[int, int]:
    """(highest timestamp, last offset of its batch) of the batches below `end_offset`: from the indexes up to the last
    entry, and by a walk from there (see time_index.py)."""
    entry = segment.offsets.last_up_to(end_offset - 1 - segment.base_offset)
    begin, best = 0, (-1, segment.base_offset)
    if entry is not None:
        begin = segment.walk_start(entry)
    if entry is not None and begin == entry[1]:
        best = segment.times.highest_up_to(segment.base_offset + entry[0]) or best
    for _, header in segment.file.headers(begin):
        if header.base_offset >= end_offset:
            break
        if header.max_timestamp > best[0]:
            best = header.max_timestamp, header.last_offset
    return best
