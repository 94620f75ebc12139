"""The view of the cluster made true on a real disk, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from brokerd.broker import Broker
from brokerd.cluster.cluster_state import ClusterState
from brokerd.cluster.roles import Roles
from brokerd.config import load
from brokerd.metadata import PartitionInfo
from brokerd.metrics import Metrics
from brokerd.partition import Partition
from brokerd.reactor import StockTurns
from brokerd.storage.log_manager import LogManager
from kafka_wire.ids import TopicPartition
from zk_schema.nodes import PartitionState, TopicAssignment, VersionedState

ONE, TWO = b"\1" * 16, b"\2" * 16
TP = TopicPartition("logs", 0)


class _Pool:
    """A thread pool that works at once."""

    def callInThreadWithCallback(
        self, tell: Callable[[bool, Any], None], work: Callable[..., Any], *given: Any
    ) -> None:
        """As Twisted's."""
        tell(True, work(*given))


class _Reactor(Clock):
    def getThreadPool(self) -> _Pool:
        """As a reactor's."""
        return _Pool()

    def callFromThread(self, function: Callable[..., None], *given: Any) -> None:
        """Comes with the next turn."""
        self.callLater(0, function, *given)


class Setting:
    """Broker 1 with an empty disk."""

    def __init__(self, directory: Path) -> None:
        self.reactor = _Reactor()
        config, _ = load({"broker.id": "1", "log.dirs": str(directory)})
        self.logs = LogManager(config)
        self.logs.load(lambda text: None)
        self.broker = Broker(
            self.reactor, config, self.logs, Metrics(), lambda partition: None, StockTurns(self.reactor)
        )
        self.known = ClusterState()
        self.registered = True
        self.told = 0
        self.followed: list[tuple[str, object, int]] = []
        self.roles = Roles(
            self.reactor,
            self.broker,
            self.known,
            registered=lambda: self.registered,
            settled=self._settled,
            followers=self,
        )

    def follow(self, partition: Partition, info: PartitionInfo) -> None:
        """As replication is told."""
        self.followed.append(("follow", partition.tp, info.leader))
        partition.follow(info.leader_epoch, info.replicas, info.isr)

    def leave(self, partition: Partition) -> None:
        """As replication is told."""
        self.followed.append(("leave", partition.tp, -1))

    def drop_all(self) -> None:
        """As replication is told."""
        self.followed.append(("drop", None, -1))

    def _settled(self) -> None:
        self.told += 1

    def topic(
        self, topic_id: bytes = ONE, partitions: int = 1, replicas: tuple[int, ...] = (1,), version: int = 0
    ) -> None:
        """The topic `logs` is known."""
        assignment = dict.fromkeys(range(partitions), replicas)
        self.known.set_assignment(TopicAssignment("logs", topic_id, assignment), version)

    def state(self, leader: int, epoch: int, isr: tuple[int, ...] = (1,), index: int = 0) -> None:
        """Its partition has a new state."""
        self.known.put_states("logs", [(index, VersionedState(PartitionState(leader, epoch, isr, 1), epoch))])

    def publish(self) -> None:
        """As the daemon does it, until nothing is left to do."""
        self.broker.view, changed = self.known.view()
        self.roles.look(changed)
        for _ in range(200):
            self.reactor.advance(0)
            if self.roles.idle:
                return
        raise AssertionError("it never ends")

    def close(self) -> None:
        """Lets go of the disk."""
        self.logs.close({})


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    """A broker."""
    made = Setting(tmp_path)
    yield made
    made.close()


def test_elected_leader_leads_when_its_epoch_is_stored(setting: Setting) -> None:
    """The log is made, the epoch is in it, and whoever waits is told."""
    setting.topic(partitions=3)
    for index in range(3):
        setting.state(1, 0, index=index)
    setting.broker.view, changed = setting.known.view()
    setting.roles.look(changed)
    assert not setting.roles.settled("logs")

    setting.publish()

    assert setting.roles.settled("logs")
    assert setting.told
    for index in range(3):
        partition = setting.broker.partitions[TopicPartition("logs", index)]
        assert (partition.is_leader, partition.leader_epoch, partition.log.latest_epoch) == (True, 0, 0)


def test_partition_without_a_state_or_of_others_gets_no_log(setting: Setting) -> None:
    """It may never be created; or it is not ours."""
    setting.topic(partitions=1)
    setting.publish()
    assert not setting.logs.logs

    setting.topic(replicas=(2,), version=1)
    setting.state(2, 0, (2,))
    setting.publish()

    assert not setting.logs.logs


def test_A21_higher_epoch_is_a_new_role_and_the_same_only_another_isr(setting: Setting) -> None:
    """Leading, following, leading again."""
    setting.topic(replicas=(1, 2))
    setting.state(1, 0, (1, 2))
    setting.publish()
    partition = setting.broker.partitions[TP]

    setting.known.put_states("logs", [(0, VersionedState(PartitionState(1, 0, (1,), 1), 1))])
    setting.publish()
    assert (partition.is_leader, partition.isr) == (True, (1,))
    setting.state(2, 3, (1, 2))
    setting.publish()
    assert not partition.is_leader
    setting.state(1, 4, (1, 2))
    setting.publish()
    assert (partition.is_leader, partition.leader_epoch) == (True, 4)


def test_leader_that_leads_on_refuses_nobody(setting: Setting) -> None:
    """A reassignment raises the epoch of a leader that stays: requests that wait go on waiting, and none finds the
    partition without a leader, or a producer with several on their way would send records twice.
    """
    setting.topic(replicas=(1, 2))
    setting.state(1, 0, (1, 2))
    setting.publish()
    partition = setting.broker.partitions[TP]
    told: list[object] = []
    partition.when_committed(5, told.append)

    setting.topic(replicas=(1, 2, 3), version=1)
    setting.state(1, 1, (1, 2))
    setting.broker.view, changed = setting.known.view()
    setting.roles.look(changed)
    while not setting.roles.idle:
        setting.reactor.advance(0)
        assert partition.is_leader

    assert (partition.leader_epoch, partition.log.latest_epoch, partition.replicas) == (1, 1, (1, 2, 3))
    assert told == []
    setting.state(2, 2, (1, 2))
    setting.publish()
    assert len(told) == 1


def test_A11_epoch_that_the_log_has_seen_is_not_led_again(setting: Setting) -> None:
    """A new life at the old epoch waits for its election."""
    setting.topic()
    setting.state(1, 5)
    setting.publish()
    setting.roles.drop_all()

    setting.roles.look(["logs"])
    setting.publish()
    assert not setting.broker.partitions[TP].is_leader
    setting.state(1, 7)
    setting.publish()
    assert setting.broker.partitions[TP].leader_epoch == 7


def test_A12_lost_session_ends_every_role(setting: Setting) -> None:
    """Also of those that are about to be led."""
    setting.topic()
    setting.state(1, 0)
    setting.publish()

    setting.registered = False
    setting.roles.drop_all()

    assert not setting.broker.partitions[TP].is_leader
    assert setting.roles.idle


def test_A29_log_goes_with_its_tombstone_and_with_nothing_else(setting: Setting) -> None:
    """A topic that vanished from ZooKeeper without one is kept and not served."""
    setting.topic()
    setting.state(1, 0)
    setting.publish()

    setting.known.forget_topic("logs")
    setting.publish()
    assert TP in setting.logs.logs
    assert TP not in setting.broker.partitions
    setting.known.bury(ONE)
    setting.roles.look(["logs"])
    setting.publish()
    assert TP not in setting.logs.logs


@pytest.mark.parametrize("recreated", [False, True], ids=["topic gone", "topic made again"])
def test_A29_damaged_log_goes_with_its_tombstone_too(setting: Setting, recreated: bool) -> None:
    """Otherwise it would stand in the way of a topic of the same name for ever."""
    setting.topic()
    setting.state(1, 0)
    setting.publish()
    directory = setting.logs.logs[TP].directory
    setting.roles.forget(TP)
    del setting.logs.logs[TP]
    setting.logs.offline[TP] = "damaged"
    setting.known.forget_topic("logs")
    setting.publish()
    assert directory.is_dir()

    setting.known.bury(ONE)
    if recreated:
        setting.topic(TWO)
        setting.state(1, 0)
    setting.roles.look(["logs"])
    setting.publish()

    assert TP not in setting.logs.offline
    assert directory.is_dir() == (TP in setting.broker.partitions) == recreated


def test_A29_recreated_topic_replaces_the_log_of_a_dead_one(setting: Setting) -> None:
    """The old directory is renamed away first."""
    setting.topic()
    setting.state(1, 5)
    setting.publish()

    setting.known.bury(ONE)
    setting.topic(TWO)
    setting.state(1, 0)
    setting.publish()

    assert setting.broker.partitions[TP].log.topic_id == TWO
    assert setting.broker.partitions[TP].leader_epoch == 0


def test_A29_log_of_another_topic_that_is_not_dead_is_not_touched(setting: Setting) -> None:
    """The partition is refused instead."""
    setting.topic()
    setting.state(1, 5)
    setting.publish()

    setting.topic(TWO)
    setting.state(1, 0)
    setting.publish()

    assert setting.logs.logs[TP].topic_id == ONE
    assert TP not in setting.broker.partitions


def test_settings_are_taken_live(setting: Setting) -> None:
    """By logs that are there."""
    setting.topic()
    setting.state(1, 0)
    setting.publish()

    setting.known.set_overrides("logs", {"retention.ms": "5"})
    setting.publish()

    assert setting.logs.logs[TP].config.retention_ms == 5
