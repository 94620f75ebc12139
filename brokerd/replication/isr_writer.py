"""Writes ISR changes of the partitions led here to ZooKeeper: one in flight per partition, many in one multi (A3, A5).

A change counts from the moment it is sent as far as it adds, and from its confirmation as far as it removes (A6). No
answer means that it may have been applied: the same multi is sent again, its versions see to it that it happens once.
A refused batch is sent again one by one; a refused change is settled by what the node says, never by guessing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from brokerd.cluster import decisions
from brokerd.cluster.asynchronous import pause, spawn
from brokerd.replication import isr_change
from brokerd.replication.isr_change import IsrChange, Outcome
from zk_schema.nodes import BadNode, PartitionState, VersionedState
from zk_schema.operations import ConnectionLost, CoordinationError, NodeError, NoNode

if TYPE_CHECKING:
    from brokerd.cluster.cluster_state import ClusterState
    from brokerd.partition import Partition
    from brokerd.replication.leader_state import LeaderState
    from zk_schema.session import Session

log = Logger()

AT_A_TIME = 50
"""Partitions in one multi: far below the limits of A1 whatever their names."""
RETRY_SECONDS = 0.25
REFUSED_SECONDS = 1.0
LOGGED = 20


class _Job:
    """A change on its way, and the leadership that it belongs to."""

    __slots__ = ("change", "leading", "partition")

    def __init__(self, partition: Partition, leading: LeaderState, change: IsrChange) -> None:
        self.partition = partition
        self.leading = leading
        self.change = change

    @property
    def matters(self) -> bool:
        """Whether the partition is still led as it was."""
        return self.partition.leading is self.leading


class IsrWriter:
    """`fence` is the version of our own incarnation node, None while we must not write. `published` is called after
    what is known has changed."""

    def __init__(
        self,
        reactor: Any,
        session: Session,
        known: ClusterState,
        broker_id: int,
        *,
        fence: Callable[[], int | None],
        published: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._session = session
        self._known = known
        self._broker_id = broker_id
        self._fence = fence
        self._published = published
        self._waiting: dict[Partition, None] = {}
        self._timer: Any = None
        self.shrinks = 0
        self.expands = 0
        self.refused = 0

    def propose(self, partition: Partition) -> None:
        """Looks at the partition's ISR at the end of this turn, and writes what is to be changed."""
        self._waiting[partition] = None
        if self._timer is None:
            self._timer = self._reactor.callLater(0, self._look)

    def stop(self) -> None:
        """Proposes nothing more."""
        self._waiting.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _look(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        if self._fence() is None:
            return
        jobs = [job for job in map(self._job, waiting) if job is not None]
        for start in range(0, len(jobs), AT_A_TIME):
            work = spawn(self._write(jobs[start : start + AT_A_TIME]))
            work.addErrback(lambda failure: log.failure("an ISR could not be written", failure))

    def _job(self, partition: Partition) -> _Job | None:
        """What is to be written for a partition. Where another state is known than the partition has been told, it will
        be told soon, and proposed again."""
        leading, topic = partition.leading, self._known.topics.get(partition.tp.topic)
        if leading is None or topic is None or topic.topic_id != partition.log.topic_id:
            return None
        found = topic.states.get(partition.tp.partition)
        if found is None or found.version != leading.version or found.state.leader_epoch != leading.leader_epoch:
            return None
        isr = partition.wished_isr()
        if isr is None:
            return None
        added = tuple((one, leading.followers[one].replica_epoch) for one in isr if one not in leading.committed)
        leading.send(isr)
        change = IsrChange(topic.name, topic.topic_id, partition.tp.partition, found, isr, added)
        return _Job(partition, leading, change)

    # ---- writing

    async def _write(self, jobs: list[_Job]) -> None:
        """Until the changes are applied or refused, or nobody waits for them any more."""
        while jobs := [job for job in jobs if job.matters]:
            fence = self._fence()
            if fence is None:
                self._abandon(jobs)
                return
            guard = isr_change.fence(self._broker_id, fence)
            (multi,) = decisions.pack([job.change.piece() for job in jobs], fences=(guard,))
            try:
                await self._session.multi(multi.all())
            except ConnectionLost:
                await pause(self._reactor, RETRY_SECONDS)
            except NodeError as problem:
                await self._refuse(jobs, problem)
                return
            except CoordinationError as problem:
                log.warn("an ISR could not be written: {problem}", problem=problem)
                self._abandon(jobs)
                return
            else:
                self._confirm(jobs)
                return

    def _abandon(self, jobs: list[_Job]) -> None:
        """Nothing was sent, or the session is over: then all roles are dropped (A12) and the fence is another."""
        for job in jobs:
            if job.matters:
                job.partition.isr_settled()

    def _confirm(self, jobs: list[_Job]) -> None:
        for job in jobs:
            change, before = job.change, job.change.found.state.isr
            after = VersionedState(change.state, change.found.version + 1)
            self._known.put_states(change.topic, [(change.index, after)])
            added = [one for one in change.isr if one not in before]
            gone = [one for one in before if one not in change.isr]
            self.expands += bool(added)
            self.shrinks += bool(gone)
            self._settle(job, after)
        _report(jobs)
        self._published()

    def _settle(self, job: _Job, there: VersionedState) -> None:
        if job.matters:
            job.partition.settle_isr(job.partition.replicas, there.state.isr, there.version)
            job.partition.isr_settled()
            self.propose(job.partition)

    # ---- refused

    async def _refuse(self, jobs: list[_Job], problem: NodeError) -> None:
        if len(jobs) > 1:
            for job in jobs:
                await self._write([job])
            return
        (job,) = jobs
        self.refused += 1
        log.info(
            "the ISR of {topic}-{index} was not written: {problem}",
            topic=job.change.topic,
            index=job.change.index,
            problem=problem,
        )
        if problem.path == job.change.path:
            await self._read(job)
            return
        reborn = isr_change.refused_by(problem, job.change)
        if job.matters:
            if reborn is not None and reborn in job.leading.followers:
                job.leading.followers[reborn].forget_position()
            job.partition.isr_settled()
        await pause(self._reactor, REFUSED_SECONDS)
        self.propose(job.partition)

    async def _read(self, job: _Job) -> None:
        """A5: what is there says whether it was our own write, somebody else's, or the end of our leadership."""
        while job.matters:
            try:
                there = await self._state(job.change)
            except ConnectionLost:
                await pause(self._reactor, RETRY_SECONDS)
                continue
            except (CoordinationError, BadNode) as problem:
                log.error("{problem}", problem=problem)
                self._abandon([job])
                return
            found = isr_change.outcome(job.change, there)
            if found is Outcome.DONE:
                self._confirm([job])
                return
            if there is not None:
                self._known.put_states(job.change.topic, [(job.change.index, there)])
                if found is Outcome.OLD:
                    self._settle(job, there)
                self._published()
            return

    async def _state(self, change: IsrChange) -> VersionedState | None:
        await self._session.sync()
        try:
            data, stat = await self._session.get(change.path)
        except NoNode:
            return None
        return VersionedState(PartitionState.decode(change.topic, change.index, data), stat.version)


def _report(jobs: list[_Job]) -> None:
    """One line for each change; of a flood the first ones, and how many more."""
    for job in jobs[:LOGGED]:
        log.info(
            "in sync for {topic}-{index}: {before} -> {after}",
            topic=job.change.topic,
            index=job.change.index,
            before=list(job.change.found.state.isr),
            after=list(job.change.isr),
        )
    if len(jobs) > LOGGED:
        log.info("and {n} changes of ISRs more", n=len(jobs) - LOGGED)
