"""Offset -> position, sparse: Kafka's `.index`, 8 bytes an entry: offset relative to the segment's base, position."""

import struct
from pathlib import Path

from brokerd.storage.file_range import FilePool
from brokerd.storage.index_file import IndexFile

ENTRY = struct.Struct(">ii")


class OffsetIndex(IndexFile):
    """An entry holds a batch's *last* offset and the position where that batch begins."""

    def __init__(self, path: Path, base_offset: int, pool: FilePool) -> None:
        super().__init__(path, ENTRY, pool)
        self.base_offset = base_offset

    def position_before(self, offset: int) -> int:
        """A position from which a walk finds the batch that holds `offset`."""
        relative = offset - self.base_offset
        found = self.last_where(lambda entry: entry[0] <= relative)
        return 0 if found is None else found[1]

    def batch_before(self, position: int) -> int:
        """The last indexed batch that begins at or before `position`."""
        found = self.last_where(lambda entry: entry[1] <= position)
        return 0 if found is None else found[1]
