"""Offset -> position, sparse: Kafka's `.index`, 8 bytes an entry: offset relative to the segment's base, position."""

from brokerd.storage.file_range import FilePool
from brokerd.storage.index_file import IndexFile

ENTRY_SIZE = 8


class OffsetIndex(IndexFile):
    """An entry holds a batch's *last* offset and the position where that batch begins."""

    __slots__ = ("base_offset",)

    def __init__(self, path: str, base_offset: int, pool: FilePool) -> None:
        super().__init__(path, "ii", pool)
        self.base_offset = base_offset

    def batch_before(self, position: int) -> int:
        """Where the last indexed batch begins that begins at or before `position`."""
        found = self.last_up_to(position, 1)
        return 0 if found is None else found[1]
