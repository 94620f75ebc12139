"""The bytes of one `.log` file: append, walk the headers of its batches, scan them with their CRCs.

Nothing here knows offsets ranges, indexes or settings. `size` is what counts as the end of the file: it moves only
when an append has been written as a whole.
"""

import os
import struct
from collections.abc import Iterator, Sequence

from brokerd.storage.file_range import FilePool, OpenFile, read_fully
from kafka_wire.batches import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, Buffer, check_batch, read_header
from kafka_wire.errors import CorruptMessage, KafkaError

MAX_PARTS = 1024  # IOV_MAX of Linux
LOOK = 4096  # bytes read at once when walking: several headers of small batches
SCAN = 1 << 20  # bytes read at once when scanning

_head = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta: enough to walk
_HEAD_SIZE = _head.size


class SegmentFile:
    """One log file. Opened on demand from a pool."""

    __slots__ = ("_pool", "path", "size")

    def __init__(self, path: str, pool: FilePool, size: int) -> None:
        self.path = path
        self.size = size
        self._pool = pool

    def open(self) -> OpenFile:
        """The open file; whoever holds it keeps it open."""
        return self._pool.open(self.path)

    def create(self) -> None:
        """Makes the file; what a crash may have left under its name goes."""
        os.ftruncate(self._pool.open(self.path, create=True).fd, 0)
        self.size = 0

    # ---- writing

    def append(self, parts: Sequence[Buffer], count: int) -> None:
        """Writes `parts`, `count` bytes in all, or nothing: after an OSError the file is cut back to what it was.

        A second OSError, from the cut itself, means that the file holds a torn batch; it is raised instead.
        """
        fd = self._pool.open(self.path).fd
        try:
            if len(parts) <= MAX_PARTS:
                written = os.writev(fd, parts)
                if written != count:
                    self._write_rest(fd, parts, written)
            else:
                for start in range(0, len(parts), MAX_PARTS):
                    some = parts[start : start + MAX_PARTS]
                    self._write_rest(fd, some, os.writev(fd, some))
        except OSError:
            os.ftruncate(fd, self.size)
            raise
        self.size += count

    def _write_rest(self, fd: int, parts: Sequence[Buffer], written: int) -> None:
        """Goes on after a short write: a full disk is told only by the next one."""
        for part in parts:
            size = len(part)
            if written >= size:
                written -= size
                continue
            view = memoryview(part)[written:]
            written = 0
            while view:
                view = view[os.write(fd, view) :]

    def truncate(self, size: int) -> None:
        """Cuts the file."""
        os.ftruncate(self.open().fd, size)
        self.size = size

    # ---- reading

    def batch_size(self, position: int) -> int:
        """Bytes of the batch at a position."""
        return self._head_at(position)[1]

    def _head_at(self, position: int) -> tuple[int, int, int]:
        """(base offset, size, last offset) of the batch at a position; CorruptMessage if there is none."""
        data = os.pread(self.open().fd, _HEAD_SIZE, position)
        return self._head_in(data, 0, position)

    def _head_in(self, data: bytes, at: int, position: int) -> tuple[int, int, int]:
        if len(data) - at < _HEAD_SIZE:
            raise CorruptMessage(f"{self.path} ends within a batch at {position}")
        base, length, magic, delta = _head.unpack_from(data, at)
        size = length + LOG_OVERHEAD
        if magic != MAGIC or size < HEADER_SIZE or delta < 0 or position + size > self.size:
            raise CorruptMessage(f"{self.path} has no batch at {position}")
        return base, size, base + delta

    def heads(self, position: int) -> Iterator[tuple[int, int, int, int]]:
        """(position, size, base offset, last offset) of each batch; CorruptMessage where the bytes are none."""
        fd, end = self.open(), self.size
        data, start = b"", position
        while position < end:
            at = position - start
            if at + _HEAD_SIZE > len(data):
                data, start, at = os.pread(fd.fd, LOOK, position), position, 0
            base, size, last = self._head_in(data, at, position)
            yield position, size, base, last
            position += size

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch up to `end`, CRCs not looked at; CorruptMessage where the bytes are none."""
        fd, end = self.open(), self.size if end is None else end
        data, start = b"", position
        while position < end:
            at = position - start
            if at + HEADER_SIZE > len(data):
                data, start, at = os.pread(fd.fd, LOOK, position), position, 0
            self._head_in(data, at, position)
            header = read_header(data, at)
            yield position, header
            position += header.size

    def scan(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each whole batch with a good CRC; ends before the first that is not."""
        file = self.open()
        data, start = memoryview(b""), position
        while self.size - position >= HEADER_SIZE:
            at = position - start
            wanted = HEADER_SIZE if len(data) - at < HEADER_SIZE else read_header(data, at).size
            if len(data) - at < wanted:
                if position + wanted > self.size:
                    return
                data, start, at = memoryview(read_fully(file, position, max(SCAN, wanted))), position, 0
                wanted = read_header(data).size
                if wanted > len(data):
                    if position + wanted > self.size:
                        return
                    data = memoryview(read_fully(file, position, wanted))
            try:
                header = check_batch(data, at, len(data), from_client=False)
            except KafkaError:
                return
            yield position, header
            position += header.size

    def read(self, position: int, count: int) -> bytes:
        """The bytes themselves."""
        return read_fully(self.open(), position, count)
