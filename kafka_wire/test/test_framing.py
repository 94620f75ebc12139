"""Frames come out whole and in order however the stream is cut, and no announced length is believed."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.errors import Malformed
from kafka_wire.framing import FrameSplitter


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def feed_all(splitter: FrameSplitter, stream: bytes, cut: int) -> list[bytes]:
    return [frame for start in range(0, len(stream), cut) for frame in splitter.feed(stream[start : start + cut])]


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 50)), st.sampled_from([bytes, bytearray, memoryview]))
def test_stream_cut_anywhere_gives_the_same_frames(frames: list[bytes], cuts: list[int], kind: type[bytes]) -> None:
    """Pieces of any size and type give what was sent, and nothing stays behind."""
    stream, splitter, seen = stream_of(frames), FrameSplitter(40), []
    for cut in [*cuts, max(1, len(stream))]:
        seen += splitter.feed(kind(stream[:cut]))
        stream = stream[cut:]
    assert (seen, splitter.buffered) == (frames, 0)
    assert all(type(frame) is bytes for frame in seen)


@given(st.lists(st.binary(max_size=10)), st.integers(), st.integers(1, 30))
def test_impossible_length_ends_the_stream(frames: list[bytes], size: int, cut: int) -> None:
    """Below zero or above the limit raises, at once and for whatever follows."""
    size = (size & 0x7FFFFFFF) | 0x80000000 if size % 2 else 11 + (size & 0xFFFF)
    splitter, stream = FrameSplitter(10), stream_of(frames) + struct.pack(">I", size)
    with pytest.raises(Malformed):
        feed_all(splitter, stream, cut)
    with pytest.raises(Malformed):
        splitter.feed(stream_of([b"sound"]))


def test_frame_at_the_limit_is_taken() -> None:
    """The limit itself is allowed."""
    assert FrameSplitter(3).feed(stream_of([b"abc", b""])) == [b"abc", b""]


def test_input_may_be_reused_by_the_caller() -> None:
    """What was fed is copied: a receive buffer that is overwritten changes no frame."""
    splitter, received = FrameSplitter(100), bytearray(stream_of([b"one", b"twothree"])[:-4])
    seen = splitter.feed(received)
    received[:] = b"?" * len(received)
    assert seen + splitter.feed(b"hree") == [b"one", b"twothree"]


def test_announced_length_reserves_nothing() -> None:
    """Four bytes that announce 2 GiB keep four bytes."""
    splitter = FrameSplitter(2**31 - 1)
    assert splitter.feed(struct.pack(">i", 2**31 - 1)) == []
    assert splitter.buffered == 4


def test_large_frame_in_small_pieces_costs_no_more_than_its_size() -> None:
    """16 MiB in pieces of 1 KiB: recopying the tail each time would move 128 GiB, for which ten seconds are too few."""
    frame, splitter = bytes(16 << 20), FrameSplitter(16 << 20)
    stream = stream_of([frame, b"next"])
    started = time.process_time()
    assert [len(piece) for piece in feed_all(splitter, stream, 1024)] == [len(frame), 4]
    assert time.process_time() - started < 10
