"""Group commit. Threads are real; nothing sleeps: what they post is taken from a queue."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import pytest

from brokerd.storage import flusher as flusher_module
from brokerd.storage.file_range import sync_file_system
from brokerd.storage.flusher import MANY, Flusher
from brokerd.storage.log_dir import LogDir
from brokerd.storage.partition_log import PartitionLog
from brokerd.storage.test.kit import TP, Home, append, batch

WAIT_S = 20


class Loop:
    """A reactor in the hands of the test: runs what was posted when it is asked to."""

    def __init__(self) -> None:
        self.posted: Queue[Callable[[], None]] = Queue()
        self.flushed: list[PartitionLog] = []
        self.failed: list[tuple[LogDir, Exception]] = []
        self.rounds: list[float] = []
        self.flusher = Flusher(
            self.posted.put,
            self.flushed.append,
            lambda log_dir, problem: self.failed.append((log_dir, problem)),
            self.rounds.append,
        )

    def run_one(self) -> None:
        """Waits for the next post and runs it."""
        self.posted.get(timeout=WAIT_S)()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A broker's data directory."""
    return Home(tmp_path / "data")


def test_flush_moves_the_flushed_end(home: Home) -> None:
    """Only after the sync has come back to the reactor's thread."""
    loop, log = Loop(), home.log()
    append(log, batch("a", "b"))
    loop.flusher.request(log)
    assert log.flushed == 0
    loop.run_one()
    assert log.flushed == 2
    assert loop.flushed == [log]
    (seconds,) = loop.rounds
    assert 0 <= seconds < WAIT_S
    loop.flusher.stop()


def test_requests_during_a_round_share_the_next_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many turns, few syncs; and a flush covers only what was written when it was asked for."""
    loop, log = Loop(), home.log()
    log.flush()
    started, go_on = threading.Event(), threading.Event()
    syncs: list[int] = []
    real = os.fdatasync

    def slow(fd: int) -> None:
        syncs.append(fd)
        started.set()
        assert go_on.wait(WAIT_S)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    append(log, batch("a"))
    loop.flusher.request(log)
    assert started.wait(WAIT_S)
    for _ in range(5):
        append(log, batch("b"))
        loop.flusher.request(log)
    go_on.set()
    loop.run_one()
    assert log.flushed == 1
    loop.run_one()
    assert log.flushed == 6
    loop.flusher.stop()
    assert len(syncs) == 2


def test_V9_failed_sync_is_told_once_and_never_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sync would succeed, and lie."""
    loop, log = Loop(), home.log()
    calls: list[int] = []

    def fail(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    append(log, batch("a"))
    loop.flusher.request(log)
    loop.run_one()
    ((log_dir, problem),) = loop.failed
    assert home.manager.dir_failed(log_dir, problem) == [TP]
    append(log, batch("b"))
    loop.flusher.request(log)
    loop.flusher.stop()
    assert len(calls) == 1
    assert log.flushed == 0
    assert loop.posted.empty()


def test_V9_many_dirty_logs_are_one_sync_of_the_file_system(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 64."""
    loop = Loop()
    logs = [home.log(TP._replace(partition=number)) for number in range(MANY + 1)]
    blocked, go_on = threading.Event(), threading.Event()
    whole: list[int] = []
    real = sync_file_system

    def noted(fd: int) -> None:
        whole.append(fd)
        real(fd)

    monkeypatch.setattr(flusher_module, "sync_file_system", noted)
    real_sync = os.fdatasync

    def wait(fd: int) -> None:
        blocked.set()
        assert go_on.wait(WAIT_S)
        real_sync(fd)

    monkeypatch.setattr(os, "fdatasync", wait)
    first = home.log(TP._replace(partition=999))
    append(first, batch("a"))
    loop.flusher.request(first)
    assert blocked.wait(WAIT_S)
    for log in logs:
        append(log, batch("a"))
        loop.flusher.request(log)
    go_on.set()
    loop.run_one()
    loop.run_one()
    assert len(whole) == 1
    assert all(log.flushed == 1 for log in logs)
    loop.flusher.stop()


def test_new_segment_syncs_the_directory_and_the_full_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose name is lost is lost."""
    loop, log = Loop(), home.log()
    synced: list[str] = []
    real = os.fdatasync

    def noted(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    append(log, batch("a"))
    log.flush()
    monkeypatch.setattr(os, "fdatasync", noted)
    log.roll()
    append(log, batch("b"))
    loop.flusher.request(log)
    loop.run_one()
    assert {f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", f"{1:020d}.log", "events-0"} == set(synced)
    synced.clear()
    append(log, batch("c"))
    loop.flusher.request(log)
    loop.run_one()
    assert synced == [f"{1:020d}.log"]
    loop.flusher.stop()


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({"durability": "flushed"}, [1]),
        ({"durability": "replicated"}, []),
        ({"durability": "replicated", "flush_messages": 3}, [3]),
        ({"durability": "replicated", "flush_ms": 0}, [1]),
        ({"durability": "flushed", "flush_ms": 10**9, "flush_messages": 2}, [2]),
    ],
)
def test_when_a_flush_is_due(home: Home, settings: dict[str, object], counts: list[int]) -> None:
    """`flushed` topics at once; `replicated` ones by their settings alone."""
    home.settings(**settings)
    log = home.log()
    due = []
    for number in range(1, 5):
        append(log, batch("a"))
        if log.is_flush_due():
            due.append(number)
    assert due[:1] == counts[:1]


def test_full_segment_of_a_replicated_topic_is_flushed_in_the_background(home: Home) -> None:
    """So that a start after a crash has at most one segment to read."""
    home.settings(durability="replicated")
    log = home.log()
    append(log, batch("a"))
    assert not log.is_flush_due()
    log.roll()
    assert log.is_flush_due()
    log.flush()
    assert not log.is_flush_due()


def test_many_unflushed_segments_are_one_sync_and_few_open_files(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of full segments must not use up the file descriptors."""
    home.settings(segment_bytes=100, durability="replicated")
    log = home.log()
    append(log, *[batch(str(number)) for number in range(200)])
    target = log.flush_target()
    assert target.files is None
    loop = Loop()
    loop.flusher.request(log)
    loop.run_one()
    assert log.flushed == 200
    target = log.flush_target()
    assert target.files is not None
    assert len(target.files) == 1
    loop.flusher.stop()


def test_flush_of_a_log_that_was_cut_meanwhile_means_nothing(home: Home) -> None:
    """Offsets beyond the cut may be other records by now."""
    log = home.log()
    append(log, batch("a"), batch("b"))
    target = log.flush_target()
    log.truncate_to(1)
    append(log, batch("c"))
    assert not log.flush_done(target)
    assert log.flushed == 0
