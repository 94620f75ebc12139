"""Large groups: a hundred members over a thousand partitions, and members that commit all the time.

Members are bare connections in this process, so that what is measured is the coordinator and ZooKeeper.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word, free_port
from brokerd.groups.consumer_protocol import encode_assignment, encode_subscription
from integration.admin import create_topic
from integration.conftest import EXTERNAL, fresh_name
from integration.group_members import wait_for
from integration.processes import Broker
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingPeer
from kafka_wire.schema.find_coordinator import FindCoordinatorRequest
from kafka_wire.schema.heartbeat import HeartbeatRequest
from kafka_wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PARTITIONS = 1000
MEMBERS = 100


class Bare:
    """One member by the wire; requests are sent and answered apart, so that a hundred wait at the same time."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self.peer = BlockingPeer(broker.host, broker.port, timeout=60)
        self.group, self.topic = group, topic
        self.member_id, self.generation = "", -1
        self.joined: Any = None

    def send_join(self) -> None:
        """Asks to join."""
        protocols = (JoinGroupRequestProtocol("range", encode_subscription([self.topic])),)
        body = JoinGroupRequest(self.group, 30_000, 60_000, self.member_id, None, "consumer", protocols)
        self.peer.send(Api.JOIN_GROUP, body)

    def join_answer(self) -> bool:
        """Whether it is in; False: it has an id now and must ask again."""
        self.joined = self.peer.receive().body
        self.member_id, self.generation = self.joined.member_id, self.joined.generation_id
        if self.joined.error_code == errors.MEMBER_ID_REQUIRED:
            return False
        assert self.joined.error_code == errors.NONE
        return True

    def send_sync(self) -> None:
        """Asks for the assignment; the leader brings it."""
        ids = sorted(one.member_id for one in self.joined.members)
        assignments = tuple(
            SyncGroupRequestAssignment(one, encode_assignment({self.topic: range(place, PARTITIONS, len(ids))}))
            for place, one in enumerate(ids)
        )
        body = SyncGroupRequest(self.group, self.generation, self.member_id, None, "consumer", "range", assignments)
        self.peer.send(Api.SYNC_GROUP, body)

    def sync_answer(self) -> None:
        """Its assignment is there."""
        answer = self.peer.receive().body
        assert answer.error_code == errors.NONE
        assert answer.assignment

    def heartbeat(self) -> int:
        """The code."""
        body = HeartbeatRequest(self.group, self.generation, self.member_id)
        return int(self.peer.request(Api.HEARTBEAT, body).error_code)

    def send_commit(self, offset: int, *indexes: int) -> None:
        """Commits some partitions."""
        partitions = tuple(OffsetCommitRequestPartition(index, offset) for index in indexes)
        topics = (OffsetCommitRequestTopic(self.topic, partitions),)
        self.peer.send(
            Api.OFFSET_COMMIT, OffsetCommitRequest(self.group, self.generation, self.member_id, None, topics)
        )

    def commit_answer(self) -> None:
        """It is stored."""
        answer = self.peer.receive().body
        assert {one.error_code for topic in answer.topics for one in topic.partitions} == {errors.NONE}


def join_all(some: list[Bare]) -> None:
    """Everybody joins and has its assignment."""
    asking = some
    while asking:
        for one in asking:
            one.send_join()
        asking = [one for one in asking if not one.join_answer()]
    for one in some:
        one.send_sync()
    for one in some:
        one.sync_answer()


@contextmanager
def requests_of(server: EmbeddedZooKeeper) -> Iterator[list[int]]:
    """How many requests ZooKeeper got meanwhile."""

    def received() -> int:
        text = four_letter_word("127.0.0.1", server.port, b"srvr").decode()
        return int(text.partition("Received: ")[2].split()[0])

    found: list[int] = []
    before = received()
    yield found
    found.append(received() - before)


@pytest.mark.slow
def test_hundred_members_over_a_thousand_partitions(tmp_path: Path) -> None:
    """One more member joins: everybody has a new assignment within 5 s, for a few requests to ZooKeeper."""
    if EXTERNAL:
        pytest.skip("needs a broker process of ours")
    with (
        EmbeddedZooKeeper(tmp_path / "zookeeper", free_port(), tick_ms=500) as server,
        ExitStack() as stack,
    ):
        settings = {"zookeeper.session.timeout.ms": "6000", "group.initial.rebalance.delay.ms": "1000"}
        broker = Broker(tmp_path / "b", f"{server.connect}/x", settings=settings)
        stack.callback(broker.kill)
        broker.start()
        topic, group = fresh_name("t"), fresh_name("g")
        create_topic(broker.bootstrap, topic, PARTITIONS)
        some = [Bare(broker, group, topic) for _ in range(MEMBERS)]
        for one in some:
            stack.callback(one.peer.close)
        found = FindCoordinatorRequest(coordinator_keys=(group,))
        wait_for(
            "a coordinator",
            lambda: some[0].peer.request(Api.FIND_COORDINATOR, found).coordinators[0].error_code,
            lambda code: code == 0,
        )
        wait_for("the groups are loaded", some[0].heartbeat, lambda code: code == errors.UNKNOWN_MEMBER_ID)
        join_all(some)
        new = Bare(broker, group, topic)
        stack.callback(new.peer.close)
        with requests_of(server) as count:
            start = time.monotonic()
            new.send_join()
            assert not new.join_answer()
            new.send_join()
            wait_for("the rebalance", some[0].heartbeat, lambda code: code == errors.REBALANCE_IN_PROGRESS)
            _rejoin(some, new)
            took = time.monotonic() - start
            time.sleep(1.0)  # the copies for tools
        print(f"{MEMBERS} members, {PARTITIONS} partitions: {took:.2f} s, {count[0]} requests to ZooKeeper")
        assert took < 5
        assert count[0] < 2 * MEMBERS
        _commits(some)


def _rejoin(some: list[Bare], new: Bare) -> None:
    for one in some:
        one.send_join()
    for one in (*some, new):
        assert one.join_answer()
    for one in (*some, new):
        one.send_sync()
    for one in (*some, new):
        one.sync_answer()


def _commits(some: list[Bare]) -> None:
    """Every member commits ten partitions, again and again."""
    start, rounds = time.monotonic(), 20
    for number in range(rounds):
        for place, one in enumerate(some):
            one.send_commit(number, *range(place * 10, place * 10 + 10))
        for one in some:
            one.commit_answer()
    rate = rounds * len(some) / (time.monotonic() - start)
    print(f"{rate:.0f} commits of ten partitions a second")
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(some[0].group, None, -1, None),))
    found = some[0].peer.request(Api.OFFSET_FETCH, asked).groups[0]
    offsets = [one.committed_offset for topic in found.topics for one in topic.partitions]
    assert offsets == [rounds - 1] * PARTITIONS
