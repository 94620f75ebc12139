"""Promises of the de-duplication aid: a record's effect is there once, however often it comes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer_group.deduplication import FileProgress, SqliteProgress
from consumer_group.types import ConsumerRecord
from kafka_wire.ids import TopicPartition

TP = TopicPartition("logs", 0)


def record(offset: int, partition: int = 0) -> ConsumerRecord:
    """A record."""
    return ConsumerRecord("logs", partition, -1, offset, 0, 0, None, b"%d" % offset, ())


def database() -> sqlite3.Connection:
    """A database with a table of results."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE lines (partition, value)")
    return connection


def handle(store: sqlite3.Connection, progress: SqliteProgress, one: ConsumerRecord) -> None:
    """What an application does."""
    with progress.once(one) as is_new:
        if is_new:
            store.execute("INSERT INTO lines VALUES (?, ?)", (one.partition, one.value))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_any_restarts_each_record_has_its_effect_once(restarts: list[int]) -> None:
    """A successor begins somewhere before the end, as often as you like; nothing is double, nothing is missing."""
    store = database()
    progress = SqliteProgress(store, "g")
    for end in [*restarts, 9]:
        done = progress.next_offset("logs", 0)
        for offset in range(max(0, done - end), max(done, end) + 1):
            handle(store, progress, record(offset))
    seen = [int(value) for (value,) in store.execute("SELECT value FROM lines ORDER BY rowid")]
    assert seen == list(range(progress.next_offset("logs", 0)))


def test_handling_fails_neither_effect_nor_progress_is_kept() -> None:
    """The record comes again."""
    store = database()
    progress = SqliteProgress(store, "g")

    def fail() -> None:
        with progress.once(record(0)):
            store.execute("INSERT INTO lines VALUES (0, 'half')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.execute("SELECT count(*) FROM lines").fetchone() == (0,)
    assert progress.next_offset("logs", 0) == 0


def test_groups_and_partitions_are_apart() -> None:
    """Each has its own progress; a topic that was made anew begins again."""
    store = database()
    first, second = SqliteProgress(store, "g"), SqliteProgress(store, "h")
    handle(store, first, record(5))
    assert (first.next_offset("logs", 0), first.next_offset("logs", 1), second.next_offset("logs", 0)) == (6, 0, 0)
    first.forget("logs")
    assert first.next_offset("logs", 0) == 0


def test_zombie_and_successor_one_of_them_wins(tmp_path: Path) -> None:
    """Two members handle the same record at the same time: the second waits for the first, then sees its progress."""
    path = str(tmp_path / "results.db")
    one = sqlite3.connect(path, isolation_level=None, timeout=0)
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    one.execute("CREATE TABLE lines (partition, value)")
    first, second = SqliteProgress(one, "g"), SqliteProgress(other, "g")
    with first.once(record(0)) as is_new:
        assert is_new
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            handle(other, second, record(0))
    with second.once(record(0)) as is_new:
        assert not is_new


def test_connection_with_transactions_of_its_own_is_refused() -> None:
    """It would commit behind our back."""
    with pytest.raises(ValueError, match="isolation_level"):
        SqliteProgress(sqlite3.connect(":memory:"), "g")


def test_files_pieces_follow_each_other_and_repeat_is_refused(tmp_path: Path) -> None:
    """A piece that was written is not written again under another name."""
    progress = FileProgress(tmp_path)
    progress.write(TP, 0, 3, b"abc")
    progress.write(TP, 3, 5, b"de")
    assert progress.next_offset(TP) == 5
    assert progress.next_offset(TopicPartition("logs", 1)) == 0
    for first in (0, 4, 6):
        with pytest.raises(ValueError, match="everything before 5"):
            progress.write(TP, first, 7, b"?")
    assert b"".join(progress.read(TP)) == b"abcde"
    assert FileProgress(tmp_path).next_offset(TP) == 5


def test_files_half_written_piece_does_not_count(tmp_path: Path) -> None:
    """Only a rename makes it visible."""
    (tmp_path / ".writing-x").write_bytes(b"half")
    assert FileProgress(tmp_path).next_offset(TP) == 0
