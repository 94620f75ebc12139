"""A partition on this broker: its log, its role and epoch, its high watermark, and who waits for it.

The rules V1-V3 live here: acked_end = flushed or written end, by the topic's durability; the high watermark
is the minimum of acked_end over the in-sync replicas and never goes back; consumers, ListOffsets, long polls
and acks=all use that one number. What a leader knows of the other replicas is in `replication/leader_state.py`.

An append goes through three steps: `append` queues it in the log (no I/O); the end of the turn writes all
that is queued (`write`); in `flushed` topics the flusher's thread then makes it durable and `advance` is
called. Whoever waits is told at the step it waits for. A follower's copies go the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokerd.replication import follower_state
from brokerd.replication.leader_state import Heard, LeaderState
from brokerd.replication.surroundings import ALONE, Surroundings
from kafka_wire import errors
from kafka_wire.schema.fetch import EpochEndOffset

if TYPE_CHECKING:
    from brokerd.storage.partition_log import Appended, PartitionLog
    from kafka_wire.ids import TopicPartition
    from kafka_wire.schema.fetch import FetchPartition

NOT_CHECKED = -1
FLUSHED = "flushed"

Tell = Callable[["errors.KafkaError | None"], None]
Watcher = Callable[["Partition"], None]
_Waiters = deque[tuple[int, Tell]]


class Partition:
    """One partition on this broker: led, followed (`leader_epoch` is the leader's), or neither."""

    def __init__(
        self, tp: TopicPartition, log: PartitionLog, broker_id: int, surroundings: Surroundings = ALONE
    ) -> None:
        self.tp = tp
        self.log = log
        self.broker_id = broker_id
        self.is_leader = False
        self.leading: LeaderState | None = None
        self.leader_epoch = -1
        self.epoch_start = 0
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.high_watermark = log.log_start
        self._world = surroundings
        self._guarded = False
        """Whether an append must ask the write gate (A16); not where nobody else could become leader."""
        self._write_waiters: _Waiters = deque()
        self._commit_waiters: _Waiters = deque()
        self._flush_waiters: _Waiters = deque()
        self._growth_watchers: dict[Watcher, None] = {}
        self._log_watchers: dict[Watcher, None] = {}

    # ---- role

    def lead(
        self,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        high_watermark: int,
        version: int = 0,
    ) -> None:
        """Starts to lead at an epoch; the epoch and where it starts are stored before the first append (A11, R21).

        The high watermark is our own until every member of the ISR has fetched (A21, V6). A leader that leads on keeps
        those who wait for it: their records are in the log that the new epoch goes on with.
        """
        leads_on = self.is_leader
        if leader_epoch > self.log.latest_epoch:  # else it was stored before, together with those of other partitions
            self.log.start_epoch(leader_epoch)
        self.leader_epoch = leader_epoch
        self.epoch_start = self.log.log_end
        self.leading = LeaderState(
            self.broker_id, leader_epoch, replicas, isr, version, self.epoch_start, self._world.now()
        )
        self.is_leader = True
        self.high_watermark = min(max(high_watermark, self.log.log_start), self._acked_end())
        self._in_sync(replicas, isr)
        if leads_on:
            self._tell_log()  # replicas that wait here asked in the former epoch

    def follow(self, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        """Is a follower from here on, of whoever leads at this epoch (A21)."""
        if self.is_leader:
            self.resign()
        self.leader_epoch = leader_epoch
        self.replicas, self.isr = replicas, isr

    def resign(self) -> None:
        """Stops leading: everybody who waits here must look for another leader."""
        self.is_leader = self._guarded = False
        self.leading = None
        problem = errors.NotLeaderOrFollower("the partition is no longer led by this broker")
        for waiters in (self._write_waiters, self._commit_waiters):
            _tell_all(waiters, problem)
        self._tell_growth()
        self._tell_log()

    def settle_isr(self, replicas: tuple[int, ...], isr: tuple[int, ...], version: int) -> None:
        """ZooKeeper has this state at our epoch (A21): a change of ours that is confirmed, or another's."""
        leading = self.leading
        if leading is None:
            return
        moved = replicas != self.replicas
        if moved:
            leading.reassign(replicas, self._world.now())
        if leading.settle(isr, version) or moved:
            self._in_sync(replicas, leading.committed)
            if leading.sent is None and leading.followers:
                self._world.propose(self)

    def isr_settled(self) -> None:
        """The change on its way is done, or surely never will be."""
        if self.leading is not None:
            self.leading.give_up()
            self.advance()

    def _in_sync(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        self.replicas, self.isr = replicas, isr
        self.gate()
        self.advance()
        if self._commit_waiters and len(isr) < self.min_insync():
            _tell_all(
                self._commit_waiters,
                errors.NotEnoughReplicasAfterAppend(
                    f"the records are written, but only {len(isr)} replicas of {self.tp.topic}-{self.tp.partition} "
                    "are in sync"
                ),
            )

    def min_insync(self) -> int:
        """min.insync.replicas, which never asks for more than there are (R37)."""
        return min(self.log.config.min_insync_replicas, len(self.replicas) or 1)

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

    # ---- the write gate (A16)

    def gate(self) -> None:
        """Works out anew whether appends must be guarded: after a change of the ISR or of the topic's settings."""
        alone = self.isr == (self.broker_id,) and not self.log.config.unclean_leader_election_enable
        self._guarded = self.is_leader and self._world is not ALONE and not alone

    def check_gate(self) -> None:
        """Raises if another broker may have become leader already; compared at the moment of use (A15)."""
        if self._guarded and not self._may_write():
            raise errors.NotLeaderOrFollower(
                f"broker {self.broker_id} cannot be sure that it still leads {self.tp.topic}-{self.tp.partition}"
            )

    def _may_write(self) -> bool:
        world, leading = self._world, self.leading
        return world.lease_valid() or (leading is not None and leading.may_write(world.now(), world.horizon_seconds))

    # ---- appending

    def append(self, records: memoryview, now_ms: int) -> Appended:
        """Queues a checked batch; the end of the turn writes it."""
        if self._guarded:
            self.check_gate()
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

    def when_flushed(self, end: int, tell: Tell) -> None:
        """Tells when everything below `end` is on the disk; a follower waits for it (V4)."""
        if self.log.flushed >= end:
            tell(None)
        else:
            self._flush_waiters.append((end, tell))

    def write(self) -> None:
        """Writes what is queued. A failure is told to those whose records were rolled back, and raised for the dir."""
        log = self.log
        before = log.written_end
        try:
            log.write()
        except Exception as problem:
            self.high_watermark = min(self.high_watermark, log.log_end)
            self._fail_beyond(
                log.written_end,
                errors.KafkaStorageError(f"the append to {self.tp.topic}-{self.tp.partition} failed: {problem}"),
            )
            raise
        if self._write_waiters:
            if self._guarded and not self._may_write():
                _tell_all(self._write_waiters, errors.NotLeaderOrFollower("the lease has ended"))
            _tell_reached(self._write_waiters, log.written_end)
        leading = self.leading
        if leading is not None and leading.followers and log.written_end > before:
            leading.grows_from(before)
            self._tell_log()
        self.advance()

    def _acked_end(self) -> int:
        return self.log.flushed if self.log.config.durability == FLUSHED else self.log.written_end

    def advance(self) -> None:
        """Moves the high watermark to the least acked end of the in-sync replicas (V2) and tells who waited for it."""
        if self._flush_waiters:
            _tell_reached(self._flush_waiters, self.log.flushed)
        leading = self.leading
        if leading is None:
            return
        end = self.log.flushed if self.log.config.durability == FLUSHED else self.log.written_end
        if end <= self.high_watermark:
            return
        mark = leading.high_watermark(end, self.high_watermark, self.min_insync())
        if mark <= self.high_watermark:
            return
        if self._guarded and not self._may_write():  # A15: what is acknowledged now may be answered by another leader
            self._world.hold(self)
            return
        self.high_watermark = mark
        _tell_reached(self._commit_waiters, mark)
        self._tell_growth()

    # ---- as leader: what a replica asks

    def asked(self, replica_id: int, replica_epoch: int, asked: FetchPartition, heard: Heard) -> EpochEndOffset | None:
        """A replica's fetch: where its history parts from ours (R25), or None, and its position is known (R2).

        Raises what it is to be told. A diverging fetch changes nothing here.
        """
        self.check_leader(asked.current_leader_epoch)
        log, leading = self.log, self.leading
        assert leading is not None
        offset = asked.fetch_offset
        if offset < log.log_start:
            raise errors.OffsetOutOfRange(f"offset {offset} is below {log.log_start}")
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.epoch_end_offset(asked.last_fetched_epoch)
            if epoch < 0:
                raise errors.UnknownLeaderEpoch(f"epoch {asked.last_fetched_epoch} is not known here")
            if epoch < asked.last_fetched_epoch or end < offset:
                return EpochEndOffset(epoch, end)
        if offset > log.log_end:
            raise errors.OffsetOutOfRange(f"offset {offset} is above {log.log_end}")
        world = self._world
        now = world.now()
        follower = leading.asked(replica_id, replica_epoch, offset, log.written_end, now, heard)
        if replica_id not in leading.committed:
            leading.look_at(follower, log.written_end, now, world.lag_seconds, world.fit)
            if follower.joining and leading.sent is None:
                world.propose(self)
        if offset > self.high_watermark:
            self.advance()
        return None

    def wished_isr(self) -> tuple[int, ...] | None:
        """The ISR as it should be; None: as it is."""
        if self.leading is None:
            return None
        world = self._world
        return self.leading.wish(self.high_watermark, self.log.written_end, world.now(), world.lag_seconds, world.fit)

    # ---- as follower: what the leader answers

    def question(self) -> follower_state.Question:
        """What to ask the leader for."""
        log = self.log
        return follower_state.Question(self.leader_epoch, log.log_end, log.last_record_epoch, log.log_start)

    def copy(self, records: memoryview) -> bool:
        """Queues batches of the leader; the end of the turn writes them. Says whether there was a whole one."""
        before = self.log.log_end
        return self.log.append_as_follower(records) > before

    def adopt(self, high_watermark: int, log_start: int) -> None:
        """Takes over the leader's marks as far as the log goes (R3, R10)."""
        log = self.log
        self.high_watermark = follower_state.adopted_high_watermark(self.high_watermark, high_watermark, log.log_end)
        start = follower_state.adopted_log_start(log.log_start, log_start, self.high_watermark)
        if start > log.log_start:
            log.adopt_log_start(start)

    def cut(self, offset: int) -> None:
        """Drops what the leader does not have."""
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end)

    def restart(self, offset: int) -> None:
        """Drops everything and begins at `offset`."""
        self.log.restart_at(offset)
        self.high_watermark = offset

    # ---- long polls

    def watch_growth(self, tell: Watcher) -> None:
        """Calls `tell` each time the high watermark moves or the leadership ends, until `unwatch_growth`."""
        self._growth_watchers[tell] = None

    def unwatch_growth(self, tell: Watcher) -> None:
        """Ends `watch_growth`."""
        self._growth_watchers.pop(tell, None)

    def watch_log(self, tell: Watcher) -> None:
        """Calls `tell` each time records are written by the leader or the leadership ends, until `unwatch_log`."""
        self._log_watchers[tell] = None

    def unwatch_log(self, tell: Watcher) -> None:
        """Ends `watch_log`."""
        self._log_watchers.pop(tell, None)

    def _tell_growth(self) -> None:
        for tell in tuple(self._growth_watchers):
            tell(self)

    def _tell_log(self) -> None:
        for tell in tuple(self._log_watchers):
            tell(self)

    def _fail_beyond(self, end: int, problem: errors.KafkaError) -> None:
        for waiters in (self._write_waiters, self._commit_waiters, self._flush_waiters):
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


def _tell_all(waiters: _Waiters, problem: errors.KafkaError) -> None:
    while waiters:
        waiters.popleft()[1](problem)
