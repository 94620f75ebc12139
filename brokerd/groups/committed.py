"""OffsetCommit, OffsetFetch and OffsetDelete as the coordinator does them: the member first, then the nodes (K6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import each, spawn
from brokerd.groups.coordinator import LOAD_WIDTH, Hosted, in_vain
from brokerd.groups.offset_nodes import Committed
from brokerd.groups.offset_store import Stored
from brokerd.groups.values import Commit, State
from kafka_wire import errors

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.groups.coordinator import Coordinator
    from zk_schema.session import Session

Found = dict[str, Mapping[int, Stored]]
"""Committed offsets by topic and partition."""


class CommittedOffsets:
    """What handlers call for offsets. Every Deferred fails with a KafkaError and nothing else."""

    def __init__(self, groups: Coordinator, broker: Broker, session: Session) -> None:
        self._groups = groups
        self._broker = broker
        self._session = session

    def commit(self, group_id: str, make: Callable[[int], Commit], entries: Sequence[Committed]) -> Deferred[None]:
        """Fires when the offsets are stored. IllegalGeneration, UnknownMemberId, FencedInstanceId, RebalanceInProgress,
        NotCoordinator, CoordinatorLoadInProgress; CoordinatorNotAvailable while ZooKeeper is away.
        """
        return spawn(self._commit(group_id, make, entries))

    async def _commit(self, group_id: str, make: Callable[[int], Commit], entries: Sequence[Committed]) -> None:
        hosted = self._groups.host(group_id)
        if hosted.group.state is State.EMPTY:
            self._groups.offsets.forget(group_id)  # while nobody is in it, tools write to its nodes
            try:
                await self._make_sure_it_exists(hosted)
            finally:
                self._groups.forget_if_unused(hosted)
        told = await self._groups.submit(group_id, make)
        if told.code != errors.NONE:
            raise errors.for_code(told.code)()
        if not self._session.connected:
            raise errors.CoordinatorNotAvailable("there is no connection to ZooKeeper")
        if entries:
            await self._groups.offsets.commit(hosted.slot, group_id, entries)

    async def _make_sure_it_exists(self, hosted: Hosted) -> None:
        """A group that only keeps offsets has a node too, so that it is listed and expires. Where members of our own
        consumer live they alone commit (B5).
        """
        nodes = hosted.nodes
        try:
            with in_vain():
                await self._groups.store.look_at_kind(nodes)
                if nodes.version is None and nodes.kind is None:
                    stored = attrs.evolve(hosted.group.stored(), time_ms=self._broker.now_ms())
                    await self._groups.store.create(hosted.slot, nodes, stored)
                    hosted.empty_since_ms = stored.time_ms
        except errors.InconsistentGroupProtocol as problem:
            raise errors.UnknownMemberId(problem.message) from problem

    def fetch(self, group_id: str, topics: Mapping[str, Iterable[int]] | None) -> Deferred[Found]:
        """What is committed, of some partitions or of all (None). While ZooKeeper is away CoordinatorLoadInProgress:
        the Java client takes CoordinatorNotAvailable for final here.
        """
        return spawn(self._fetch(group_id, topics))

    async def _fetch(self, group_id: str, topics: Mapping[str, Iterable[int]] | None) -> Found:
        self._groups.slot(group_id)
        if not self._session.connected:
            raise errors.CoordinatorLoadInProgress("there is no connection to ZooKeeper")
        found: Found = {}
        known, offsets = self._broker.view.topics, self._groups.offsets

        async def one(name: str) -> None:
            topic = known.get(name)
            wanted = None if topics is None else topics[name]
            found[name] = await offsets.fetch(group_id, name, topic.topic_id if topic else None, wanted)

        with in_vain(errors.CoordinatorLoadInProgress):
            await each(await offsets.topics(group_id) if topics is None else list(topics), one, LOAD_WIDTH)
        return found

    def remove(self, group_id: str, partitions: Mapping[str, Iterable[int]]) -> Deferred[None]:
        """Takes committed offsets away; that nobody uses them is for the caller to know."""
        return spawn(self._remove(group_id, partitions))

    async def _remove(self, group_id: str, partitions: Mapping[str, Iterable[int]]) -> None:
        slot = self._groups.slot(group_id)
        with in_vain():
            await self._groups.offsets.remove(slot, group_id, partitions)
