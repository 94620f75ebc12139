"""A large group over a real ZooKeeper: 100 members, 1,000 partitions, one change. No broker is needed for it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper
from consumer_group import Consumer, TopicPartition
from integration.conftest import fresh_name
from zk_schema import paths
from zk_schema.nodes import TopicAssignment

MEMBERS, PARTITIONS = 100, 1000
WITHIN = 5.0
REQUESTS_PER_MEMBER = 30
"""Of one join: its share of reading ids, plan, owners and offsets, of releasing and claiming, and its heartbeats."""


def received(server: EmbeddedZooKeeper) -> int:
    """Packets that ZooKeeper has received."""
    host, _, port = server.connect.partition(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(b"srvr")
        text = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    found = re.search(r"Received: (\d+)", text)
    assert found is not None
    return int(found[1])


@pytest.fixture
def members(zookeeper: EmbeddedZooKeeper) -> Iterator[Callable[[], Consumer]]:
    """Makes members of one group over one topic."""
    root = f"{zookeeper.connect}/{fresh_name('scale')}"
    client = KazooClient(root)
    client.start(20)
    topic = TopicAssignment("t", b"i" * 16, dict.fromkeys(range(PARTITIONS), (0,)))
    client.create(topic.path, topic.encode(), makepath=True)
    for index in range(PARTITIONS):
        client.create(paths.group_offset("g", "t", index), b"0", makepath=True)
    made: list[Consumer] = []

    def make() -> Consumer:
        made.append(Consumer("t", group_id="g", zookeeper_connect=root, assignment_strategy="sticky"))
        return made[-1]

    yield make
    client.stop()
    client.close()
    for consumer in made:
        consumer.close(timeout_ms=0)


def settled(group: list[Consumer]) -> bool:
    """Whether all partitions are owned and nobody is moving."""
    for consumer in group:
        consumer.poll(0)
    states = {consumer.metrics()["state"] for consumer in group}
    generations = {consumer.metrics()["generation"] for consumer in group}
    owned = [partition for consumer in group for partition in consumer.assignment()]
    return states == {"owning"} and len(generations) == 1 and len(owned) == len(set(owned)) == PARTITIONS


def settle(group: list[Consumer], seconds: float) -> float:
    """How long that takes."""
    start = time.monotonic()
    while not settled(group):
        assert time.monotonic() - start < seconds
        time.sleep(0.02)
    return time.monotonic() - start


def owners(group: list[Consumer]) -> dict[TopicPartition, int]:
    """Who has what."""
    return {partition: index for index, one in enumerate(group) for partition in one.assignment()}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hundred_members_one_joins_settled_in_seconds_with_requests_linear_in_members(
    zookeeper: EmbeddedZooKeeper, members: Callable[[], Consumer]
) -> None:
    """One join moves the newcomer's share, within five seconds, and no member reads every other's registration."""
    group = [members() for _ in range(MEMBERS)]
    settle(group, 60)
    before = owners(group)
    requests = received(zookeeper)
    group.append(members())
    took = settle(group, 30)
    requests = received(zookeeper) - requests
    moved = [partition for partition, index in owners(group).items() if before[partition] != index]
    print(f"{took:.1f} s, {requests} requests, {len(moved)} partitions moved")
    assert took < WITHIN
    assert len(moved) <= -(-PARTITIONS // (MEMBERS + 1))
    assert requests < REQUESTS_PER_MEMBER * MEMBERS
