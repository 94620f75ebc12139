"""Idempotent producers: R40-R42."""

import struct

import pytest

from brokerd.storage.producer_state import ProducerState, Sent, decode_snapshot, encode_snapshot
from kafka_wire.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber

NOW = 1000


def state_after(*sequences: int, count: int = 2, epoch: int = 0) -> ProducerState:
    """A producer with id 7 that sent batches of `count` records."""
    state, offset = ProducerState(), 100
    for sequence in sequences:
        state.record(7, epoch, sequence, offset, offset + count - 1, NOW)
        offset += count
    state.settle()
    return state


def test_R41_unknown_producer_may_start_anywhere() -> None:
    """Its state may have expired."""
    assert ProducerState().check(7, 3, 41, 2) is None


def test_R41_next_sequence_is_taken() -> None:
    """last + 1"""
    assert state_after(0, 2).check(7, 0, 4, 2) is None


@pytest.mark.parametrize("sequence", [3, 5, 6, 100])
def test_R41_gap_or_overlap_is_out_of_order(sequence: int) -> None:
    """Records would be missing, or there twice."""
    with pytest.raises(OutOfOrderSequenceNumber):
        state_after(0, 2).check(7, 0, sequence, 2)


def test_R41_last_five_batches_are_duplicates() -> None:
    """The answer has the offsets of the first time."""
    state = state_after(0, 2, 4, 6, 8, 10)
    for number, sequence in enumerate((2, 4, 6, 8, 10), start=1):
        assert state.check(7, 0, sequence, 2) == Sent(sequence, sequence + 1, 100 + 2 * number, 101 + 2 * number)


def test_R41_sixth_last_batch_is_out_of_order() -> None:
    """It may have been appended, but nobody knows where."""
    with pytest.raises(OutOfOrderSequenceNumber):
        state_after(0, 2, 4, 6, 8, 10).check(7, 0, 0, 2)


def test_R41_same_start_with_another_length_is_no_duplicate() -> None:
    """A duplicate is exact."""
    with pytest.raises(OutOfOrderSequenceNumber):
        state_after(0, 2).check(7, 0, 2, 3)


def test_R41_old_epoch_is_refused() -> None:
    """Another instance has taken over."""
    with pytest.raises(InvalidProducerEpoch):
        state_after(0, epoch=2).check(7, 1, 2, 2)


def test_R41_new_epoch_starts_at_zero() -> None:
    """And only there."""
    state = state_after(0, 2)
    assert state.check(7, 1, 0, 2) is None
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check(7, 1, 4, 2)


def test_R41_sequence_wraps_to_zero() -> None:
    """2^31-1 is followed by 0, also within a batch."""
    state = ProducerState()
    state.record(7, 0, (1 << 31) - 2, 0, 3, NOW)
    assert state.producers[7].batches[-1].last_sequence == 1
    assert state.check(7, 0, 2, 1) is None


def test_roll_back_restores_the_marked_moment() -> None:
    """Also for a producer that was not known before."""
    state = state_after(0)
    before = dict(state.producers)
    state.record(7, 0, 2, 102, 103, NOW)
    mark, middle = state.mark(), dict(state.producers)
    state.record(7, 0, 4, 104, 105, NOW)
    state.record(8, 0, 0, 106, 106, NOW)
    state.roll_back(mark)
    assert state.producers == middle
    state = state_after(0)
    state.record(8, 0, 0, 106, 106, NOW)
    state.roll_back()
    assert state.producers == before


def test_silent_producers_expire() -> None:
    """After a day; here at a moment."""
    state = state_after(0)
    state.expire(NOW)
    assert state.producers
    state.expire(NOW + 1)
    assert not state.producers


def test_snapshot_has_kafkas_layout() -> None:
    """One field a line, as ProducerStateManager writes them."""
    data = encode_snapshot(state_after(5).producers)
    assert len(data) == 10 + 46
    assert struct.unpack_from(">h", data) == (1,)
    assert struct.unpack_from(">i", data, 6) == (1,)
    assert struct.unpack_from(">qhiqiqiq", data, 10) == (
        7,  # producer id
        0,  # epoch
        6,  # last sequence
        101,  # last offset
        1,  # offset delta
        NOW,  # timestamp
        -1,  # coordinator epoch
        -1,  # first offset of the open transaction
    )
    assert decode_snapshot(data) == state_after(5).producers


@pytest.mark.parametrize("size", [0, 5, 9, 30])
def test_cut_snapshot_is_refused(size: int) -> None:
    """Never half of the producers."""
    with pytest.raises(ValueError, match="snapshot"):
        decode_snapshot(encode_snapshot(state_after(0).producers)[:size])


def test_damaged_snapshot_is_refused() -> None:
    """Every byte is covered: the CRC, or the version before it."""
    good = encode_snapshot(state_after(0).producers)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(ValueError, match="snapshot"):
            decode_snapshot(bytes(bad))
