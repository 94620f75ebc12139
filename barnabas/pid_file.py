"""The pid file of a local cluster, which is also the lock of its data directory.

The process that runs the cluster holds a lock on the file as long as it lives, however it ends. So the pid in a locked
file is certainly the right one, and the pid in an unlocked file means nothing: a number that was given to another
process meanwhile is never signalled.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

NAME = "barnabas.pid"


class InUse(Exception):
    """The directory belongs to a running cluster; `pid` is its process (None if it has not said so yet)."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"in use by process {pid}")
        self.pid = pid


class PidFile:
    """Holds the lock between `acquire` and `release`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._fd: int | None = None

    def acquire(self) -> None:
        """Locks the file and writes our pid into it, or raises InUse."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            pid = _pid_in(fd)
            os.close(fd)
            raise InUse(pid) from None
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Empties and unlocks the file. It stays: a lock on a file that was unlinked would protect nothing."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_held(directory: Path) -> tuple[bool, int | None]:
    """(whether a cluster runs in the directory, its pid)."""
    try:
        fd = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True, _pid_in(fd)
    finally:
        os.close(fd)
    return False, None


def _pid_in(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdecimal() else None
