"""Timestamp -> offset, sparse: Kafka's `.timeindex`, 12 bytes an entry: timestamp, offset relative to the base.

An entry (t, o) says that no record up to offset o has a timestamp above t, and that the batch which ends at o has it.
Timestamps and offsets both rise strictly. Entries are made where the offset index gets one, so up to the batch of
an offset-index entry the highest timestamp is that of the last time entry at or before it.
"""

from brokerd.storage.file_range import FilePool
from brokerd.storage.index_file import IndexFile

ENTRY_SIZE = 12


class TimeIndex(IndexFile):
    """The time index of one segment."""

    __slots__ = ("base_offset",)

    def __init__(self, path: str, base_offset: int, pool: FilePool) -> None:
        super().__init__(path, "qi", pool)
        self.base_offset = base_offset

    def offset_before(self, timestamp: int) -> int:
        """An offset from which a walk finds the first batch with a timestamp of at least `timestamp`."""
        found = self.last_up_to(timestamp - 1)
        return self.base_offset if found is None else self.base_offset + found[1]

    def highest_up_to(self, offset: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry whose offset is at most `offset`."""
        found = self.last_up_to(offset - self.base_offset, 1)
        return None if found is None else (found[0], self.base_offset + found[1])

    def last(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry."""
        if not len(self):
            return None
        timestamp, relative = self.entry(len(self) - 1)
        return timestamp, self.base_offset + relative
