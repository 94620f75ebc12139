"""Coordinator that go: because somebody says so, or because nobody came for too long (offsets.retention.minutes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from brokerd.cluster.asynchronous import pause, spawn
from brokerd.groups.coordinator import Hosted, in_vain
from brokerd.groups.group_store import Nodes
from brokerd.groups.offset_store import Stored
from brokerd.groups.values import Delete, State
from kafka_wire import errors
from zk_schema.group_nodes import REGISTRY

if TYPE_CHECKING:
    from brokerd.groups.committed import CommittedOffsets
    from brokerd.groups.coordinator import Coordinator
    from brokerd.groups.slots import Slot

log = Logger()

CHECK_SECONDS = 600.0
"""How often expiry is looked for."""
SETTLE_SECONDS = 0.05


def expired(
    found: Mapping[str, Mapping[int, Stored]], empty_since_ms: int, now_ms: int, retention_ms: int
) -> dict[str, list[int]]:
    """The offsets of an empty group that nobody committed, and whose group nobody was in, for the retention time."""
    gone: dict[str, list[int]] = {}
    for topic, partitions in found.items():
        for index, stored in partitions.items():
            if now_ms - max(stored.time_ms, empty_since_ms) >= retention_ms:
                gone.setdefault(topic, []).append(index)
    return gone


class Removal:
    """Deletes groups on request, and what has expired on a timer."""

    def __init__(
        self,
        reactor: Any,
        groups: Coordinator,
        committed: CommittedOffsets,
        retention_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._reactor = reactor
        self._groups = groups
        self._committed = committed
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._timer: Any = None

    def start(self) -> None:
        """Looks for what has expired from now on."""
        self._timer = self._reactor.callLater(CHECK_SECONDS, self._check)

    def stop(self) -> None:
        """No more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    # ---- on request

    def delete(self, group_id: str) -> Deferred[None]:
        """Takes a group without members away, with its offsets. NonEmptyGroup, GroupIdNotFound, NotCoordinator,
        CoordinatorLoadInProgress, CoordinatorNotAvailable.
        """
        return spawn(self._delete(group_id))

    async def _delete(self, group_id: str) -> None:
        groups = self._groups
        slot = groups.slot(group_id)
        hosted = groups.hosted.get(group_id)
        nodes = hosted.nodes if hosted is not None else Nodes(group_id)
        try:
            with in_vain():
                await groups.store.look_at_kind(nodes)
        except errors.InconsistentGroupProtocol as problem:
            raise errors.NonEmptyGroup(problem.message) from problem
        if not nodes.exists:
            raise errors.GroupIdNotFound(f"there is no group {group_id!r}")
        if hosted is not None:
            told = await groups.submit(group_id, Delete)
            if told.code != errors.NONE:
                raise errors.for_code(told.code)()
        await self._remove(slot, group_id, hosted)

    async def _remove(self, slot: Slot, group_id: str, hosted: Hosted | None) -> None:
        """The nodes go. The machine is dead meanwhile; whatever happens, what ZooKeeper says counts afterwards."""
        groups = self._groups
        try:
            while hosted is not None and (hosted.storing or hosted.copying) and slot.held:
                await pause(self._reactor, SETTLE_SECONDS)
            with in_vain():
                await groups.store.remove(slot, group_id)
        finally:
            groups.offsets.forget(group_id)
            if hosted is not None and groups.hosted.get(group_id) is hosted:
                del groups.hosted[group_id]
                with in_vain():
                    await groups.load_group(slot, group_id)

    # ---- on time

    def _check(self) -> None:
        self.start()
        spawn(self.expire(self._now_ms())).addErrback(
            lambda failure: log.failure("expired offsets could not be removed", failure)
        )

    async def expire(self, now_ms: int) -> None:
        """Removes what has expired: offsets one by one, the group with its last."""
        for group_id, hosted in list(self._groups.hosted.items()):
            if hosted.group.state is State.EMPTY and now_ms - hosted.empty_since_ms >= self._retention_ms:
                try:
                    await self._expire_group(group_id, hosted, now_ms)
                except errors.KafkaError as problem:
                    log.info("group {name} did not expire: {problem}", name=group_id, problem=problem)

    async def _expire_group(self, group_id: str, hosted: Hosted, now_ms: int) -> None:
        with in_vain():
            await self._groups.store.look_at_kind(hosted.nodes)
        if hosted.nodes.kind == REGISTRY:
            return
        found = await self._committed.fetch(group_id, None)
        gone = expired(found, hosted.empty_since_ms, now_ms, self._retention_ms)
        if hosted.group.state is not State.EMPTY:
            return
        if _count(gone) == _count(found):
            log.info("group {name} was empty for too long and is removed", name=group_id)
            await self._delete(group_id)
        elif gone:
            await self._committed.remove(group_id, gone)


def _count(found: Mapping[str, Iterable[int]]) -> int:
    return sum(len(list(indexes)) for indexes in found.values())
