"""The history of leader epochs: R21-R23."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.storage import epochs
from brokerd.storage.checkpoint import BadCheckpoint
from brokerd.storage.epochs import UNDEFINED, EpochHistory

HISTORY = [(1, 0), (3, 10), (5, 20)]


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (5, (5, 30)),
        (6, UNDEFINED),
        (-1, UNDEFINED),
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 20)),
        (4, (3, 20)),
    ],
)
def test_R23_end_of_an_epoch(epoch: int, answer: tuple[int, int]) -> None:
    """The largest known epoch up to the one asked for, and where the next one starts."""
    assert EpochHistory(list(HISTORY)).end_offset(epoch, 30) == answer


def test_R23_empty_history_is_undefined() -> None:
    """Nobody has led here."""
    assert EpochHistory().end_offset(0, 0) == UNDEFINED


def test_R22_conflicting_entries_go() -> None:
    """An epoch that wrote nothing is forgotten when another starts at its place."""
    history = EpochHistory(list(HISTORY))
    assert history.assign(7, 20)
    assert history.entries == [(1, 0), (3, 10), (7, 20)]
    assert not history.assign(7, 25)


def test_truncation_at_both_ends() -> None:
    """The first entry starts where the log does; an epoch that starts right at the end stays (R21)."""
    history = EpochHistory(list(HISTORY))
    assert history.truncate_end(20) is False
    assert history.truncate_end(15)
    assert history.entries == [(1, 0), (3, 10)]
    assert history.truncate_start(12)
    assert history.entries == [(3, 12)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=12), st.integers(0, 60), st.integers(0, 60))
def test_R22_history_always_rises(entries: list[tuple[int, int]], start: int, end: int) -> None:
    """Whatever is assigned and cut, epochs and offsets rise strictly."""
    history = EpochHistory()
    for epoch, offset in entries:
        history.assign(epoch, offset)
        _check_rising(history)
    history.truncate_end(end)
    history.truncate_start(start)
    _check_rising(history)


def _check_rising(history: EpochHistory) -> None:
    for before, after in zip(history.entries, history.entries[1:], strict=False):
        assert before[0] < after[0]
        assert before[1] < after[1]


def test_history_is_stored_in_kafkas_format(tmp_path: Path) -> None:
    """version, count, lines."""
    epochs.store(tmp_path, EpochHistory(list(HISTORY)))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n3 10\n5 20\n"
    assert epochs.load(tmp_path).entries == HISTORY


def test_damaged_history_is_named(tmp_path: Path) -> None:
    """The message says which file."""
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")
    with pytest.raises(BadCheckpoint, match="leader-epoch-checkpoint"):
        epochs.load(tmp_path)


def test_copies_of_an_older_epoch_keep_its_start_when_a_leader_that_wrote_nothing_becomes_a_follower() -> None:
    """It had stored epoch 5 at its end (R21); what it then copies from its successor may be of the epoch before."""
    history = EpochHistory([(1, 0), (3, 40), (5, 90)])
    assert history.assign(3, 90)
    assert history.entries == [(1, 0), (3, 40)]


def test_epoch_of_the_last_record_is_not_one_that_wrote_nothing() -> None:
    """What a follower tells its leader is the epoch of a record that it has."""
    history = EpochHistory([(1, 0), (3, 40), (5, 90)])
    assert [history.before(end) for end in (0, 1, 40, 41, 90, 91)] == [-1, 1, 1, 3, 3, 5]
