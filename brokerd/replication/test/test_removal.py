"""Logs of moved partitions are deleted late, and only if ZooKeeper says so twice (A27, A29)."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from brokerd.handlers.test.fakes import topic
from brokerd.handlers.test.real_logs import RealBroker
from brokerd.metadata import PartitionInfo, TopicInfo
from brokerd.replication.removal import WAIT_SECONDS, Removal
from kafka_wire.ids import TopicPartition
from zk_schema.nodes import TopicAssignment

P0 = TopicPartition("logs", 0)


class Scene:
    """Broker 1 with the logs of two partitions of `logs`."""

    def __init__(self, path: Path) -> None:
        self.broker = RealBroker(path)
        self.clock = Clock()
        self.topic_id = self.broker.view.topics["logs"].topic_id
        self.node = TopicAssignment("logs", self.topic_id, {0: (2,), 1: (1,)})
        self.forgotten: list[TopicPartition] = []
        self.removal = Removal(
            self.clock,
            self.broker,
            self,  # type: ignore[arg-type]
            registered=lambda: True,
            forget=self.forgotten.append,
        )

    def sync(self) -> Deferred[None]:
        """As a session's."""
        return succeed(None)

    def get(self, path: str) -> Deferred[tuple[bytes, None]]:
        """As a session's."""
        return succeed((self.node.encode(), None))

    def assign(self, *replicas: int) -> None:
        """What the broker believes of partition 0."""
        info = self.broker.view.topics["logs"]
        places = (PartitionInfo(0, replicas[0], 4, replicas, replicas), *info.partitions[1:])
        self.broker.view = self.broker.view.with_topic(TopicInfo("logs", info.topic_id, places))

    def look(self, seconds: float = 0.0) -> bool:
        """Whether the log of partition 0 is there after another look."""
        self.clock.advance(seconds)
        self.removal.look()
        return P0 in self.broker.logs.logs


def test_moved_replica_is_deleted_after_a_minute(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.assign(2)
    assert scene.look()
    assert scene.look(WAIT_SECONDS - 1)
    assert not scene.look(1)
    assert scene.forgotten == [P0]
    assert not (tmp_path / "logs-0").exists()
    assert TopicPartition("logs", 1) in scene.broker.logs.logs


def test_replica_that_zookeeper_still_assigns_stays(tmp_path: Path) -> None:
    """Our view may be old; the node is asked."""
    scene = Scene(tmp_path)
    scene.assign(2)
    scene.node = TopicAssignment("logs", scene.topic_id, {0: (2, 1), 1: (1,)})
    assert scene.look()
    assert scene.look(WAIT_SECONDS)
    assert scene.look(WAIT_SECONDS)


def test_replica_that_was_wanted_back_meanwhile_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.assign(2)
    assert scene.look()
    scene.assign(1, 2)
    assert scene.look(WAIT_SECONDS)
    scene.assign(2)
    assert scene.look(), "the minute begins anew"


def test_other_topic_of_the_same_name_says_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.assign(2)
    scene.node = TopicAssignment("logs", b"\7" * 16, {0: (2,)})
    assert scene.look()
    assert scene.look(WAIT_SECONDS)
    scene.broker.view = scene.broker.view.with_topic(topic("logs", 99))
    assert scene.look(WAIT_SECONDS)
