"""A partition as this broker leads it: its log, its epoch, its high watermark, and who waits for it.

The rules V1-V3 live here: acked_end = flushed or written end, by the topic's durability; the high watermark
is the minimum of acked_end over the in-sync replicas and never goes back; consumers, ListOffsets, long polls
and acks=all use that one number.

An append goes through three steps: `append` queues it in the log (no I/O); the end of the turn writes all
that is queued (`write`); in `flushed` topics the flusher's thread then makes it durable and `flushed` is
called. Whoever waits is told at the step it waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_wire import errors

if TYPE_CHECKING:
    from brokerd.storage.partition_log import Appended, PartitionLog
    from kafka_wire.ids import TopicPartition

NOT_CHECKED = -1

Tell = Callable[["errors.KafkaError | None"], None]
_Waiters = deque[tuple[int, Tell]]


class Partition:
    """One partition on this broker."""

    def __init__(self, tp: TopicPartition, log: PartitionLog, broker_id: int) -> None:
        self.tp = tp
        self.log = log
        self.broker_id = broker_id
        self.is_leader = False
        self.leader_epoch = -1
        self.epoch_start = 0
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.high_watermark = log.log_start
        self._write_waiters: _Waiters = deque()
        self._commit_waiters: _Waiters = deque()
        self._growth_watchers: dict[Callable[[Partition], None], None] = {}

    # ---- role

    def lead(self, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], high_watermark: int) -> None:
        """Starts to lead at an epoch; the epoch and where it starts are stored before the first append (A11, R21)."""
        if leader_epoch > self.log.latest_epoch:  # else it was stored before, together with those of other partitions
            self.log.start_epoch(leader_epoch)
        self.leader_epoch = leader_epoch
        self.epoch_start = self.log.log_end
        self.replicas = replicas
        self.isr = isr
        self.is_leader = True
        self.high_watermark = min(max(high_watermark, self.log.log_start), self.log.written_end)
        self.advance()

    def resign(self) -> None:
        """Stops leading: everybody who waits here must look for another leader."""
        self.is_leader = False
        problem = errors.NotLeaderOrFollower("the partition is no longer led by this broker")
        for waiters in (self._write_waiters, self._commit_waiters):
            while waiters:
                waiters.popleft()[1](problem)
        self._tell_growth()

    def check_leader(self, current_leader_epoch: int = NOT_CHECKED) -> None:
        """R27: raises unless this broker leads at the epoch that the client believes in (-1: not checked)."""
        if not self.is_leader:
            raise errors.NotLeaderOrFollower(
                f"broker {self.broker_id} does not lead {self.tp.topic}-{self.tp.partition}"
            )
        if current_leader_epoch == NOT_CHECKED or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise errors.FencedLeaderEpoch(f"epoch {current_leader_epoch} is over, {self.leader_epoch} is current")
        raise errors.UnknownLeaderEpoch(f"epoch {current_leader_epoch} is not known here yet")

    def check_enough_replicas(self) -> None:
        """R37: raises if too few replicas are in sync for acks=all; the setting never asks for more than there are."""
        needed = self.log.config.min_insync_replicas
        if len(self.isr) < needed and len(self.isr) < len(self.replicas):
            raise errors.NotEnoughReplicas(
                f"{len(self.isr)} in-sync replicas of {self.tp.topic}-{self.tp.partition} "
                f"are fewer than min.insync.replicas ({needed})"
            )

    # ---- appending

    def append(self, records: memoryview, now_ms: int) -> Appended:
        """Queues a checked batch; the end of the turn writes it."""
        return self.log.append_as_leader(records, self.leader_epoch, now_ms)

    def when_written(self, end: int, tell: Tell) -> None:
        """Tells when everything below `end` is in the file, or why it never will be."""
        if self.log.written_end >= end:
            tell(None)
        else:
            self._write_waiters.append((end, tell))

    def when_committed(self, end: int, tell: Tell) -> None:
        """Tells when the high watermark has reached `end`, or why it never will."""
        if self.high_watermark >= end:
            tell(None)
        else:
            self._commit_waiters.append((end, tell))

    def write(self) -> None:
        """Writes what is queued. A failure is told to those whose records were rolled back, and raised for the dir."""
        try:
            self.log.write()
        except Exception as problem:
            self._fail_beyond(
                self.log.written_end,
                errors.KafkaStorageError(f"the append to {self.tp.topic}-{self.tp.partition} failed: {problem}"),
            )
            raise
        _tell_reached(self._write_waiters, self.log.written_end)
        self.advance()

    def advance(self) -> None:
        """Moves the high watermark to the least acked end of the in-sync replicas (V2) and tells who waited for it."""
        if not self.is_leader:
            return
        end = self.log.flushed if self.log.config.durability == "flushed" else self.log.written_end
        if end <= self.high_watermark:
            return
        self.high_watermark = end
        _tell_reached(self._commit_waiters, end)
        self._tell_growth()

    # ---- long polls

    def watch_growth(self, tell: Callable[[Partition], None]) -> None:
        """Calls `tell` each time the high watermark moves or the leadership ends, until `unwatch_growth`."""
        self._growth_watchers[tell] = None

    def unwatch_growth(self, tell: Callable[[Partition], None]) -> None:
        """Ends `watch_growth`."""
        self._growth_watchers.pop(tell, None)

    def _tell_growth(self) -> None:
        for tell in tuple(self._growth_watchers):
            tell(self)

    def _fail_beyond(self, end: int, problem: errors.KafkaError) -> None:
        for waiters in (self._write_waiters, self._commit_waiters):
            failed = [tell for needed, tell in waiters if needed > end]
            kept = [waiter for waiter in waiters if waiter[0] <= end]
            waiters.clear()
            waiters.extend(kept)
            for tell in failed:
                tell(problem)


def _tell_reached(waiters: _Waiters, end: int) -> None:
    """Tells those who waited for `end` or less. They stand in the order of their offsets, but for a producer's repeat
    of a batch that is still on its way, which is told with the batch before it."""
    while waiters and waiters[0][0] <= end:
        waiters.popleft()[1](None)
