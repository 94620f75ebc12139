"""A partition's log in memory, with the disk below it: what is written survives a crash, what is flushed power loss."""

from __future__ import annotations

from typing import NamedTuple

from brokerd.storage.epochs import EpochHistory
from brokerd.storage.log_writer import Appended
from brokerd.topic_config import TopicConfig
from kafka_wire import errors


class Entry(NamedTuple):
    """One record."""

    offset: int
    epoch: int
    value: str


class ModelLog:
    """The part of PartitionLog that a Partition uses; one record is a batch. It starts at 0 and is never trimmed."""

    def __init__(self, config: TopicConfig, topic_id: bytes = b"\1" * 16) -> None:
        self.config = config
        self.topic_id = topic_id
        self.entries: list[Entry] = []
        self.history = EpochHistory()
        self.log_start = 0
        self.written_end = 0
        self.flushed = 0

    @property
    def log_end(self) -> int:
        """With what is queued."""
        return len(self.entries)

    @property
    def latest_epoch(self) -> int:
        """Of its history."""
        return self.history.latest

    @property
    def last_record_epoch(self) -> int:
        """As PartitionLog's."""
        return self.history.before(self.log_end) if self.entries else -1

    def start_epoch(self, epoch: int) -> None:
        """As PartitionLog's."""
        self.write()
        if epoch <= self.latest_epoch:
            raise errors.FencedLeaderEpoch(f"{epoch} is not newer than {self.latest_epoch}")
        self.history.assign(epoch, self.log_end)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """R23."""
        return self.history.end_offset(epoch, self.log_end)

    def append_as_leader(self, records: str, leader_epoch: int, now_ms: int) -> Appended:
        """One record."""
        first = self.log_end
        self._append(Entry(first, leader_epoch, records))
        return Appended(first, first, -1, False)

    def append_as_follower(self, records: tuple[Entry, ...]) -> int:
        """The leader's records as they are."""
        for entry in records:
            if entry.offset != self.log_end:
                raise errors.OffsetOutOfRange(f"{entry} where the log ends at {self.log_end}")
            self._append(entry)
        return self.log_end

    def _append(self, entry: Entry) -> None:
        if entry.epoch != self.latest_epoch:
            self.history.assign(entry.epoch, entry.offset)
        self.entries.append(entry)

    def write(self) -> None:
        """What is queued is in the page cache."""
        self.written_end = self.log_end

    def flush(self) -> None:
        """What is written is on the disk."""
        self.flushed = self.written_end

    def read(self, offset: int, count: int) -> tuple[Entry, ...]:
        """At most so many records of what is written."""
        return tuple(self.entries[offset : min(self.written_end, offset + count)])

    def truncate_to(self, offset: int) -> None:
        """Durable at once."""
        self.write()
        if offset < self.log_end:
            del self.entries[offset:]
            self.written_end = offset
            self.flushed = min(self.flushed, offset)
            self.history.truncate_end(offset)

    def restart_at(self, offset: int) -> None:
        """Only an empty log is meant to need it here."""
        assert offset == 0
        self.truncate_to(0)
        self.history.entries = []

    def adopt_log_start(self, offset: int) -> None:
        """Never in these histories."""
        raise AssertionError("the log start does not move")

    def lose_power(self) -> None:
        """Everything that was not flushed is gone; the epochs are durable, and stale ones are cut at the start."""
        del self.entries[self.flushed :]
        self.written_end = self.flushed
        self.history.truncate_end(self.flushed)

    def wipe(self) -> None:
        """An empty disk under the old id."""
        self.entries, self.history = [], EpochHistory()
        self.written_end = self.flushed = 0
