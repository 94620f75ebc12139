"""Timestamp -> offset, sparse: Kafka's `.timeindex`, 12 bytes an entry: timestamp, offset relative to the base.

An entry (t, o) says that no record up to offset o has a timestamp above t. Timestamps and offsets both rise strictly.
"""

import struct
from pathlib import Path

from brokerd.storage.file_range import FilePool
from brokerd.storage.index_file import IndexFile

ENTRY = struct.Struct(">qi")


class TimeIndex(IndexFile):
    """The time index of one segment."""

    def __init__(self, path: Path, base_offset: int, pool: FilePool) -> None:
        super().__init__(path, ENTRY, pool)
        self.base_offset = base_offset

    def offset_before(self, timestamp: int) -> int:
        """An offset from which a walk finds the first batch with a timestamp of at least `timestamp`."""
        found = self.last_where(lambda entry: entry[0] <= timestamp)
        return self.base_offset if found is None else self.base_offset + found[1]

    def last(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry."""
        if not len(self):
            return None
        timestamp, relative = self.entry(len(self) - 1)
        return timestamp, self.base_offset + relative
