"""Groups in a cluster: coordinators are spread, and the death or the restart of any broker costs no rebalance (K4)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper
from integration.admin import admin_client
from integration.conftest import EXTERNAL, fresh_name
from integration.group_members import Member, describe, members, produce, wait_for, wait_shared, wait_told
from integration.processes import Broker
from zk_schema.group_nodes import StoredGroup

PARTITIONS = 4
SESSION_MS = 30_000
"""Members give a cluster more time than it needs to see that a broker is dead, as they do by default (45 s)."""


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Broker]]:
    """Three brokers; every slot has a replica on each."""
    if EXTERNAL:
        pytest.skip("needs broker processes of ours")
    server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
    connect = f"{server.connect}/{fresh_name('cluster')}"
    settings = {
        "zookeeper.session.timeout.ms": "6000",
        "group.initial.rebalance.delay.ms": "500",
        "default.replication.factor": "3",
    }
    made = [Broker(tmp_path / f"b{number}", connect, broker_id=number, settings=settings) for number in range(3)]
    try:
        for broker in made:
            broker.start()
        yield made
    finally:
        for broker in made:
            broker.kill()


def _all(cluster: list[Broker]) -> str:
    return ",".join(broker.bootstrap for broker in cluster)


def _coordinator(bootstrap: str, group: str) -> int:
    """The broker that answers for a group."""
    return wait_for("a coordinator", lambda: describe(bootstrap, group).coordinator, lambda seen: seen >= 0)


def _topic_on(bootstrap: str, broker_id: int) -> str:
    """A topic whose only replicas are on one broker."""
    name = fresh_name("t")
    new = NewTopic(name, num_partitions=PARTITIONS, replica_assignment=[[broker_id]] * PARTITIONS)
    client = admin_client(bootstrap)
    client.create_topics([new], operation_timeout=30)[name].result(30)
    return name


def _stored(broker: Broker, group: str) -> StoredGroup:
    client = KazooClient(broker.zookeeper)
    client.start()
    try:
        path = f"/consumers/{group}/group"
        return StoredGroup.decode(path, client.get(path)[0])
    finally:
        client.stop()
        client.close()


def _wait_values(wanted: list[str], some: list[Member]) -> None:
    wait_for("all records", lambda: {value for one in some for value in one.values()}, lambda seen: seen >= set(wanted))


@pytest.mark.slow
def test_death_of_the_coordinator_causes_no_rebalance(cluster: list[Broker], tmp_path: Path) -> None:
    """Another broker reads the group and goes on; nobody joins again, commits go on, what was committed is there."""
    bootstrap, group = _all(cluster), fresh_name("g")
    dying = _coordinator(bootstrap, group)
    topic = _topic_on(bootstrap, (dying + 1) % 3)
    with members(bootstrap, group, topic, tmp_path, SESSION_MS) as member:
        some = [member("confluent-range"), member("kafka-python")]
        wait_shared(bootstrap, group, [2, 2])
        _wait_values(produce(bootstrap, topic, PARTITIONS, 0, 100), some)
        before, assignments = _stored(cluster[0], group), wait_told(some, 2)
        cluster[dying].kill()
        left = [broker for number, broker in enumerate(cluster) if number != dying]
        _wait_values(produce(_all(left), topic, PARTITIONS, 100, 100), some)
        heir = wait_for("another coordinator", lambda: _coordinator(_all(left), group), lambda seen: seen != dying)
        assert heir != dying
        wait_shared(_all(left), group, [2, 2])
        time.sleep(2.0)  # several heartbeats
        assert _stored(cluster[0], group) == before
        assert wait_told(some, 2) == assignments
        consumer = Consumer({"bootstrap.servers": _all(left), "group.id": group, "log_level": 2})
        wait_for(
            "commits reach the new coordinator",
            lambda: [
                one.offset
                for one in consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=20)
            ],
            lambda seen: seen == [50] * PARTITIONS,
        )
        consumer.close()


@pytest.mark.slow
def test_rolling_restart_of_all_brokers_causes_no_rebalance(cluster: list[Broker], tmp_path: Path) -> None:
    """Each broker stops and starts in turn; the generation stays, and records flow at the end."""
    bootstrap, group = _all(cluster), fresh_name("g")
    topic = _topic_on(bootstrap, (_coordinator(bootstrap, group) + 1) % 3)
    with members(bootstrap, group, topic, tmp_path, SESSION_MS) as member:
        some = [member("confluent-range"), member("kafka-python")]
        wait_shared(bootstrap, group, [2, 2])
        before, assignments = _stored(cluster[0], group), wait_told(some, 2)
        for broker in cluster:
            broker.stop()
            broker.start()
            wait_for("a coordinator", lambda: describe(bootstrap, group).shares, lambda seen: seen == [2, 2])
        _wait_values(produce(bootstrap, topic, PARTITIONS, 0, 100), some)
        assert _stored(cluster[0], group) == before
        assert wait_told(some, 2) == assignments


def test_coordinators_are_spread_over_the_brokers(cluster: list[Broker]) -> None:
    """Twenty groups are not all on one."""
    found = {_coordinator(_all(cluster), f"group-{number}") for number in range(20)}

    assert found == {0, 1, 2}
