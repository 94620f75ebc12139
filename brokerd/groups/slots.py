"""The partitions of `__consumer_offsets` that this broker leads: the slots whose groups it coordinates (K1).

Every write for a group goes through `multi`, which puts the check of the slot's state node before it (K2): a broker
that was deposed, and does not know it yet, cannot write. That the version moved is no reason to stop (the ISR may have
changed): the state is read, and only another leader or another epoch ends the slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from brokerd.groups.placement import OFFSETS_TOPIC, slot_of
from kafka_wire import errors
from zk_schema import paths
from zk_schema.nodes import BadNode, PartitionState
from zk_schema.operations import BadVersion, Check, NodeError, NoNode, Operation

if TYPE_CHECKING:
    from brokerd.metadata import ClusterView, TopicInfo
    from zk_schema.session import Session

MAX_FENCE_READS = 5


@attrs.define(eq=False)
class Slot:
    """One led partition at one epoch. `held` ends for good; a slot that is won again is another one."""

    index: int
    epoch: int
    version: int
    held: bool = True
    loaded: bool = False

    @property
    def fence(self) -> Check:
        """What every write for its groups demands."""
        return Check(paths.partition_state(OFFSETS_TOPIC, self.index), self.version)


class SlotLost(errors.NotCoordinator):
    """Somebody else coordinates this slot now."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(f"this broker no longer leads {OFFSETS_TOPIC}-{slot.index}")
        self.slot = slot


class Slots:
    """Which slots are held. `registered` says whether this broker has roles at all; `lost` is told of slots that a
    write found to be somebody else's before the view did.
    """

    def __init__(
        self,
        session: Session,
        broker_id: int,
        view: Callable[[], ClusterView],
        *,
        registered: Callable[[], bool],
        lost: Callable[[Slot], None],
    ) -> None:
        self._session = session
        self._broker_id = broker_id
        self._view = view
        self._registered = registered
        self._lost = lost
        self._seen: tuple[TopicInfo | None, bool] = (None, False)
        self._deposed: dict[int, int] = {}
        self.held: dict[int, Slot] = {}

    def count(self) -> int | None:
        """How many slots there are; None before the topic is made."""
        topic = self._view().topics.get(OFFSETS_TOPIC)
        return None if topic is None else len(topic.partitions)

    def index_of(self, group_id: str) -> int:
        """The slot of a group. CoordinatorNotAvailable before the topic is made."""
        count = self.count()
        if count is None:
            raise errors.CoordinatorNotAvailable(f"{OFFSETS_TOPIC} does not exist yet")
        return slot_of(group_id, count)

    def refresh(self) -> tuple[list[Slot], list[Slot]]:
        """Compares with the view: (gained, lost). Cheap while nothing changed."""
        registered = self._registered()
        topic = self._view().topics.get(OFFSETS_TOPIC) if registered else None
        if (topic, registered) == self._seen:
            return [], []
        self._seen = (topic, registered)
        mine = {} if topic is None else {one.index: one for one in topic.partitions if one.leader == self._broker_id}
        gone = [
            slot for slot in self.held.values() if slot.index not in mine or mine[slot.index].leader_epoch > slot.epoch
        ]
        for slot in gone:
            self._end(slot)
        gained: list[Slot] = []
        for index, info in mine.items():
            held = self.held.get(index)
            if held is not None:
                held.version = max(held.version, info.version)
            elif info.leader_epoch > self._deposed.get(index, -1):
                self.held[index] = Slot(index, info.leader_epoch, info.version)
                gained.append(self.held[index])
        return gained, gone

    def slot_for(self, group_id: str) -> Slot:
        """The slot of a group that may be used now. NotCoordinator, CoordinatorLoadInProgress, InvalidGroupId."""
        count = self.count()
        slot = None if count is None else self.held.get(slot_of(group_id, count))
        if slot is None or not self._session.lease_valid():
            raise errors.NotCoordinator("another broker coordinates this group")
        if not slot.loaded:
            raise errors.CoordinatorLoadInProgress("the group is being read from ZooKeeper")
        return slot

    async def multi(self, slots: Iterable[Slot], operations: Sequence[Operation]) -> list[Any]:
        """The results of the operations, all or nothing, while all of the slots are ours. SlotLost, CoordinationError;
        the `index` of a NodeError counts the operations without the fences.
        """
        needed = list(dict.fromkeys(slots))
        for _ in range(MAX_FENCE_READS):
            self._check_held(needed)
            try:
                results = await self._session.multi([*(slot.fence for slot in needed), *operations])
            except NodeError as problem:
                if problem.index is None:
                    raise
                if problem.index < len(needed):
                    await self._recheck(needed[problem.index])
                    continue
                problem.index -= len(needed)
                raise
            return results[len(needed) :]
        raise errors.CoordinatorNotAvailable("the state of the slot changes too often")

    def _check_held(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            if not slot.held:
                raise SlotLost(slot)

    async def _recheck(self, slot: Slot) -> None:
        """The state node is not as we knew it: still ours, or SlotLost."""
        try:
            data, stat = await self._session.get(slot.fence.path)
            state = PartitionState.decode(OFFSETS_TOPIC, slot.index, data)
        except (NoNode, BadNode, BadVersion):
            state = None
        if state is not None and state.leader == self._broker_id and state.leader_epoch == slot.epoch:
            slot.version = stat.version
            return
        if slot.held:
            self._deposed[slot.index] = slot.epoch
            self._end(slot)
            self._lost(slot)
        raise SlotLost(slot)

    def _end(self, slot: Slot) -> None:
        slot.held = slot.loaded = False
        self.held.pop(slot.index, None)
