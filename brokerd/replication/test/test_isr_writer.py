"""ISR changes over a model of ZooKeeper: written once whatever becomes of the replies, refused where they must be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed

from brokerd.cluster.cluster_state import ClusterState
from brokerd.cluster.test.store import Store
from brokerd.replication.isr_writer import IsrWriter
from brokerd.replication.test.scenes import EPOCHS, LEADER_EPOCH, TOPIC_ID, Scene, replica_fetch
from zk_schema import paths
from zk_schema.nodes import Incarnation, PartitionState, TopicAssignment, VersionedState
from zk_schema.operations import Check, ConnectionLost, Create, NodeError, NoNode, Operation, Set, Stat


class Room(Scene):
    """Broker 1 leads; its ISRs are in a model of ZooKeeper. `troubles` is what becomes of the next multis: "lost" is
    applied without a reply, "unsent" is not applied."""

    def __init__(self, path: Path, partitions: int = 1) -> None:
        super().__init__(path, partitions=partitions)
        self.store = Store()
        self.troubles: list[str] = []
        self.multis: list[list[Operation]] = []
        self.known = ClusterState()
        self.published = 0
        assignment = TopicAssignment("logs", TOPIC_ID, dict.fromkeys(range(partitions), (1, 2, 3)))
        state = PartitionState(1, LEADER_EPOCH, (1, 2, 3), 7)
        nodes: list[Operation] = [
            Create(assignment.path, assignment.encode()),
            Create(paths.partitions("logs")),
            *(Create(paths.incarnation(one), Incarnation(one).encode()) for one in EPOCHS),
        ]
        for index in range(partitions):
            nodes.append(Create(paths.partition("logs", index)))
            nodes.append(Create(paths.partition_state("logs", index), state.encode()))
        self.store.multi(nodes)
        for number, epoch in EPOCHS.items():
            for version in range(epoch):
                self.store.multi([Set(paths.incarnation(number), Incarnation(number).encode(), version)])
        self.store.read(self.known)
        self.writer = IsrWriter(
            self.clock,
            self,  # type: ignore[arg-type]
            self.known,
            1,
            fence=lambda: EPOCHS[1],
            published=self._publish,
        )

    def _publish(self) -> None:
        self.published += 1

    # ---- as a session

    def multi(self, operations: Sequence[Operation]) -> Deferred[list[Any]]:
        """As a session's."""
        trouble = self.troubles.pop(0) if self.troubles else ""
        self.multis.append(list(operations))
        try:
            if trouble != "unsent":
                self.store.multi(operations)
        except NodeError as problem:
            return fail(problem)
        return fail(ConnectionLost("gone")) if trouble else succeed([])

    def sync(self) -> Deferred[None]:
        """As a session's."""
        return succeed(None)

    def get(self, path: str) -> Deferred[tuple[bytes, Stat]]:
        """As a session's."""
        if path not in self.store.nodes:
            return fail(NoNode(path))
        data, version = self.store.nodes[path]
        return succeed((data, Stat(version, 0, 0, 0, 0, 0, 0)))

    # ---- what happens

    def state(self, index: int = 0) -> VersionedState:
        """What ZooKeeper has."""
        data, version = self.store.nodes[paths.partition_state("logs", index)]
        return VersionedState(PartitionState.decode("logs", index, data), version)

    def overwrite(self, index: int = 0, **fields: Any) -> None:
        """Somebody else writes a state."""
        found = self.state(index)
        after = attrs.evolve(found.state, **fields)
        self.store.multi([Set(paths.partition_state("logs", index), after.encode(), found.version)])

    def without(self, *gone: int) -> None:
        """These brokers are not registered any more."""
        self.leader.surroundings.fit = {one: epoch for one, epoch in EPOCHS.items() if one not in gone}

    def propose(self, *indexes: int) -> None:
        """Looks at these partitions, and lets everything happen."""
        for index in indexes or (0,):
            self.writer.propose(self.leader.of(index))
        self.turn()
        self.turn(0.3)
        self.turn(0.3)


def test_member_that_is_gone_leaves(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.without(3)
    room.propose()
    assert room.state().state == PartitionState(1, LEADER_EPOCH, (1, 2), 7), "only the ISR changes"
    assert room.leader.of().isr == (1, 2)
    assert (room.writer.shrinks, room.writer.expands, room.published) == (1, 0, 1)
    assert room.multis[0][0] == Check(paths.incarnation(1), EPOCHS[1]), "the leader's own life is checked"
    assert room.store.children(paths.CHANGES), "and everybody is told"


@pytest.mark.parametrize("trouble", ["lost", "unsent"])
def test_lost_reply_is_asked_for_and_the_change_happens_once(tmp_path: Path, trouble: str) -> None:
    """A5: applied or not, the same multi again settles it."""
    room = Room(tmp_path)
    room.without(3)
    room.troubles = [trouble, trouble]
    room.propose()
    room.propose()
    assert room.state().state.isr == (1, 2)
    assert room.state().version == 1
    assert room.leader.of().isr == (1, 2)
    assert room.writer.shrinks == 1


def rejoining(room: Room) -> None:
    """Broker 3 was out, and has caught up."""
    room.overwrite(isr=(1, 2))
    room.store.read(room.known)
    room.leader.of().settle_isr((1, 2, 3), (1, 2), 1)
    replica_fetch(room.leader, (0, 0), replica=3)


def test_follower_that_caught_up_is_added_with_the_epoch_that_it_fetched_with(tmp_path: Path) -> None:
    """A3."""
    room = Room(tmp_path)
    rejoining(room)
    room.propose()
    assert room.state().state.isr == (1, 2, 3)
    assert Check(paths.incarnation(3), EPOCHS[3]) in room.multis[0]
    assert room.writer.expands == 1


def test_follower_that_was_reborn_is_not_added(tmp_path: Path) -> None:
    """A3: and its old position counts no more."""
    room = Room(tmp_path)
    rejoining(room)
    room.store.multi([Set(paths.incarnation(3), Incarnation(3).encode(), EPOCHS[3])])
    room.propose()
    assert room.state().state.isr == (1, 2)
    leading = room.leader.of().leading
    assert leading is not None
    assert (leading.sent, leading.followers[3].end) == (None, -1)
    assert room.writer.refused == 1


def test_other_version_at_the_same_epoch_is_adopted_and_decided_anew(tmp_path: Path) -> None:
    """A5: broker 2 has written itself out meanwhile."""
    room = Room(tmp_path)
    room.without(3)
    room.overwrite(isr=(1, 3))
    room.propose()
    assert room.state().state.isr == (1,)
    assert room.leader.of().isr == (1,)
    assert room.state().version == 2


def test_higher_epoch_ends_it(tmp_path: Path) -> None:
    """A5: what is known is brought up to date, and whoever gives roles will see it."""
    room = Room(tmp_path)
    room.without(3)
    room.overwrite(leader=2, leader_epoch=LEADER_EPOCH + 1, isr=(2, 3))
    room.propose()
    assert room.state().state.isr == (2, 3)
    assert room.known.topics["logs"].states[0].state.leader == 2
    assert room.published == 1


def test_one_refused_change_does_not_hold_the_others_back(tmp_path: Path) -> None:
    """A5: a failed batch is written one by one."""
    room = Room(tmp_path, partitions=3)
    room.without(3)
    room.overwrite(1, leader=2, leader_epoch=LEADER_EPOCH + 1, isr=(2, 3))
    room.propose(0, 1, 2)
    assert [room.state(index).state.isr for index in range(3)] == [(1, 2), (2, 3), (1, 2)]


def test_hundred_changes_are_a_few_multis(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=60)
    room.without(2)
    room.propose(*range(60))
    assert len(room.multis) == 2
    assert all(room.state(index).state.isr == (1, 3) for index in range(60))


def test_nothing_is_written_without_a_registration(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.without(3)
    room.writer._fence = lambda: None
    room.propose()
    assert room.multis == []
