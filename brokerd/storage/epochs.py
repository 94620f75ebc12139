"""Which leader epoch started where (R20-R23): Kafka's `leader-epoch-checkpoint`, a line `epoch start-offset` for each.

Epochs and offsets both rise strictly: of two epochs that start at one offset the older one wrote nothing. The file is
made durable at once whenever the history changes; a tail that a crash made stale is cut when the log is opened.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path

from brokerd.storage.checkpoint import BadCheckpoint, read_lines, write_lines

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = (-1, -1)


class EpochHistory:
    """The epochs of one log. Every change returns whether there was one, so that the caller knows when to store."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries = entries or []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, start: int) -> bool:
        """From `start` on records are of `epoch`. Entries that contradict it go; an epoch keeps its first start."""
        if epoch < 0 or (self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= start):
            return False
        # Whoever is said to have started here or later wrote nothing: a leader that stored its epoch and lost it (R21).
        kept = [entry for entry in self.entries if entry[0] <= epoch and entry[1] < start]
        self.entries = kept if kept and kept[-1][0] == epoch else [*kept, (epoch, start)]
        return True

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """R23: (epoch, end) of the largest known epoch that is at most `epoch`."""
        if not self.entries or epoch < 0 or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        number = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if number == 0:
            return epoch, self.entries[0][1]
        return self.entries[number - 1][0], self.entries[number][1]

    def before(self, log_end: int) -> int:
        """The epoch of the last record of a log that ends there; -1 if it has none that is known."""
        number = bisect_left(self.entries, log_end, key=lambda entry: entry[1])
        return self.entries[number - 1][0] if number else -1

    def truncate_end(self, log_end: int) -> bool:
        """Forgets epochs that start beyond the end of the log. One that starts right there stays: its leader said
        so before its first append (R21)."""
        kept = [entry for entry in self.entries if entry[1] <= log_end]
        changed = len(kept) != len(self.entries)
        self.entries = kept
        return changed

    def truncate_start(self, log_start: int) -> bool:
        """Forgets epochs that ended before the start of the log; the one of the first record starts there now."""
        number = bisect_right(self.entries, log_start, key=lambda entry: entry[1])
        if number == 0 or (number == 1 and self.entries[0][1] == log_start):
            return False
        self.entries = [(self.entries[number - 1][0], log_start), *self.entries[number:]]
        return True


def load(directory: Path) -> EpochHistory:
    """The history stored in a partition's directory; BadCheckpoint if the file means nothing."""
    path = directory / FILE_NAME
    try:
        entries = [(int(epoch), int(start)) for epoch, start in read_lines(path)]
    except ValueError:
        raise BadCheckpoint(f"{path}: a line is not `epoch offset`") from None
    history = EpochHistory()
    for epoch, start in entries:
        history.assign(epoch, start)
    return history


def store(directory: Path, history: EpochHistory) -> None:
    """Makes the history durable."""
    write_lines(directory / FILE_NAME, [f"{epoch} {start}" for epoch, start in history.entries])
