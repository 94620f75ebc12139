"""Disks that are full or broken: what is refused is taken back as a whole, and what was kept stays right."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from brokerd.storage.errors import FAILED, FULL, StorageError
from brokerd.storage.test.kit import NOW, SMALL, TP, Home, append, batch, read_all, segment_paths, sequenced, values


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A broker's data directory with tiny segments."""
    return Home(tmp_path / "data")


def failing_writev(monkeypatch: pytest.MonkeyPatch, number: int, *, after: int | None = 0, calls: int = 1) -> None:
    """The next `calls` writevs fail with an errno, after having written `after` bytes (None: all calls from then on
    succeed)."""
    real_writev, real_write = os.writev, os.write
    left = [calls]

    def writev(fd: int, parts: Sequence[bytes]) -> int:
        if not left[0]:
            return real_writev(fd, parts)
        if after:
            return real_write(fd, b"".join(parts)[:after])
        left[0] -= 1
        raise OSError(number, os.strerror(number))

    def write(fd: int, data: bytes) -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real_write(fd, data)

    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(os, "write", write)


@pytest.mark.parametrize("after", [0, 1, 60, 100, 150])
@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, FULL), (errno.EDQUOT, FULL), (errno.EIO, FAILED)])
def test_half_written_turn_is_taken_back(
    home: Home, monkeypatch: pytest.MonkeyPatch, after: int, number: int, kind: str
) -> None:
    """Bytes, offsets, producers and all; the same batches can be sent again."""
    log = home.log()
    append(log, batch("kept"), sequenced(0))
    path = segment_paths(log)[-1]
    before = path.read_bytes()
    log.append_as_leader(sequenced(1, 2), 0, NOW)
    log.append_as_leader(batch("lost"), 0, NOW)
    failing_writev(monkeypatch, number, after=after)
    with pytest.raises(StorageError) as failure:
        log.write()
    assert failure.value.kind == kind
    assert path.read_bytes() == before
    assert (log.log_end, log.written_end, log.size) == (2, 2, len(before))
    done = append(log, sequenced(1, 2), batch("again"))
    assert [(one.first_offset, one.duplicate) for one in done] == [(2, False), (4, False)]
    assert values(read_all(log)) == ["kept", "7/0", "7/1", "7/2", "again"]


def test_short_writes_are_finished(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take less than it was given."""
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, parts: os.write(fd, b"".join(parts)[:17]))
    log = home.log()
    append(log, batch("a"), batch("b"), batch("c"))
    monkeypatch.setattr(os, "writev", real)
    assert values(read_all(log)) == ["a", "b", "c"]


def test_failure_after_a_roll_keeps_the_full_segment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a turn that fills a segment and fails in the next one, what is in the first one counts."""
    log = home.log()
    many = [sequenced(number) for number in range(15)]
    real = os.writev
    calls: list[int] = []

    def second_fails(fd: int, parts: Sequence[bytes]) -> int:
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, parts)

    monkeypatch.setattr(os, "writev", second_fails)
    for one in many:
        log.append_as_leader(one, 0, NOW)
    with pytest.raises(StorageError):
        log.write()
    kept = log.written_end
    assert 0 < kept < 15
    assert log.log_end == kept
    assert log.append_as_leader(many[kept - 1], 0, NOW).duplicate
    append(log, *many[kept:])
    assert values(read_all(log)) == [f"7/{number}" for number in range(15)]
    home.crash()
    home.start()
    assert values(read_all(home.manager.logs[TP])) == [f"7/{number}" for number in range(15)]


def test_failed_roll_is_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for the new segment's files: the old one stays the last one, and nothing is left lying around."""
    log = home.log()
    append(log, *[batch(str(number)) for number in range(10)])
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(".log") and flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    for _ in range(10):
        log.append_as_leader(batch("x" * 50), 0, NOW)
    with pytest.raises(StorageError) as failure:
        log.write()
    assert failure.value.kind == FULL
    monkeypatch.setattr(os, "open", real)
    kept = log.written_end
    append(log, *[batch("y" * 50) for _ in range(10)])
    assert len(segment_paths(log)) >= 2
    assert [text[0] for text in values(read_all(log))[kept:]] == ["y"] * 10


def test_failed_epoch_is_taken_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a new epoch that was not written leaves the old epoch the newest."""
    log = home.log()
    append(log, batch("a"))
    log.append_as_leader(batch("b"), 3, NOW)
    real = os.write
    failing_writev(monkeypatch, errno.ENOSPC)
    monkeypatch.setattr(os, "write", real)
    with pytest.raises(StorageError):
        log.write()
    assert log.latest_epoch == 0
    assert log.epoch_end_offset(3) == (-1, -1)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_failed_cut_is_a_failed_directory(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not even the torn bytes can be taken back, the file is not to be trusted."""
    log = home.log()
    log.append_as_leader(batch("a"), 0, NOW)
    failing_writev(monkeypatch, errno.ENOSPC, after=10)

    def ftruncate(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "ftruncate", ftruncate)
    with pytest.raises(StorageError) as failure:
        log.write()
    assert failure.value.kind == FAILED


# ---- a real full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; only root may mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can be mounted by root only")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_F31_full_disk_refuses_and_resumes(small_disk: Path) -> None:
    """Nothing that was taken is lost, the directory stays online, and with room the appends go on."""
    home = Home(small_disk / "data", config=SMALL)
    home.settings(segment_bytes=20_000)
    log = home.log()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(100_000))
    taken = 0
    problems: list[StorageError] = []
    while len(problems) < 3:
        try:
            append(log, batch(f"{taken}:" + "x" * 900))
            taken += 1
        except StorageError as problem:
            problems.append(problem)
    assert [problem.kind for problem in problems] == [FULL] * 3
    assert home.manager.append_failed(log, problems[0]) == []
    assert home.manager.dirs[0].online
    assert log.log_end == taken
    ballast.unlink()
    for _ in range(50):
        append(log, batch(f"{taken}:" + "x" * 900))
        taken += 1
    log.flush()
    home.crash()
    home.start()
    found = values(read_all(home.manager.logs[TP], max_bytes=10_000))
    assert [text.split(":")[0] for text in found] == [str(number) for number in range(taken)]


# ---- several directories


def break_at(monkeypatch: pytest.MonkeyPatch, path: Path, name: str, real: Callable[..., object]) -> None:
    """A system call on files below `path` fails with EIO."""

    def call(fd: int, *rest: object) -> object:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(str(path)):
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, *rest)

    monkeypatch.setattr(os, name, call)


def test_F32_broken_directory_goes_offline_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partitions are offline with a reason; those of the other directory go on; new ones are created there."""
    home = Home(tmp_path / "a", tmp_path / "b")
    logs = [home.log(TP._replace(partition=number)) for number in range(4)]
    told: list[int] = []
    home.manager.on_offline = lambda partitions, problem: told.extend(tp.partition for tp in partitions)
    assert [log.log_dir.path.name for log in logs] == ["a", "b", "a", "b"]
    break_at(monkeypatch, tmp_path / "a", "writev", os.writev)
    logs[0].append_as_leader(batch("x"), 0, NOW)
    with pytest.raises(StorageError) as failure:
        logs[0].write()
    home.manager.append_failed(logs[0], failure.value)
    assert sorted(told) == [0, 2]
    assert [log_dir.online for log_dir in home.manager.dirs] == [False, True]
    assert "Input/output error" in home.manager.dirs[0].problem
    assert sorted(tp.partition for tp in home.manager.offline) == [0, 2]
    append(logs[1], batch("goes on"))
    assert home.log(TP._replace(partition=9)).log_dir.path.name == "b"
    home.manager.close({})
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
