"""The files of a log directory, read for a person: what is in them, and where damage begins.

Nothing is trusted and nothing is changed. A reader yields what is sound and, at the first thing that is not, a Damage;
it goes on behind damage only where the next entry's place is known. Formats are Kafka's: `.log`, `.index`,
`.timeindex`, `.snapshot` (producer state) and the checkpoints.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import attrs
from crc32c import crc32c

from kafka_wire import batches
from kafka_wire.batches import HEADER_SIZE, BatchHeader
from kafka_wire.errors import CorruptMessage, InvalidRecord

SNAPSHOT_VERSION = 1
LARGEST_BATCH = 1 << 30  # a length above this is taken for damage, not for a batch to be read into memory

_OFFSET_ENTRY = struct.Struct(">ii")  # both relative: the offset to the segment's base, the position to its start
_TIME_ENTRY = struct.Struct(">qi")
_SNAPSHOT_HEAD = struct.Struct(">hIi")  # version, CRC-32C of what follows it, number of entries
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_COVERS_FROM = 6
_NAME = re.compile(r"(\d{20})\.")
_SCRATCH = re.compile(r"\.(deleted|cleaned|swap|snapshot\.deleted)$")


@attrs.frozen
class Damage:
    """Where a file stops to make sense; `unread` bytes behind it were not looked at."""

    position: int
    reason: str
    unread: int = 0


@attrs.frozen
class StoredBatch:
    """A batch in a file; `problem` says why it is not valid, although the place of the next one is known."""

    position: int
    header: BatchHeader
    data: bytes
    problem: str | None


class OffsetEntry(NamedTuple):
    """An entry of `.index`: the batch with this last offset begins at this position of the log."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """An entry of `.timeindex`: no record up to this offset is younger than this time."""

    timestamp: int
    offset: int


class ProducerEntry(NamedTuple):
    """An entry of `.snapshot`: what the log knows of one idempotent producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_transaction_offset: int


def kind_of(path: Path) -> str | None:
    """`log`, `index`, `timeindex`, `snapshot`, `checkpoint`, or None for a file that is none of them."""
    name = _SCRATCH.sub("", path.name)
    if name.endswith("-checkpoint"):
        return "checkpoint"
    ending = name.rpartition(".")[2]
    return ending if ending in ("log", "index", "timeindex", "snapshot") else None


def base_offset_of(path: Path) -> int:
    """The offset in the name of a segment's file; 0 for a file that was renamed."""
    found = _NAME.match(path.name)
    return int(found[1]) if found else 0


def read_log(file: BinaryIO, size: int) -> Iterator[StoredBatch | Damage]:
    """The batches of a `.log` of `size` bytes. A batch with a bad CRC is yielded with its problem, and read over."""
    position, expected = 0, -1
    while position < size:
        left = size - position
        head = file.read(HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            yield Damage(position, f"{left} bytes are too few for a batch: cut short while it was written", left)
            return
        header = batches.read_header(head)
        reason = _impossible(header, head, left)
        if reason is not None:
            yield Damage(position, reason, left)
            return
        data = head + file.read(header.size - HEADER_SIZE)
        problem = _problem(header, data, expected)
        yield StoredBatch(position, header, data, problem)
        position += header.size
        if problem is None:  # else its offsets are not to be believed
            expected = header.next_offset


def _impossible(header: BatchHeader, head: bytes, left: int) -> str | None:
    """Why the next batch cannot be found from this header."""
    if not any(head):
        return "zeros where a batch should begin: space that was reserved and never written"
    if header.magic in (0, 1):
        return f"a message set of the old format (magic {header.magic}), which is not read"
    if header.magic != batches.MAGIC or not HEADER_SIZE <= header.size <= LARGEST_BATCH:
        return f"no batch begins here (magic {header.magic}, size {header.size})"
    if header.size > left:
        return f"a batch of {header.size} bytes of which {left} are there: cut short while it was written"
    return None


def _problem(header: BatchHeader, data: bytes, expected: int) -> str | None:
    try:
        batches.check_batch(data, 0, len(data), from_client=False)
    except (CorruptMessage, InvalidRecord) as error:
        return error.message
    if header.base_offset < expected:
        return f"its offset {header.base_offset} is below {expected}, where the batch before it ended"
    return None


def read_index(data: bytes, base_offset: int) -> Iterator[OffsetEntry | Damage]:
    """The entries of an `.index`; offsets and positions rise."""
    last = OffsetEntry(-1, -1)
    for place, relative, position in _entries(data, _OFFSET_ENTRY):
        entry = OffsetEntry(base_offset + relative, position)
        if entry.offset <= last.offset or entry.position <= last.position:
            yield Damage(place, f"{tuple(entry)} does not lie behind {tuple(last)}", len(data) - place)
            return
        yield entry
        last = entry
    yield from _cut_entry(data, _OFFSET_ENTRY)


def read_time_index(data: bytes, base_offset: int) -> Iterator[TimeEntry | Damage]:
    """The entries of a `.timeindex`; times rise, offsets do not fall."""
    last = TimeEntry(-2, -1)
    for place, timestamp, relative in _entries(data, _TIME_ENTRY):
        entry = TimeEntry(timestamp, base_offset + relative)
        if entry.timestamp <= last.timestamp or entry.offset < last.offset:
            yield Damage(place, f"{tuple(entry)} does not lie behind {tuple(last)}", len(data) - place)
            return
        yield entry
        last = entry
    yield from _cut_entry(data, _TIME_ENTRY)


def _entries(data: bytes, entry: struct.Struct) -> Iterator[tuple[int, int, int]]:
    """(place, two fields) of every entry, without the zeros that a running Kafka reserves behind them."""
    used = len(data.rstrip(b"\0")) if len(data) > entry.size else len(data)
    whole = min(len(data) - len(data) % entry.size, -(-used // entry.size) * entry.size)
    for place, (first, second) in enumerate(entry.iter_unpack(data[:whole])):
        yield place * entry.size, first, second


def _cut_entry(data: bytes, entry: struct.Struct) -> Iterator[Damage]:
    rest = len(data) % entry.size
    if rest:
        yield Damage(len(data) - rest, f"{rest} bytes are too few for an entry of {entry.size}", rest)


def read_snapshot(data: bytes) -> Iterator[ProducerEntry | Damage]:
    """The producers of a `.snapshot`. Without a sound CRC none is shown: they are believed all or not at all."""
    if len(data) < _SNAPSHOT_HEAD.size:
        yield Damage(0, f"{len(data)} bytes are too few for a snapshot", len(data))
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        yield Damage(0, f"version {version} is not known, only {SNAPSHOT_VERSION}", len(data))
    elif crc32c(data[_CRC_COVERS_FROM:]) != crc:
        yield Damage(2, "the CRC-32C does not match", len(data) - _CRC_COVERS_FROM)
    elif _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size != len(data):
        yield Damage(_CRC_COVERS_FROM, f"{count} producers do not fit {len(data)} bytes", len(data) - _CRC_COVERS_FROM)
    else:
        for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :]):
            yield ProducerEntry(*fields)


def check_index(entry: OffsetEntry, log: BinaryIO, log_size: int) -> str | None:
    """Why an index entry cannot be right for the log beside it, or None."""
    if entry.position + HEADER_SIZE > log_size:
        return f"position {entry.position} lies beyond the log's {log_size} bytes"
    log.seek(entry.position)
    header = batches.read_header(log.read(HEADER_SIZE))
    if header.magic != batches.MAGIC or header.size < HEADER_SIZE:
        return f"no batch begins at position {entry.position}"
    if header.base_offset > entry.offset:
        return f"the batch at position {entry.position} begins at offset {header.base_offset}"
    return None


def read_checkpoint(data: bytes, columns: int) -> Iterator[list[str | int] | Damage]:
    """The lines of a checkpoint file: version 0, the number of lines, then so many of `columns` fields each.

    The last two fields are numbers, a third one before them is a topic.
    """
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdecimal():
        yield Damage(0, "no version 0 and number of lines at its begin", len(data))
        return
    count = int(lines[1])
    position = len(lines[0]) + len(lines[1]) + 2
    for number, line in enumerate(lines[2:]):
        fields = line.split(" ")
        if number >= count or len(fields) != columns or not all(_is_number(field) for field in fields[-2:]):
            yield Damage(position, f"line {number + 3} is not one of {count} with {columns} fields: {line!r}")
            return
        yield [*fields[:-2], *map(int, fields[-2:])]
        position += len(line.encode()) + 1
    if len(lines) - 2 < count:
        yield Damage(len(data), f"{count} lines are announced, {len(lines) - 2} are there")


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
