"""Compression of record batches, with a hard cap on what decompression may allocate.

A batch that is small on the wire can claim to be huge: five bytes of snappy announce 4 GiB, one kilobyte of zstd holds
32 MB of zeros. So no size that the bytes announce is believed: every codec writes into at most `limit` bytes.

What is written is what the Java client reads: gzip members, snappy in xerial's framing, lz4 frames with independent
blocks (Java refuses linked ones), zstd frames. What is read: also raw snappy (librdkafka), concatenated gzip members
and linked lz4 blocks.
"""

import struct
import zlib
from typing import Protocol

import cramjam
import snappy

from kafka_wire.batches import Buffer
from kafka_wire.errors import CorruptMessage, InvalidRecord, MessageTooLarge

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version 1, readable since version 1
XERIAL_CHUNK = 32 * 1024  # the block size of the Java writer; its reader takes any

_GZIP_WINDOW = zlib.MAX_WBITS | 16
_FIRST_GUESS = 64 * 1024
_OUTPUT_FULL = "failed to write whole buffer"  # cramjam's words when decompress_into runs out of room

_length = struct.Struct(">i")


class _IntoCodec(Protocol):
    """The part of a cramjam module that decompresses into memory of a given size."""

    def decompress_into(self, data: Buffer, output: bytearray, /) -> int:
        """Bytes written; cramjam.DecompressionError when they do not fit or are not its format."""


def codec_id(name: str) -> int:
    """The number of a codec's name as in `compression.type`; ValueError names the possible ones."""
    try:
        return NAMES.index(name)
    except ValueError:
        raise ValueError(f"unknown compression {name!r}, not one of {', '.join(NAMES)}") from None


def codec_name(codec: int) -> str:
    """The name of a codec number; InvalidRecord if it means nothing."""
    if 0 <= codec < len(NAMES):
        return NAMES[codec]
    raise InvalidRecord(f"unknown compression {codec}")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The data in the given codec; `level` counts for gzip and zstd only, None is the codec's own default."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return zlib.compress(data, -1 if level is None else level, wbits=_GZIP_WINDOW)
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        # The batch has a CRC of its own: a content checksum would only cost time.
        frame = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    raise InvalidRecord(f"unknown compression {codec}")


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """The original data, at most `limit` bytes: MessageTooLarge if there are more, CorruptMessage if it is damaged."""
    if codec == NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec == LZ4:
        return _decompress_into(cramjam.lz4, data, limit)
    if codec == ZSTD:
        return _decompress_into(cramjam.zstd, data, limit)
    raise InvalidRecord(f"unknown compression {codec}")


def _too_large(limit: int) -> MessageTooLarge:
    return MessageTooLarge(f"a batch is larger than {limit} bytes when decompressed")


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_CHUNK):
        chunk: bytes = snappy.compress(view[start : start + XERIAL_CHUNK])
        parts.append(_length.pack(len(chunk)))
        parts.append(chunk)
    return b"".join(parts)


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit + 1  # max_length 0 would mean "no limit"; the byte too many tells a full answer from a cut one
    rest: Buffer = data
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            part = member.decompress(rest, room)
        except zlib.error as error:
            raise CorruptMessage(f"gzip: {error}") from None
        parts.append(part)
        room -= len(part)
        if room <= 0:
            raise _too_large(limit)
        if not member.eof:
            raise CorruptMessage("gzip: cut short")
        rest = member.unused_data
        if not rest:
            return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_snappy_block(data, limit, limit)
    parts: list[bytes] = []
    room = limit
    pos = 0
    while pos < len(data):
        if bytes(data[pos : pos + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:  # streams may be concatenated
            pos += len(XERIAL_HEADER)
            continue
        if len(data) - pos < 4:
            raise CorruptMessage("snappy: cut short")
        size: int = _length.unpack_from(data, pos)[0]
        pos += 4
        if size < 0 or size > len(data) - pos:
            raise CorruptMessage(f"snappy: a block of {size} bytes in a room of {len(data) - pos}")
        part = _decompress_snappy_block(data[pos : pos + size], room, limit)
        parts.append(part)
        room -= len(part)
        pos += size
    if pos > len(data):
        raise CorruptMessage("snappy: cut short")
    return b"".join(parts)


def _decompress_snappy_block(data: memoryview, room: int, limit: int) -> bytes:
    """One raw block: the size it announces, which `snappy` would not tell, is compared before it is allocated."""
    try:
        if cramjam.snappy.decompress_raw_len(data) > room:
            raise _too_large(limit)
        original: bytes = snappy.uncompress(data)
    except (cramjam.DecompressionError, snappy.UncompressError) as error:
        raise CorruptMessage(f"snappy: {error.__cause__ or error}") from None
    return original


def _decompress_into(codec: _IntoCodec, data: Buffer, limit: int) -> bytes:
    """Into memory of our own size, enlarged until it fits or the limit is reached.

    cramjam's Decompressor objects want whole frames and grow without bound, so they cannot be capped by feeding
    them slowly; output of a fixed size can.
    """
    size = min(limit, max(_FIRST_GUESS, 8 * len(data)))
    while True:
        output = bytearray(size)
        try:
            count = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptMessage(f"decompression failed: {error}") from None
            if size >= limit:
                raise _too_large(limit) from None
            size = min(limit, 8 * size)
            continue
        return bytes(memoryview(output)[:count])
