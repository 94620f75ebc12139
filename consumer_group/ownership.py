"""The ownership registry: claims, releases, commits and the audit, one at a time (B7-B9, B14, B22).

One lock orders everything that a member writes. So a commit can never be repeated after the release of its partition,
and what the audit reads cannot be half of something. No step under the lock waits for another member: a claim
takes what is free and reports the rest as blocked.

A broken connection is waited out inside the step, which then looks first at what ZooKeeper has: a node whose
ephemeralOwner is our session is ours (B9), and nobody but us deletes it, so a release is repeated only where the node
is still there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import attrs
from twisted.internet.defer import DeferredLock

from consumer_group.asynchronous import together
from consumer_group.errors import CommitFailedError
from consumer_group.group_session import Evicted, GroupSession, Life
from consumer_group.logs import logger
from consumer_group.membership import Partitions
from consumer_group.offsets import OffsetRegistry
from consumer_group.types import OffsetAndMetadata
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.operations import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeError,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    chunks,
)
from zk_schema.session import WatchEvent

log = logger()

MAX_OWNED = 5000
"""A session with many more ephemeral nodes could keep the ZooKeeper server from starting again (F6, B13)."""
_CLAIMS_PER_MULTI = 500
_RELEASES_PER_MULTI = 300

T = TypeVar("T")
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class StaleClaim(Exception):
    """The plan has changed: what was to be claimed by the old one is void."""


@attrs.frozen
class Outcome:
    """Of a claim: what is ours now, what others still own, and what was not tried because the plan had changed."""

    claimed: Partitions
    blocked: Partitions
    stale: Partitions


class Ownership:
    """One member's writes to its group's registries."""

    def __init__(self, session: GroupSession, group_id: str, on_owner_gone: Callable[[TopicPartition], None]) -> None:
        self._session = session
        self._zookeeper = session.zookeeper
        self._group = group_id
        self._on_owner_gone = on_owner_gone
        self._lock = DeferredLock()
        self._touched: set[TopicPartition] = set()
        self._watched: set[TopicPartition] = set()
        self.offsets = OffsetRegistry(session, group_id)
        self.topic_ids: dict[str, bytes] = {}
        """Ids of the topics that we own partitions of."""

    def new_session(self) -> None:
        """Nothing that was learned in an earlier session holds."""
        self._touched.clear()
        self._watched.clear()
        self.offsets.forget()

    def disconnected(self) -> None:
        """Watches are gone with the connection (K2)."""
        self._watched.clear()

    async def claim(self, life: Life, threads: Mapping[TopicPartition, str], plan_version: int) -> Outcome:
        """Takes what is free (B8). Evicted, LifeOver."""
        claimed: set[TopicPartition] = set()
        blocked: set[TopicPartition] = set()
        wanted = sorted(threads)
        for start in range(0, len(wanted), _CLAIMS_PER_MULTI):
            part = {partition: threads[partition] for partition in wanted[start : start + _CLAIMS_PER_MULTI]}
            try:
                mine, others = await self._locked(life, partial(self._claim, life, part, plan_version))
            except StaleClaim:
                return Outcome(frozenset(claimed), frozenset(blocked), frozenset(wanted[start:]))
            claimed |= mine
            blocked |= others
        return Outcome(frozenset(claimed), frozenset(blocked), frozenset())

    def unwatched(self, partitions: Partitions) -> Partitions:
        """Those whose watch has fired already."""
        return partitions - self._watched

    async def release(
        self,
        life: Life,
        partitions: Iterable[TopicPartition],
        offsets: Callable[[], Offsets],
        released: Callable[[Partitions], None],
    ) -> None:
        """Deletes owner nodes, and commits in the same multis (B7). Evicted, LifeOver.

        `offsets` is asked when it is our turn, so that a commit before it in the queue is not undone; `released` is
        told before the next one's turn, so that a commit behind it leaves these out (B17).
        """
        wanted = sorted(partitions)
        for start in range(0, len(wanted), _RELEASES_PER_MULTI):
            part = wanted[start : start + _RELEASES_PER_MULTI]
            await self._locked(life, partial(self._release, life, part, offsets, released))

    async def commit(self, life: Life, offsets: Callable[[], Offsets]) -> None:
        """Commits what `offsets` has when it is our turn (B14). Evicted, LifeOver."""
        await self._locked(life, lambda: self._commit(life, offsets))

    async def start_offsets(
        self, life: Life, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, bytes]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed for partitions that we have claimed (B10). Evicted, LifeOver."""
        return await self._locked(life, lambda: self.offsets.read(life, partitions, topic_ids))

    async def audit(self, life: Life) -> Partitions:
        """What ZooKeeper has under our session (B22), of all that we ever tried to claim in it. LifeOver."""
        return await self._locked(life, lambda: self._mine(life.session_id))

    async def drop_leftovers(self, session_id: int) -> None:
        """Deletes what a former life in this session owned. LifeOver."""

        async def drop() -> None:
            for partition in await self._mine(session_id):
                with contextlib.suppress(NoNode):
                    await self._zookeeper.delete(self._path(partition))

        await self._lock.acquire()
        try:
            await self._session.persist(session_id, drop)
        finally:
            self._lock.release()

    # --- steps, under the lock; each may be repeated after ConnectionLost ---

    async def _locked(self, life: Life, step: Callable[[], Awaitable[T]]) -> T:
        await self._lock.acquire()
        try:
            self._session.check(life)
            result = await self._session.persist(life.session_id, step)
            self._session.check(life)
            return result
        except NoNode as problem:
            if life.is_fence(problem):
                raise Evicted from None
            raise
        finally:
            self._lock.release()

    async def _claim(
        self, life: Life, threads: Mapping[TopicPartition, str], plan_version: int
    ) -> tuple[set[TopicPartition], set[TopicPartition]]:
        self._touched |= set(threads)
        plan = Check(paths.group_plan(self._group), plan_version)
        while True:
            mine, blocked = await self._present(life, threads)
            free = [partition for partition in threads if partition not in mine and partition not in blocked]
            creates = [Create(self._path(one), threads[one].encode(), ephemeral=True) for one in free]
            if not creates:
                return mine, blocked
            try:
                await self._zookeeper.multi([plan, *life.fence, *creates])
            except BadVersion:
                raise StaleClaim from None
            except NodeExists:
                continue
            except NoNode as problem:
                if life.is_fence(problem):
                    raise
                if problem.path == plan.path:
                    raise StaleClaim from None
                await self._owner_parents({partition.topic for partition in threads})
                continue
            return mine | set(free), blocked

    async def _present(
        self, life: Life, partitions: Iterable[TopicPartition]
    ) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """(mine, others') of those that have an owner. Others' nodes are watched from here on."""
        mine: set[TopicPartition] = set()
        blocked: set[TopicPartition] = set()
        present = await self._existing(partitions)
        asked = [self._zookeeper.exists(self._path(partition), self._watch(partition)) for partition in present]
        for partition, stat in zip(present, await together(asked), strict=True):
            if stat is None:
                continue
            if stat.ephemeral_owner == life.session_id:
                mine.add(partition)
            elif stat.ephemeral_owner == 0:
                # A copy that a coordinator of the other kind left behind (K5): nobody owns by it.
                await self._zookeeper.delete(self._path(partition))
            else:
                blocked.add(partition)
        return mine, blocked

    async def _release(
        self,
        life: Life,
        partitions: list[TopicPartition],
        offsets: Callable[[], Offsets],
        released: Callable[[Partitions], None],
    ) -> None:
        while mine := await self._mine(life.session_id, partitions):
            commits = {partition: commit for partition, commit in offsets().items() if partition in mine}
            written = self._writes(commits)
            deletes = [Delete(self._path(partition)) for partition in sorted(mine)]
            try:
                for multi in self.release_multis(life, written, deletes):
                    await self._zookeeper.multi(multi)
            except NodeError as problem:
                await self._mend(life, problem)
                continue
            self.offsets.written(written)
            break
        released(frozenset(partitions))

    def release_multis(self, life: Life, written: list[Operation], deletes: list[Delete]) -> list[list[Operation]]:
        """Commit and release in one multi: nobody can see the one without the other."""
        return [[*life.fence, *written, *deletes]]

    async def _commit(self, life: Life, offsets: Callable[[], Offsets]) -> None:
        while True:
            operations = self._writes(offsets())
            try:
                for part in chunks(operations, life.fence):
                    await self._zookeeper.multi([*life.fence, *part])
                    self.offsets.written(part)
            except NodeError as problem:
                await self._mend(life, problem)
                continue
            return

    def _writes(self, commits: Offsets) -> list[Operation]:
        return [one for partition in sorted(commits) for one in self.offsets.operations(partition, commits[partition])]

    async def _mend(self, life: Life, problem: NodeError) -> None:
        """After a write failed: the fence is for the caller to see, all else is learned from."""
        if isinstance(problem, NoNode) and life.is_fence(problem):
            raise problem
        if isinstance(problem, BadVersion | NotEmpty):
            raise CommitFailedError(f"the offset registry of {self._group} cannot be written: {problem}") from problem
        await self.offsets.mend(problem, self.topic_ids)

    async def _mine(self, session_id: int, partitions: Iterable[TopicPartition] | None = None) -> Partitions:
        present = await self._existing(self._touched if partitions is None else partitions)
        stats = await together([self._zookeeper.exists(self._path(partition)) for partition in present])
        return frozenset(
            partition
            for partition, stat in zip(present, stats, strict=True)
            if stat is not None and stat.ephemeral_owner == session_id
        )

    async def _existing(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of them that have an owner node: one read for each topic."""
        wanted = sorted(partitions)
        found: dict[str, set[str]] = {}
        for topic in sorted({partition.topic for partition in wanted}):
            try:
                found[topic] = set(await self._zookeeper.children(paths.group_owners(self._group, topic)))
            except NoNode:
                found[topic] = set()
        return [partition for partition in wanted if str(partition.partition) in found[partition.topic]]

    async def _owner_parents(self, topics: Iterable[str]) -> None:
        root = paths.group(self._group)
        await self._session.ensure((root, b""), (f"{root}/owners", b""))
        await self._session.ensure(*((paths.group_owners(self._group, topic), b"") for topic in sorted(topics)))

    def _watch(self, partition: TopicPartition) -> Callable[[WatchEvent], None] | None:
        """One watch for each blocked partition and connection: more would only fire together."""
        if partition in self._watched:
            return None
        self._watched.add(partition)

        def fired(_: WatchEvent) -> None:
            self._watched.discard(partition)
            self._on_owner_gone(partition)

        return fired

    def _path(self, partition: TopicPartition) -> str:
        return paths.group_owner(self._group, partition.topic, partition.partition)
