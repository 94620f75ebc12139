"""What a consumer does between the group, which gives partitions, and the application, which polls.

All of it runs on the reactor's thread. The engine opens a Flow for each partition that the member starts, finds out
where to begin, has it fetched, commits what was handled, and closes the flow when the partition goes. The group is
`rebalancer`'s matter, the brokers `fetcher`'s, and what application threads see is in `deliveries`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from consumer_group import membership as m
from consumer_group.asynchronous import pause, spawn, stop_timer
from consumer_group.chunks import Chunk
from consumer_group.deliveries import Deliveries, Flow, FlowState
from consumer_group.errors import CommitFailedError, IllegalStateError, NoOffsetForPartitionError, PositionError
from consumer_group.group_session import Evicted, Life, LifeOver
from consumer_group.logs import logger
from consumer_group.membership import Partitions, State
from consumer_group.ownership import Offsets
from consumer_group.rebalancer import Rebalancer
from consumer_group.settings import EARLIEST, NO_RESET, Settings
from consumer_group.types import OffsetAndMetadata, OffsetAndTimestamp
from kafka_wire.errors import KafkaError
from kafka_wire.exchange import back_off
from kafka_wire.ids import TopicPartition
from zk_schema.consumer_nodes import Registration

log = logger()

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = -2, -1
LONGEST_BACK_OFF = 1.0

Commits = Mapping[TopicPartition, tuple[Flow, OffsetAndMetadata]]


class Lookup(Protocol):
    """Who knows offsets by time."""

    async def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """One try; those that could not be asked are left out. KafkaError if nobody could."""


class Fetches(Protocol):
    """Who brings data into the flows."""

    def wake(self) -> None:
        """Something has changed: there may be more to fetch."""

    def stop(self) -> None:
        """No more."""


@attrs.define(eq=False)
class _Waiter:
    """Who waits for a commit, and of what."""

    wanted: Commits
    done: Deferred[None] = attrs.field(factory=Deferred)


class Engine:
    """One consumer's work in a group. `subscription` is asked for whenever the member registers."""

    def __init__(
        self,
        reactor: Any,
        session: Any,
        settings: Settings,
        deliveries: Deliveries,
        registration: Registration,
        lookup: Lookup,
        **rebalancer_options: Any,
    ) -> None:
        assert settings.group_id is not None
        self.registration = registration
        self.deliveries = deliveries
        self._reactor = reactor
        self._session = session
        self._settings = settings
        self._lookup = lookup
        self._fetches: Fetches | None = None
        self._handing: dict[TopicPartition, Flow] = {}
        self._pending: dict[TopicPartition, tuple[Flow, OffsetAndMetadata]] = {}
        self._with_release: dict[TopicPartition, OffsetAndMetadata] = {}
        self._waiters: list[_Waiter] = []
        self._committing = False
        self._auto_commit: Any = None
        self._overdue: dict[TopicPartition, Any] = {}
        self._stopping = False
        self.rebalancer = Rebalancer(
            reactor, session, settings.group_id, lambda: self.registration, self, **rebalancer_options
        )

    def begin(self, fetches: Fetches) -> None:
        """The session may be started now."""
        self._fetches = fetches
        if self._settings.enable_auto_commit:
            self._plan_auto_commit()

    def stop(self) -> Deferred[None]:
        """Give back everything, in order, and leave; the application's thread must still do its tasks."""
        self._stopping = True
        stop_timer(self._auto_commit)
        return self.rebalancer.leave().addCallback(lambda _: self._stopped())

    def abandon(self) -> None:
        """Leave without the application."""
        self.rebalancer.abandon()

    def resubscribe(self, registration: Registration) -> None:
        """The member wants other topics, or has another number of streams."""
        self.registration = registration
        self.rebalancer.resubscribe()

    def _stopped(self) -> None:
        for timer in self._overdue.values():
            stop_timer(timer)
        if self._fetches is not None:
            self._fetches.stop()
        self._fail_waiters(CommitFailedError("the consumer is closed"))

    # --- what the group wants (Host) ---

    def start(self, life: Life, partitions: Mapping[TopicPartition, int], topic_ids: Mapping[str, bytes]) -> None:
        """Open a flow for each, and find out where to begin."""
        flows = [Flow(one, topic_ids.get(one.topic, b""), partitions[one]) for one in sorted(partitions)]
        for flow in flows:
            self.deliveries.open(flow)
        spawn(self._start(life, flows, topic_ids)).addErrback(self._start_failed, life, flows)

    async def _start(self, life: Life, flows: list[Flow], topic_ids: Mapping[str, bytes]) -> None:
        stored = await self.rebalancer.ownership.start_offsets(life, [flow.partition for flow in flows], topic_ids)
        without: list[Flow] = []
        for flow in flows:
            found = stored.get(flow.partition)
            if found is None:
                without.append(flow)
            else:
                self.deliveries.started(flow, found.offset, found.offset, found.leader_epoch)
        self._wake()
        if without and self._settings.auto_offset_reset == NO_RESET:
            self._refuse_to_guess(without)
        elif without:
            await self._reset(life, without)

    async def _reset(self, life: Life, flows: list[Flow]) -> None:
        """B11: resolve, commit, then deliver; so that a crash before the first commit cannot skip records."""
        failures = 0
        while flows := [flow for flow in flows if flow.live]:
            found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
            try:
                found = await self._lookup.offsets([flow.partition for flow in flows], self.reset_timestamp)
            except KafkaError as problem:
                log.debug("no first offset yet: {problem}", problem=problem.message)
            known = {flow.partition: (flow, _first(found[flow.partition])) for flow in flows if flow.partition in found}
            if known:
                failures = 0
                await self.commit(known)
                for flow, first in known.values():
                    self.deliveries.started(flow, first.offset, first.offset, first.leader_epoch)
                self._wake()
                flows = [flow for flow in flows if flow.partition not in known]
            if flows:
                failures += 1
                base = self._settings.retry_backoff_ms / 1000
                await pause(self._reactor, back_off(failures, base, LONGEST_BACK_OFF, self.uniform))
        self.rebalancer.session.check(life)

    @property
    def reset_timestamp(self) -> int:
        """What ListOffsets is asked for by auto_offset_reset."""
        return EARLIEST_TIMESTAMP if self._settings.auto_offset_reset == EARLIEST else LATEST_TIMESTAMP

    def uniform(self, low: float, high: float) -> float:
        """Jitter from the member's own dice, so that a simulation repeats itself."""
        return self.rebalancer.dice.uniform(low, high)

    def _refuse_to_guess(self, flows: list[Flow]) -> None:
        for flow in flows:
            self.deliveries.started(flow, -1, -1)
            group, partition = self._settings.group_id, flow.partition
            text = f"{partition} has no committed offset in group {group}, and auto_offset_reset is none"
            problem = NoOffsetForPartitionError(partition, -1, text)
            self.deliveries.add(flow, Chunk(b"", -1, -1, problem=problem), flow.seeks)

    def _start_failed(self, failure: Failure, life: Life, flows: list[Flow]) -> None:
        problem = failure.value
        if isinstance(problem, Evicted):
            self.rebalancer.evicted(life)
        elif isinstance(problem, Exception) and not isinstance(problem, LifeOver | CommitFailedError):
            for flow in flows:
                if self.deliveries.started(flow, -1, -1):
                    text = f"{flow.partition}: where to begin is not known ({problem}); seek to an offset to go on"
                    chunk = Chunk(b"", -1, -1, problem=PositionError(flow.partition, -1, text))
                    self.deliveries.add(flow, chunk, flow.seeks)

    def hand_over(self, partitions: Partitions) -> None:
        """Stop them and have the application let go."""
        flows = [flow for flow in map(self.deliveries.flow, sorted(partitions)) if flow is not None]
        self._handing.update((flow.partition, flow) for flow in flows)
        at_once = self.deliveries.revoke(flows)
        waiting = [flow for flow in flows if flow not in at_once]
        seconds = self._settings.max_poll_interval_ms / 1000
        for flow in waiting:
            self._overdue[flow.partition] = self._reactor.callLater(seconds, self._too_late, flow)
        missing = partitions - {flow.partition for flow in waiting}
        if missing:
            self.rebalancer.post(m.HandedOver(missing))

    def handed_over(self, flows: Iterable[Flow]) -> None:
        """The application let go of these."""
        given = [flow for flow in flows if flow.state is FlowState.HANDING]
        for flow in given:
            stop_timer(self._overdue.pop(flow.partition, None))
        if given:
            self.rebalancer.post(m.HandedOver(frozenset(flow.partition for flow in given)))

    def _too_late(self, flow: Flow) -> None:
        if flow.state is FlowState.HANDING:
            log.error(
                "{partition} is taken from the application, which did not poll for {ms} ms",
                partition=str(flow.partition),
                ms=self._settings.max_poll_interval_ms,
            )
            self.rebalancer.post(m.HandOverOverdue(frozenset((flow.partition,))))

    def lose(self, partitions: Partitions) -> None:
        """Stop at once."""
        flows = [flow for flow in map(self.deliveries.flow, sorted(partitions)) if flow is not None]
        self.deliveries.lose(flows)
        for partition in sorted(partitions):
            stop_timer(self._overdue.pop(partition, None))
            self._handing.pop(partition, None)

    def offsets_of(self, partitions: Partitions) -> Offsets:
        """What goes with the release: what the application asked to commit last, or what it has proved handled."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition in sorted(partitions):
            flow = self._handing.get(partition)
            if flow is None:
                continue
            asked = self._pending.get(partition)
            if asked is not None and asked[0] is flow:
                found[partition] = asked[1]
            if self._settings.enable_auto_commit:
                proven = self.deliveries.proven_of(flow)
                known = found[partition].offset if partition in found else flow.committed
                if proven >= 0 and (proven > known or (flow.rewound and partition not in found and proven != known)):
                    found[partition] = OffsetAndMetadata(proven)
        self._with_release.update(found)
        return found

    def released(self, partitions: Partitions) -> None:
        """Their owner nodes are gone, and what `offsets_of` said is committed."""
        flows = [self._handing.pop(partition) for partition in sorted(partitions) if partition in self._handing]
        for flow in flows:
            commit = self._with_release.pop(flow.partition, None)
            if commit is not None:
                flow.committed = commit.offset
        self.deliveries.end(flows)

    def refused(self, problem: Exception) -> None:
        """The application must hear of it."""
        self.deliveries.fail(problem)

    def settled(self) -> None:
        """Iterations look at the lease again when the member is not what it was."""
        if self.rebalancer.member.state is State.FENCED:
            self.deliveries.interrupt()

    # --- commits ---

    def commit(self, wanted: Commits) -> Deferred[None]:
        """Fires when it is written. CommitFailedError, IllegalStateError; nothing of it is written then.

        At most one write is under way; what comes meanwhile goes with the next (B14).
        """
        news: dict[TopicPartition, tuple[Flow, OffsetAndMetadata]] = {}
        for partition, (flow, commit) in wanted.items():
            if not flow.live or self.deliveries.flow(partition) is not flow:
                return fail(_fenced([partition]))
            if commit.offset < flow.committed and not flow.rewound:
                text = f"{partition}: {commit.offset} is behind what is committed, {flow.committed}; seek there first"
                return fail(IllegalStateError(text))
            if commit.offset != flow.committed or commit.metadata or partition in self._pending:
                news[partition] = (flow, commit)
        if not news:
            return succeed(None)
        self._pending.update(news)
        waiter = _Waiter(news)
        self._waiters.append(waiter)
        if not self._committing:
            self._committing = True
            spawn(self._commit_pending()).addErrback(
                lambda failure: log.failure("commits have stopped", failure)
            )
        return waiter.done

    async def _commit_pending(self) -> None:
        try:
            while self._pending or self._waiters:
                waiters, self._waiters = self._waiters, []
                taken: dict[TopicPartition, tuple[Flow, OffsetAndMetadata]] = {}
                life = self.rebalancer.session.life
                try:
                    if life is None:
                        raise _fenced(self._pending)
                    await self.rebalancer.commit(life, partial(self._take, taken))
                except Exception as problem:
                    self._pending.clear()
                    for waiter in waiters:
                        waiter.done.errback(problem)
                    continue
                for flow, commit in taken.values():
                    flow.committed = commit.offset
                    flow.rewound = flow.rewound and flow.position < commit.offset
                for waiter in waiters:
                    _settle(waiter)
        finally:
            self._committing = False

    def _take(self, taken: dict[TopicPartition, tuple[Flow, OffsetAndMetadata]]) -> Offsets:
        """Everything that waits, at the moment of writing; what is not ours any more is left out (B17)."""
        taken.update(self._pending)
        self._pending.clear()
        for partition in [one for one, (flow, _) in taken.items() if self.deliveries.flow(one) is not flow]:
            del taken[partition]
        return {partition: commit for partition, (_, commit) in taken.items()}

    def _fail_waiters(self, problem: Exception) -> None:
        waiters, self._waiters = self._waiters, []
        self._pending.clear()
        for waiter in waiters:
            waiter.done.errback(problem)

    def _plan_auto_commit(self) -> None:
        self._auto_commit = self._reactor.callLater(self._settings.auto_commit_interval_ms / 1000, self._commit_proven)

    def _commit_proven(self) -> None:
        if self._stopping:
            return
        self._plan_auto_commit()
        if not self._session.connected:
            return
        proven = {
            partition: (flow, OffsetAndMetadata(offset))
            for partition, (flow, offset) in self.deliveries.proven().items()
            if flow.state is FlowState.FLOWING and (offset > flow.committed or flow.rewound)
        }
        if proven:
            self.commit(proven).addErrback(
                lambda failure: log.warn("automatic commit: {why}", why=failure.getErrorMessage())
            )

    def _wake(self) -> None:
        if self._fetches is not None:
            self._fetches.wake()


def _first(found: OffsetAndTimestamp | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(0 if found is None else found.offset)


def _fenced(partitions: Iterable[TopicPartition]) -> CommitFailedError:
    names = ", ".join(sorted(map(str, partitions)))
    return CommitFailedError(f"not committed: this consumer does not own {names or 'anything'} any more")


def _settle(waiter: _Waiter) -> None:
    """The commit of a flow that ended meanwhile may have been made by its release; otherwise it was not made."""
    wanted = waiter.wanted.items()
    over = [one for one, (flow, commit) in wanted if flow.committed < commit.offset and not flow.live]
    if over:
        waiter.done.errback(_fenced(over))
    else:
        waiter.done.callback(None)
