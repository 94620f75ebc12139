"""The header of a record batch (magic 2): read, check, walk, and rewrite in place. Never single records.

Layout, big endian (KIP-98). The CRC-32C covers everything from the attributes to the end of the batch, so the first
16 bytes, base offset, length and leader epoch, can be replaced by a broker without touching it:

    0   base offset       i64      21  attributes         i16     43  producer id       i64
    8   length            i32      23  last offset delta  i32     51  producer epoch    i16
    12  leader epoch      i32      27  base timestamp     i64     53  base sequence     i32
    16  magic             i8       35  max timestamp      i64     57  record count      i32
    17  CRC-32C           u32                                     61  records

This module is on the broker's path of every produced batch: one unpack per header, one CRC over a view, no copies.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kafka_wire.errors import CorruptMessage, InvalidRecord

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and length: the bytes that the length field does not count
MAGIC = 2
NO_TIMESTAMP = -1

CRC_START = 17
CRC_COVERS_FROM = 21

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
MAX_CODEC = 4

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")

_unpack = _HEADER.unpack_from
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The fixed part of one batch. `size` is the whole batch in bytes, which is the length field plus 12."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record, also where compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 mean nothing."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it holds transaction markers, which no application may see."""
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether its visibility depends on the end of a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def uses_log_append_time(self) -> bool:
        """Whether max_timestamp holds for every record instead of the records' own timestamps."""
        return self.attributes & LOG_APPEND_TIME != 0


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`, unchecked except that 61 bytes are there (else CorruptMessage)."""
    try:
        base, length, epoch, magic, crc, attributes, delta, first, last, pid, term, sequence, count = _unpack(buf, pos)
    except struct.error:
        raise CorruptMessage(f"{len(buf) - pos} bytes are too few for a batch header") from None
    return _new(
        BatchHeader,
        (
            base,
            length + LOG_OVERHEAD,
            epoch,
            magic,
            crc,
            attributes,
            delta,
            first,
            last,
            pid,
            term,
            sequence,
            count,
        ),
    )


def check_batch(buf: Buffer, pos: int, end: int, *, from_client: bool = True) -> BatchHeader:
    """The header of the batch at `pos`, after checking that the batch is whole and within `end`, and its CRC.

    Raises CorruptMessage for bytes that are damaged and InvalidRecord for a sound batch that means nothing or that
    a client may not send. With `from_client=False` (batches copied from a leader or read from a log) control batches
    and the holes that compaction leaves are allowed.
    """
    if end - pos < HEADER_SIZE:
        raise CorruptMessage(f"{end - pos} bytes are too few for a batch header")
    fields = _unpack(buf, pos)
    base, length, epoch, magic, crc, attributes, delta, first, last, producer_id, term, sequence, count = fields
    size = length + LOG_OVERHEAD
    if magic != MAGIC:
        raise InvalidRecord(f"magic {magic} is not served, only {MAGIC}")
    if size < HEADER_SIZE or size > end - pos:
        raise CorruptMessage(f"a batch of {size} bytes in a room of {end - pos}")
    if crc32c(memoryview(buf)[pos + CRC_COVERS_FROM : pos + size]) != crc:
        raise CorruptMessage("the CRC-32C does not match")
    if attributes & CODEC_MASK > MAX_CODEC:
        raise InvalidRecord(f"unknown compression {attributes & CODEC_MASK}")
    if from_client:
        if count <= 0 or count != delta + 1:
            raise InvalidRecord(f"{count} records with a last offset delta of {delta}")
        if attributes & CONTROL:
            raise InvalidRecord("a client may not write control records")
        if producer_id >= 0 and sequence < 0:
            raise InvalidRecord(f"producer {producer_id} without a sequence number")
    elif delta < 0 or count < 0:
        raise InvalidRecord(f"{count} records with a last offset delta of {delta}")
    return _new(
        BatchHeader,
        (base, size, epoch, magic, crc, attributes, delta, first, last, producer_id, term, sequence, count),
    )


def walk(buf: Buffer, pos: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch from `pos`; a cut last batch is left out, CRCs are not looked at.

    Raises CorruptMessage where the bytes cannot be a batch (a size below the header's, another magic).
    """
    while end - pos >= HEADER_SIZE:
        header = read_header(buf, pos)
        size = header.size
        if header.magic != MAGIC or size < HEADER_SIZE:
            raise CorruptMessage(f"no batch at {pos}: magic {header.magic}, size {size}")
        if size > end - pos:
            return
        yield pos, header
        pos += size


def prefix(base_offset: int, size: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch of `size` bytes: what a leader writes in place of the producer's."""
    return _PREFIX.pack(base_offset, size - LOG_OVERHEAD, leader_epoch)


def set_offset_and_epoch(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `pos` its place in the log; the CRC stays right, it does not cover these fields."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _EPOCH.pack_into(buf, pos + 12, leader_epoch)


def with_log_append_time(batch: Buffer, now_ms: int) -> bytes:
    """A copy of one whole batch whose records all have the time `now_ms`: attribute, max timestamp and new CRC."""
    copy = bytearray(batch)
    attributes = read_header(copy).attributes
    _ATTRIBUTES.pack_into(copy, 21, attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(copy, 35, now_ms)
    _CRC.pack_into(copy, CRC_START, crc32c(memoryview(copy)[CRC_COVERS_FROM:]))
    return bytes(copy)
