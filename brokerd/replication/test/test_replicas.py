"""Who is followed in which loop, as roles and the view of the cluster change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from brokerd.cluster.cluster_state import ClusterState, LiveBroker
from brokerd.metadata import BrokerInfo, PartitionInfo
from brokerd.replication import replicas as replicas_module
from brokerd.replication.replicas import Replicas
from brokerd.replication.test.scenes import Scene
from zk_schema.nodes import BrokerRegistration, Incarnation


class Loop:
    """A fetcher that only takes notes."""

    made: ClassVar[list[Loop]] = []

    def __init__(
        self,
        reactor: object,
        broker: object,
        leader: int,
        address: tuple[str, int],
        *,
        waits_for_flush: bool,
        **_: object,
    ) -> None:
        self.leader, self.address, self.waits_for_flush = leader, address, waits_for_flush
        self.followed: dict[Any, int] = {}
        self.stopped = False
        self.made.append(self)

    def __len__(self) -> int:
        return len(self.followed)

    def add(self, partition: Any) -> None:
        """As Fetcher's."""
        self.followed[partition] = partition.leader_epoch

    def remove(self, partition: Any) -> None:
        """As Fetcher's."""
        self.followed.pop(partition, None)

    def follows(self, partition: Any) -> bool:
        """As Fetcher's."""
        return bool(self.followed.get(partition) == partition.leader_epoch)

    def stop(self) -> None:
        """As Fetcher's."""
        self.stopped = True


class Session:
    """As much of a session as is asked."""

    def lease_valid(self) -> bool:
        """It lives."""
        return True


class Setting(Scene):
    """Broker 2, which follows what others lead."""

    def __init__(self, path: Path, durability: str = "replicated") -> None:
        super().__init__(path, durability=durability, partitions=2)
        self.known = ClusterState()
        self.broker = self.follower
        self.replicas = Replicas(
            self.clock,
            self.broker,
            Session(),  # type: ignore[arg-type]
            self.known,
            broker_epoch=lambda: 12,
            fence=lambda: 12,
            published=lambda: None,
            reread_brokers=lambda: None,
        )
        self.live(1, 2, 3)

    def live(self, *numbers: int, port: int = 0) -> None:
        """These brokers are registered."""
        found = {one: LiveBroker(BrokerRegistration(one, (), 0, 10 + one), one + port) for one in numbers}
        self.known.set_brokers(found)
        infos = {one: BrokerInfo(one, "h", one, None, {"PLAINTEXT": ("h", one + port)}) for one in numbers}
        self.broker.view = attrs.evolve(self.broker.view, brokers=infos)
        self.replicas.look()

    def follow(self, leader: int, epoch: int, index: int = 0) -> None:
        """A state is learned."""
        info = PartitionInfo(index, leader, epoch, (1, 2, 3), (1, 2, 3))
        topic = self.broker.view.topics["logs"]
        places = tuple(info if one.index == index else one for one in topic.partitions)
        self.broker.view = self.broker.view.with_topic(attrs.evolve(topic, partitions=places))
        self.replicas.follow(self.broker.of(index), info)


@pytest.fixture(autouse=True)
def loops(monkeypatch: pytest.MonkeyPatch) -> list[Loop]:
    """The loops that are made."""
    monkeypatch.setattr(replicas_module, "Fetcher", Loop)
    monkeypatch.setattr(Loop, "made", [])
    return Loop.made


def test_partitions_of_one_leader_share_a_loop(tmp_path: Path, loops: list[Loop]) -> None:
    setting = Setting(tmp_path)
    setting.follow(1, 4)
    setting.follow(1, 4, 1)
    (loop,) = loops
    assert (loop.leader, loop.address, loop.waits_for_flush, len(loop)) == (1, ("h", 1), False, 2)


def test_flushed_topics_have_a_loop_that_waits(tmp_path: Path, loops: list[Loop]) -> None:
    """V4."""
    Setting(tmp_path, "flushed").follow(1, 4)
    assert loops[0].waits_for_flush


def test_new_leader_is_followed_in_its_own_loop(tmp_path: Path, loops: list[Loop]) -> None:
    setting = Setting(tmp_path)
    setting.follow(1, 4)
    setting.follow(3, 5)
    assert [(loop.leader, list(loop.followed.values())) for loop in loops] == [(1, []), (3, [5])]


def test_same_leader_at_a_higher_epoch_is_asked_anew(tmp_path: Path, loops: list[Loop]) -> None:
    setting = Setting(tmp_path)
    setting.follow(1, 4)
    setting.follow(1, 5)
    assert list(loops[0].followed.values()) == [5]


def test_old_news_change_nothing(tmp_path: Path, loops: list[Loop]) -> None:
    """A21: a lower epoch is ignored."""
    setting = Setting(tmp_path)
    setting.follow(3, 5)
    setting.follow(1, 4)
    assert [loop.leader for loop in loops] == [3]


def test_leader_that_is_not_registered_is_followed_when_it_is(tmp_path: Path, loops: list[Loop]) -> None:
    setting = Setting(tmp_path)
    setting.live(2, 3)
    setting.follow(1, 4)
    assert not loops
    setting.live(1, 2, 3)
    assert [len(loop) for loop in loops] == [1]


def test_leader_with_another_address_is_followed_there(tmp_path: Path, loops: list[Loop]) -> None:
    setting = Setting(tmp_path)
    setting.follow(1, 4)
    setting.live(1, 2, 3, port=100)
    assert [(loop.address, loop.stopped, len(loop)) for loop in loops] == [(("h", 1), True, 1), (("h", 101), False, 1)]


def test_lost_session_ends_all(tmp_path: Path, loops: list[Loop]) -> None:
    """A12; the same states are followed again after the next registration."""
    setting = Setting(tmp_path)
    setting.follow(1, 4)
    setting.replicas.drop_all()
    assert loops[0].stopped
    setting.follow(1, 4)
    assert len(loops) == 2


def test_draining_broker_is_registered_but_not_fit(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.known.set_incarnation(Incarnation(3, draining=True), 14)
    setting.replicas.look()
    world = setting.broker.surroundings
    assert world.registered == {1: 11, 2: 12, 3: 13}
    assert world.fit == {1: 11, 2: 12}
