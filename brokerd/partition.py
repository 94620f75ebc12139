"""A partition as this broker leads it: its log, its epoch, its high watermark, and who waits for it.

The rules V1-V3 live here: acked_end = flushed or written end, by the topic's durability; the high watermark
is the minimum of acked_end over the in-sync replicas and never goes back; consumers, ListOffsets, long polls
and acks=all use that one number.

An append goes through three steps: `append` queues it in the log (no I/O); the end of the turn writes all
that is queued (`write`); in `flushed` topics the flusher's thread then makes it durable and `flushed` is
called. Whoever waits is told at the step it waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_wire import errors

if TYPE_CHECKING:
    from brokerd.storage.partition_log import Appended, PartitionLog

    from kafka_wire.ids import TopicPartition

NOT_CHECKED = -1


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
        self._write_waiters: list[tuple[int, Callable[[errors.KafkaError | None], None]]] = []
        self._commit_waiters: list[tuple[int, Callable[[errors.KafkaError | None], None]]] = []
        self._growth_waiters: set[Callable[[], None]] = set()

    # ---- role

    def lead(self, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], high_watermark: int) -> None:
        """Starts to lead at an epoch; the epoch and where it starts are stored before the first append (A11, R21)."""
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
        self._fail_all(errors.NotLeaderOrFollower("the partition is no longer led by this broker"))
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

    # ---- appending

    def append(self, records: memoryview, now_ms: int) -> Appended:
        """Queues a checked batch; the end of the turn writes it."""
        return self.log.append_as_leader(records, self.leader_epoch, now_ms)

    def when_written(self, end: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Tells when everything below `end` is in the file, or why it never will be."""
        if self.log.written_end >= end:
            tell(None)
        else:
            self._write_waiters.append((end, tell))

    def when_committed(self, end: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Tells when the high watermark has reached `end`."""
        if self.high_watermark >= end:
            tell(None)
        else:
            self._commit_waiters.append((end, tell))

    def write(self) -> None:
        """Writes what is queued. A failure is told to those whose records were rolled back, and raised for the log dir."""
        try:
            self.log.write()
        except Exception as problem:
            failure = errors.KafkaStorageError(f"the append to {self.tp.topic}-{self.tp.partition} failed: {problem}")
            self._fail_beyond(self.log.written_end, failure)
            raise
        self._write_waiters, ready = _split(self._write_waiters, self.log.written_end)
        for tell in ready:
            tell(None)
        self.advance()

    def flushed(self) -> None:
        """The flusher made more of the log durable."""
        self.advance()

    def advance(self) -> None:
        """Moves the high watermark to the least acked end of the in-sync replicas (V2) and tells who waited for it."""
        if not self.is_leader:
            return
        end = self.log.flushed if self.log.config.durability == "flushed" else self.log.written_end
        if end <= self.high_watermark:
            return
        self.high_watermark = end
        if self._commit_waiters:
            self._commit_waiters, ready = _split(self._commit_waiters, end)
            for tell in ready:
                tell(None)
        self._tell_growth()

    # ---- long polls

    def watch_growth(self, tell: Callable[[], None]) -> None:
        """Calls `tell` each time the high watermark moves, until `unwatch_growth`."""
        self._growth_waiters.add(tell)

    def unwatch_growth(self, tell: Callable[[], None]) -> None:
        """Ends `watch_growth`."""
        self._growth_waiters.discard(tell)

    def _tell_growth(self) -> None:
        for tell in tuple(self._growth_waiters):
            tell()

    # ---- failing

    def _fail_beyond(self, end: int, problem: errors.KafkaError) -> None:
        self._write_waiters, failed = _split_failed(self._write_waiters, end)
        self._commit_waiters, more = _split_failed(self._commit_waiters, end)
        for tell in failed + more:
            tell(problem)

    def _fail_all(self, problem: errors.KafkaError) -> None:
        waiters = self._write_waiters + self._commit_waiters
        self._write_waiters, self._commit_waiters = [], []
        for _, tell in waiters:
            tell(problem)


_Waiters = list[tuple[int, Callable[["errors.KafkaError | None"], None]]]
_Tells = list[Callable[["errors.KafkaError | None"], None]]


def _split(waiters: _Waiters, end: int) -> tuple[_Waiters, _Tells]:
    """(those who wait for more than `end`, those who have got it)"""
    return [w for w in waiters if w[0] > end], [tell for needed, tell in waiters if needed <= end]


def _split_failed(waiters: _Waiters, end: int) -> tuple[_Waiters, _Tells]:
    """(those whose records are below `end`, those whose records were rolled back)"""
    return [w for w in waiters if w[0] <= end], [tell for needed, tell in waiters if needed > end]
