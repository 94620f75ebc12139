"""A broker that coordinates groups over a ZooKeeper in memory, for the tests of the shells and of the handlers."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from brokerd.groups.groups import Groups
from brokerd.groups.placement import OFFSETS_TOPIC
from brokerd.groups.test.zookeeper_model import ZooKeeperModel
from brokerd.handlers.test.fakes import FakeBroker, topic
from brokerd.metadata import PartitionInfo, TopicInfo
from zk_schema import paths
from zk_schema.nodes import PartitionState


class Host(FakeBroker):
    """Broker 1, which leads all slots of `__consumer_offsets`; topic `logs` has two partitions and id 5."""

    def __init__(self, slots: int = 4, zookeeper: ZooKeeperModel | None = None, **settings: str) -> None:
        super().__init__(**{"group_initial_rebalance_delay_ms": "0", **settings})
        self.zookeeper = zookeeper or ZooKeeperModel()
        self.is_registered = True
        self.clock: Any = self.reactor
        self.wall_ms = 1_000_000
        self.groups = Groups(self.reactor, self, self.zookeeper, registered=lambda: self.is_registered)  # type: ignore[arg-type]
        self.elect(slots)

    def now_ms(self) -> int:
        """The test's time."""
        return self.wall_ms

    def elect(self, slots: int = 4, leader: int = 1, epoch: int = 3) -> None:
        """Somebody becomes leader of all slots, in ZooKeeper and in the view."""
        made = []
        for index in range(slots):
            path = paths.partition_state(OFFSETS_TOPIC, index)
            self.zookeeper.put(path, PartitionState(leader, epoch, (leader,), 1).encode())
            version = self.zookeeper.nodes[path].version
            made.append(PartitionInfo(index, leader, epoch, (1, 2), (leader,), version))
        self.learn(attrs.evolve(topic(OFFSETS_TOPIC, 9), partitions=tuple(made)))

    def learn(self, *topics: TopicInfo) -> None:
        """The view changes."""
        self.view = self.view.with_topics(topics)
        self.groups.look()


def now(answer: Deferred[Any]) -> Any:
    """The result, which must be there by now; an error is raised."""
    found: list[Any] = []
    answer.addBoth(found.append)
    assert found, "there is no answer yet"
    if isinstance(found[0], Failure):
        found[0].raiseException()
    return found[0]


def code_of(answer: Deferred[Any]) -> int:
    """The code of the error that it must have ended with."""
    found: list[Any] = []
    answer.addErrback(lambda failure: found.append(failure.value))
    assert found, "there is no error yet"
    return int(found[0].code)
