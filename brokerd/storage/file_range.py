"""Open files, not too many of them, and ranges of them.

A file stays open as long as anybody holds its `OpenFile`: the pool, a range that is still being sent, a flush in
another thread. So the pool may drop any file at any time, and a segment may be deleted while it is being sent.
"""

import ctypes
import os
import resource
from collections import OrderedDict
from pathlib import Path

from brokerd.storage.deferred_sync import is_deferred

MOST_OPEN_FILES = 4096


def usual_open_files() -> int:
    """How many files of logs to keep open: a part of what the process may have, connections need the rest."""
    return max(min(MOST_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4), 16)


class OpenFile:
    """A file descriptor that is closed with its last reference; `os` functions accept it in place of a number."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def fileno(self) -> int:
        """The descriptor, valid while this object lives."""
        return self.fd

    def __del__(self) -> None:
        os.close(self.fd)


class FilePool:
    """The most recently used files of all logs, opened on demand. Only for the thread that owns the logs."""

    def __init__(self, limit: int = MOST_OPEN_FILES) -> None:
        self.limit = limit
        self._files: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """The file, for reading and appending; FileNotFoundError unless it is there or `create` is set."""
        found = self._files.get(path)
        if found is not None:
            self._files.move_to_end(path)
            return found
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        found = OpenFile(os.open(path, flags, 0o644))
        self._files[path] = found
        if len(self._files) > self.limit:
            self._files.popitem(last=False)
        return found

    def forget(self, path: str) -> None:
        """To be called before a path is renamed or removed: it may mean another file afterwards."""
        self._files.pop(path, None)

    def forget_directory(self, directory: Path) -> None:
        """The same for everything in a directory that is renamed or removed."""
        start = f"{directory}/"
        for path in [one for one in self._files if one.startswith(start)]:
            del self._files[path]


def open_directory(path: str | Path) -> OpenFile:
    """A directory, to be fsynced."""
    return OpenFile(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def sync_directory(path: str | Path) -> None:
    """Makes creations, renames and removals in a directory durable, now or with what else is deferred."""
    if not is_deferred():
        directory = open_directory(path)
        os.fsync(directory.fd)


_libc = ctypes.CDLL(None, use_errno=True)


def sync_file_system(fd: int) -> None:
    """syncfs(2): everything on the file system that `fd` is on."""
    if _libc.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class FileRange:
    """`count` bytes of a file from `offset`; its len() is what goes on the wire, by os.sendfile from `fd`."""

    __slots__ = ("count", "file", "offset")

    def __init__(self, file: OpenFile | None, offset: int, count: int) -> None:
        self.file = file
        self.offset = offset
        self.count = count

    @property
    def fd(self) -> int:
        """The descriptor to send from; -1 for the empty range."""
        return -1 if self.file is None else self.file.fd

    def __len__(self) -> int:
        return self.count

    def read(self) -> bytes:
        """The bytes themselves, for transports without sendfile."""
        if self.file is None:
            return b""
        return read_fully(self.file, self.offset, self.count)


EMPTY = FileRange(None, 0, 0)


def read_fully(file: OpenFile, position: int, count: int) -> bytes:
    """`count` bytes from `position`, fewer only at the end of the file."""
    data = os.pread(file.fd, count, position)
    if len(data) == count or not data:
        return data
    parts = [data]
    got = len(data)
    while got < count:
        data = os.pread(file.fd, count - got, position + got)
        if not data:
            break
        parts.append(data)
        got += len(data)
    return b"".join(parts)
