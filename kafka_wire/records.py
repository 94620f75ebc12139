"""Single records: batches of them to bytes and back, for clients, tools and compaction. Not on the broker's hot path.

A record is a varint length, then: attributes (one unused byte), timestamp delta, offset delta, key, value, headers.
Lengths, counts and deltas are zigzag varints; a length of -1 is null. Deltas count from the batch header's fields.
A timestamp of -1 means that the record has none.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from kafka_wire import batches, compression
from kafka_wire.batches import BatchHeader, Buffer
from kafka_wire.errors import CorruptMessage, InvalidRecord

DECOMPRESSED_LIMIT = 128 * 1024 * 1024  # per batch, unless the caller knows better
MIN_RECORD_SIZE = 7  # length, attributes, two deltas, null key, null value, no headers: a byte each

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One message. `timestamp` is in ms (-1 none); header names are text, undecodable bytes kept by surrogateescape."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


# --- encoding ---


def _varint_bytes(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Deltas and lengths of usual records, made once: the table covers two-byte varints.
_TABLE = tuple(_varint_bytes(value) for value in range(8192))
_NULL = _varint_bytes(-1)


def varint(value: int) -> bytes:
    """The zigzag varint of a number."""
    return _TABLE[value] if 0 <= value < 8192 else _varint_bytes(value)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        raw = name.encode("utf-8", "surrogateescape")
        parts.append(varint(len(raw)))
        parts.append(raw)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def encode_record(timestamp_delta: int, offset_delta: int, record: Record) -> bytes:
    """One record with its length in front, as it stands in an uncompressed batch."""
    _, _, key, value, headers = record
    body = b"".join(
        (
            b"\x00",
            varint(timestamp_delta),
            varint(offset_delta),
            _NULL if key is None else varint(len(key)) + key,
            _NULL if value is None else varint(len(value)) + value,
            _encode_headers(headers) if headers else b"\x00",
        )
    )
    return varint(len(body)) + body


def encode_batch(
    records: Iterable[Record],
    *,
    codec: int = compression.NONE,
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    log_append_time: int | None = None,
    keep_offsets: bool = False,
) -> bytes:
    """One batch. Records are numbered in their order from `base_offset`; their own `offset` fields are ignored,
    unless `keep_offsets` says that they are real (compaction leaves holes).

    `log_append_time` stamps the batch as a broker does. Raises ValueError for no records at all.
    """
    batch = list(records)
    if not batch:
        raise ValueError("a batch needs a record")
    first_timestamp = batch[0].timestamp
    if keep_offsets:
        deltas: Sequence[int] = [record.offset - base_offset for record in batch]
        if deltas[0] < 0 or any(later <= earlier for earlier, later in pairwise(deltas)):
            raise ValueError("offsets do not rise from the base offset")
    else:
        deltas = range(len(batch))
    body = b"".join(
        [
            encode_record(record.timestamp - first_timestamp, delta, record)
            for delta, record in zip(deltas, batch, strict=True)
        ]
    )
    body = compression.compress(codec, body, level)
    attributes = codec | (batches.TRANSACTIONAL if transactional else 0)
    last_timestamp = max(record.timestamp for record in batch)
    if log_append_time is not None:
        attributes |= batches.LOG_APPEND_TIME
        last_timestamp = log_append_time
    covered = _COVERED.pack(
        attributes,
        deltas[-1],
        first_timestamp,
        last_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(batch),
    )
    size = batches.HEADER_SIZE + len(body)
    start = batches.prefix(base_offset, size, leader_epoch)
    return b"".join((start, _MAGIC_AND_CRC.pack(batches.MAGIC, crc32c(body, crc32c(covered))), covered, body))


_COVERED = struct.Struct(">hiqqqhii")
_MAGIC_AND_CRC = struct.Struct(">bI")


# --- decoding ---


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """(number, next position) of a zigzag varint of at most ten bytes; IndexError where the data ends."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise CorruptMessage("a number of more than ten bytes")


def _read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(data, pos)
    if size < 0:
        if size != -1:
            raise CorruptMessage(f"a length of {size}")
        return None, pos
    stop = pos + size
    if stop > end:
        raise CorruptMessage(f"a field of {size} bytes in a room of {end - pos}")
    return data[pos:stop], stop


def _read_headers(data: bytes, pos: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    if count < 0 or 2 * count > end - pos:
        raise CorruptMessage(f"{count} headers in a room of {end - pos} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, pos = _read_bytes(data, pos, end)
        if name is None:
            raise CorruptMessage("a header without a name")
        value, pos = _read_bytes(data, pos, end)
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), pos


def _read_record(data: bytes, pos: int, header: BatchHeader, fixed_time: int | None) -> tuple[Record, int]:
    size, pos = read_varint(data, pos)
    end = pos + size
    if size < MIN_RECORD_SIZE - 1 or end > len(data):
        raise CorruptMessage(f"a record of {size} bytes in a room of {len(data) - pos}")
    timestamp_delta, pos = read_varint(data, pos + 1)
    offset_delta, pos = read_varint(data, pos)
    key, pos = _read_bytes(data, pos, end)
    value, pos = _read_bytes(data, pos, end)
    count, pos = read_varint(data, pos)
    headers: tuple[Header, ...] = ()
    if count:
        headers, pos = _read_headers(data, pos, end, count)
    if pos != end:
        raise CorruptMessage(f"a record ends {pos - end} bytes from where its length says")
    timestamp = header.base_timestamp + timestamp_delta if fixed_time is None else fixed_time
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def decode_batch(buf: Buffer, pos: int = 0, *, limit: int = DECOMPRESSED_LIMIT) -> list[Record]:
    """The records of the whole batch at `pos`, its CRC checked; `limit` caps the bytes after decompression.

    CorruptMessage, InvalidRecord or MessageTooLarge, never anything else, whatever the bytes are.
    """
    header = batches.check_batch(buf, pos, len(buf), from_client=False)
    return decode_records(header, memoryview(buf)[pos + batches.HEADER_SIZE : pos + header.size], limit=limit)


def decode_records(header: BatchHeader, body: Buffer, *, limit: int = DECOMPRESSED_LIMIT) -> list[Record]:
    """The records behind a header that has been checked."""
    data = compression.decompress(header.codec, body, limit)
    count = header.record_count
    if count < 0 or count * MIN_RECORD_SIZE > len(data):
        raise CorruptMessage(f"{count} records in {len(data)} bytes")
    fixed_time = header.max_timestamp if header.uses_log_append_time else None
    records: list[Record] = []
    pos = 0
    try:
        for _ in range(count):
            record, pos = _read_record(data, pos, header, fixed_time)
            records.append(record)
    except IndexError:
        raise CorruptMessage("a record is cut short") from None
    if pos != len(data):
        raise InvalidRecord(f"{len(data) - pos} bytes after the last of {count} records")
    return records


def decode_batches(buf: Buffer, *, from_offset: int = 0, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
    """The records from `from_offset` on in a run of batches, as a Fetch answer holds them.

    A cut last batch is left out (a broker may send one), control batches are skipped, and so are the records before
    `from_offset` in the first batch. `limit` counts for each batch alone. To go on after a run of which nothing
    was yielded (only control batches), use `next_fetch_offset`.
    """
    for pos, header in batches.walk(buf, 0, len(buf)):
        if header.is_control or header.last_offset < from_offset:
            continue
        for record in decode_batch(buf, pos, limit=limit):
            if record.offset >= from_offset:
                yield record


def next_fetch_offset(buf: Buffer, from_offset: int) -> int:
    """Where to fetch next after these batches: after the last whole one, never before `from_offset`."""
    for _, header in batches.walk(buf, 0, len(buf)):
        from_offset = max(from_offset, header.next_offset)
    return from_offset
