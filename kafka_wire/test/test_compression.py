"""Compression: every codec both ways, other people's framings, and bombs."""

import contextlib
import gzip
import tracemalloc

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire import compression
from kafka_wire.errors import CorruptMessage, InvalidRecord, KafkaError, MessageTooLarge

CODECS = list(range(5))
PACKED = [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]


@given(st.sampled_from(CODECS), st.binary(max_size=3000), st.integers(1, 60))
def test_any_data_comes_back(codec: int, data: bytes, times: int) -> None:
    """What is compressed is decompressed to the same bytes, at a limit of exactly its size."""
    data *= times
    assert compression.decompress(codec, compression.compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_memoryviews_are_taken(codec: int) -> None:
    """Both directions read from a view of a larger buffer."""
    packed = compression.compress(codec, memoryview(b"xxhello hello")[2:])
    assert compression.decompress(codec, memoryview(b"--" + packed)[2:], 100) == b"hello hello"


@given(st.sampled_from(CODECS), st.binary(min_size=1, max_size=2000))
def test_one_byte_above_the_limit_is_too_large(codec: int, data: bytes) -> None:
    """The limit is exact."""
    with pytest.raises(MessageTooLarge):
        compression.decompress(codec, compression.compress(codec, data), len(data) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_bomb_allocates_no_more_than_the_limit(codec: int) -> None:
    """64 MiB of zeros behind a limit of 1 MiB: an error, and our own buffers stay small."""
    packed = compression.compress(codec, bytes(64 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(MessageTooLarge):
        compression.decompress(codec, packed, 1024 * 1024)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1024 * 1024


@pytest.mark.parametrize("framed", [False, True])
def test_snappy_announcing_gigabytes_is_refused_unallocated(framed: bool) -> None:
    """Five bytes that claim 4 GiB are compared with the limit before anything is allocated."""
    claim = b"\xff\xff\xff\xff\x0f"
    data = compression.XERIAL_HEADER + b"\x00\x00\x00\x05" + claim if framed else claim
    with pytest.raises(MessageTooLarge):
        compression.decompress(compression.SNAPPY, data, 10_000)


@given(st.sampled_from(PACKED), st.binary(max_size=300))
def test_rubbish_ends_in_a_kafka_error(codec: int, data: bytes) -> None:
    """Damaged data never raises a library's own exception."""
    with contextlib.suppress(KafkaError):
        compression.decompress(codec, data, 100_000)


@given(st.sampled_from(PACKED), st.data())
def test_cut_data_is_corrupt(codec: int, data: st.DataObject) -> None:
    """A piece of a stream is an error, or for xerial's framing the blocks before the cut; never wrong bytes."""
    original = bytes(range(256)) * 300
    packed = compression.compress(codec, original)
    cut = data.draw(st.integers(1, len(packed) - 1))
    try:
        got = compression.decompress(codec, packed[:cut], len(original))
    except CorruptMessage:
        return
    assert codec == compression.SNAPPY
    assert original.startswith(got)


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_unknown_codec_is_invalid(codec: int) -> None:
    """A number without a meaning is refused in every direction."""
    for attempt in (
        lambda: compression.compress(codec, b""),
        lambda: compression.decompress(codec, b"", 10),
        lambda: compression.codec_name(codec),
    ):
        with pytest.raises(InvalidRecord):
            attempt()


def test_names_and_numbers_match() -> None:
    """compression.type's words stand for the protocol's numbers."""
    assert [compression.codec_id(compression.codec_name(codec)) for codec in CODECS] == CODECS
    with pytest.raises(ValueError, match="brotli"):
        compression.codec_id("brotli")


def test_lz4_frames_have_independent_blocks() -> None:
    """Java refuses frames whose blocks refer to earlier ones."""
    info = lz4.frame.get_frame_info(compression.compress(compression.LZ4, b"abc" * 100_000))
    assert not info["block_linked"]


DATA = b"some bytes, some bytes, " * 9000


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (compression.GZIP, gzip.compress(DATA)),
        (compression.GZIP, gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:])),
        (compression.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))),
        (compression.SNAPPY, snappy.compress(DATA)),
        (
            compression.SNAPPY,
            compression.compress(compression.SNAPPY, DATA[:50]) + compression.compress(compression.SNAPPY, DATA[50:]),
        ),
        (compression.LZ4, lz4.frame.compress(DATA, block_linked=True)),
        (compression.LZ4, lz4.frame.compress(DATA, block_linked=False, store_size=False, content_checksum=True)),
        (compression.ZSTD, zstandard.ZstdCompressor(level=19).compress(DATA)),
        (compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(DATA)),
    ],
)
def test_other_writers_are_read(codec: int, packed: bytes) -> None:
    """Raw snappy, several members, linked blocks, frames without a size: all that clients send."""
    assert compression.decompress(codec, packed, len(DATA)) == DATA


def test_other_readers_read_ours() -> None:
    """The usual libraries take what we write."""
    assert gzip.decompress(compression.compress(compression.GZIP, DATA)) == DATA
    assert lz4.frame.decompress(compression.compress(compression.LZ4, DATA)) == DATA
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compression.compress(compression.ZSTD, DATA)) == DATA
