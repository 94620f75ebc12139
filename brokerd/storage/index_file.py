"""A file of fixed-size entries in ascending order, appended to and searched.

The index of a segment that is being written is kept in memory as well (`hold`); that of an old segment is searched on
disk, so that thousands of old segments cost nothing.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokerd.storage.file_range import FilePool, OpenFile, read_fully


class IndexFile:
    """The entries of one index file; `Entry` is whatever the struct unpacks to."""

    def __init__(self, path: Path, entry: struct.Struct, pool: FilePool) -> None:
        self.path = path
        self._struct = entry
        self._pool = pool
        self._held: bytearray | None = None
        self._count = -1  # not known yet

    def __len__(self) -> int:
        if self._count < 0:
            try:
                self._count = os.stat(self.path).st_size // self._struct.size
            except FileNotFoundError:
                self._count = 0
        return self._count

    def file(self, *, create: bool = False) -> OpenFile:
        """The open file."""
        return self._pool.open(self.path, create=create)

    def hold(self) -> None:
        """Keeps the entries in memory from now on."""
        if self._held is None:
            count = len(self)
            self._held = bytearray(read_fully(self.file(), 0, count * self._struct.size) if count else b"")
            self._count = len(self._held) // self._struct.size

    def release(self) -> None:
        """Ends `hold`."""
        self._held = None

    def entry(self, number: int) -> tuple[int, int]:
        """One entry as it is stored."""
        size = self._struct.size
        found: tuple[Any, ...]
        if self._held is not None:
            found = self._struct.unpack_from(self._held, number * size)
        else:
            found = self._struct.unpack(read_fully(self.file(), number * size, size))
        return found[0], found[1]

    def last_where(self, wanted: Callable[[tuple[int, int]], bool]) -> tuple[int, int] | None:
        """The last entry for which `wanted` is true, given that it is true for a first part of them only."""
        low, high = 0, len(self)
        found = None
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if wanted(entry):
                found, low = entry, middle + 1
            else:
                high = middle
        return found

    def append(self, entries: list[tuple[int, int]]) -> None:
        """Appends to the file (and to memory if held). OSError leaves the entries as they were, after `truncate`."""
        data = b"".join([self._struct.pack(*entry) for entry in entries])
        count = len(self)
        written = os.write(self.file(create=True).fd, data)
        if written != len(data):
            raise OSError(28, "No space left on device")
        if self._held is not None:
            self._held += data
        self._count = count + len(entries)

    def truncate(self, count: int) -> None:
        """Keeps the first `count` entries."""
        size = count * self._struct.size
        os.ftruncate(self.file(create=True).fd, size)
        if self._held is not None:
            del self._held[size:]
        self._count = count

    def is_sound(self) -> bool:
        """Whether the size is a multiple of the entry's and the last entry is not before the first one."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return False
        if size % self._struct.size:
            return False
        return not size or self.entry(len(self) - 1) >= self.entry(0)
