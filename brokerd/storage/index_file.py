"""A file of fixed-size entries, two numbers each, both ascending: appended to and searched.

The index of a segment that is being written is held in memory, and its new entries reach the file only by `store` (at
a roll, a checkpoint, a close): after a crash they are made again from the log. The index of an old segment is searched
on the disk, so that thousands of old segments cost nothing.
"""

import errno
import os
import struct
from array import array
from bisect import bisect_right
from itertools import chain, pairwise

from brokerd.storage.file_range import FilePool, OpenFile, read_fully

Entry = tuple[int, int]


class IndexFile:
    """The entries of one index file. `codes` are the struct letters of the two numbers."""

    __slots__ = ("_codes", "_columns", "_is_new", "_pool", "_size", "_stored", "path")

    def __init__(self, path: str, codes: str, pool: FilePool) -> None:
        self.path = path
        self._codes = codes
        self._size = struct.calcsize(">" + codes)
        self._pool = pool
        self._columns: tuple[array[int], array[int]] | None = None
        self._stored = -1  # entries in the file; not known yet
        self._is_new = False  # whatever is in the file does not count

    def __len__(self) -> int:
        return self._in_file() if self._columns is None else len(self._columns[0])

    def _in_file(self) -> int:
        if self._stored < 0:
            try:
                self._stored = os.stat(self.path).st_size // self._size
            except FileNotFoundError:
                self._stored = 0
        return self._stored

    def file(self, *, create: bool = False) -> OpenFile:
        """The open file."""
        return self._pool.open(self.path, create=create)

    # ---- memory

    @property
    def is_held(self) -> bool:
        """Whether the entries are in memory, so that entries can be added."""
        return self._columns is not None

    def hold(self) -> None:
        """Keeps the entries in memory from now on."""
        if self._columns is None:
            entries = self._read_all()
            self._columns = array(self._codes[0], entries[0::2]), array(self._codes[1], entries[1::2])

    def _read_all(self) -> tuple[int, ...]:
        count = self._in_file()
        if not count:
            return ()
        found: tuple[int, ...] = struct.unpack(
            ">" + self._codes * count, read_fully(self.file(), 0, count * self._size)
        )
        return found

    def release(self) -> None:
        """Stores, and ends `hold`. OSError leaves it held."""
        if self._columns is not None:
            self.store()
            self._columns = None

    def start_over(self) -> None:
        """No entries, held in memory; the file is replaced by the next `store`."""
        self._columns = array(self._codes[0]), array(self._codes[1])
        self._stored, self._is_new = 0, True

    def add(self, first: int, second: int) -> None:
        """One entry more, in memory; both numbers must be above the last entry's."""
        assert self._columns is not None
        self._columns[0].append(first)
        self._columns[1].append(second)

    def store(self) -> None:
        """Brings the file up to date with memory. OSError (a full disk): the file keeps what it had."""
        if self._columns is None:
            return
        stored, count = self._in_file(), len(self._columns[0])
        if stored == count and not self._is_new:
            return
        new = chain.from_iterable(zip(self._columns[0][stored:], self._columns[1][stored:], strict=True))
        data = struct.pack(">" + self._codes * (count - stored), *new)
        file = self.file(create=True)
        os.ftruncate(file.fd, stored * self._size)
        self._is_new = False
        if data and os.write(file.fd, data) != len(data):
            os.ftruncate(file.fd, stored * self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._stored = count

    def truncate(self, count: int) -> None:
        """Keeps the first `count` entries, in memory and in the file."""
        if self._columns is not None:
            for column in self._columns:
                del column[count:]
        if self._in_file() > count:
            os.ftruncate(self.file(create=True).fd, count * self._size)
            self._stored = count

    # ---- searching

    def entry(self, number: int) -> Entry:
        """One entry as it is stored."""
        if self._columns is not None:
            return self._columns[0][number], self._columns[1][number]
        data = read_fully(self.file(), number * self._size, self._size)
        if len(data) < self._size:
            return 0, 0  # cut by somebody else: like no entry at all
        first, second = struct.unpack(">" + self._codes, data)
        return first, second

    def count_up_to(self, limit: int, column: int = 0) -> int:
        """How many entries have a number of at most `limit` in a column: they are the first ones."""
        if self._columns is not None:
            return bisect_right(self._columns[column], limit)
        low, high = 0, self._in_file()
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[column] <= limit:
                low = middle + 1
            else:
                high = middle
        return low

    def last_up_to(self, limit: int, column: int = 0) -> Entry | None:
        """The last entry with a number of at most `limit` in a column."""
        count = self.count_up_to(limit, column)
        return self.entry(count - 1) if count else None

    def is_sound(self) -> bool:
        """Whether the file is there, holds whole entries, and they ascend. Reads it all."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return False
        if size % self._size:
            return False
        numbers = self._read_all()
        return all(before < after for column in (numbers[0::2], numbers[1::2]) for before, after in pairwise(column))
