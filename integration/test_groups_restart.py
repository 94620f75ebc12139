"""Groups and their brokers: a broker that restarts, dies or sleeps costs no rebalance and no committed offset."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as Place
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from kazoo.client import KazooClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.admin import create_topic
from integration.conftest import EXTERNAL, BrokerFactory, fresh_name
from integration.group_members import Member, describe, members, produce, wait_for, wait_shared, wait_told
from integration.processes import Broker
from zk_schema.group_nodes import StoredGroup

PARTITIONS = 4
SETTINGS = {"group.initial.rebalance.delay.ms": "200"}


def _stored(broker: Broker, group: str) -> StoredGroup:
    """The truth of a group, read past all brokers."""
    client = KazooClient(broker.zookeeper)
    client.start()
    try:
        path = f"/consumers/{group}/group"
        return StoredGroup.decode(path, client.get(path)[0])
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("kind", ["confluent-range", "confluent-cooperative-sticky", "kafka-python", "aiokafka"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_broker_that_restarts_causes_no_rebalance(brokers: BrokerFactory, kind: str, how: str, tmp_path: Path) -> None:
    """Members keep generation and assignment, and go on where they were."""
    broker = brokers(settings=SETTINGS)
    broker.start()
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    with members(broker.bootstrap, group, topic, tmp_path, session_ms=20_000) as member:
        first = member(kind)
        wait_shared(broker.bootstrap, group, [4])
        some = [first, member(kind)]
        wait_shared(broker.bootstrap, group, [2, 2])
        written = produce(broker.bootstrap, topic, PARTITIONS, 0, 100)
        _wait_values(written, some)
        before, assignments = _stored(broker, group), wait_told(some, 2)
        broker.stop() if how == "stop" else broker.kill()
        broker.start()
        written = produce(broker.bootstrap, topic, PARTITIONS, 100, 100)
        _wait_values(written, some)
        time.sleep(2.0)  # several heartbeats
        assert _stored(broker, group) == before
        assert wait_told(some, 2) == assignments
        assert describe(broker.bootstrap, group).shares == [2, 2]


def _wait_values(wanted: list[str], some: list[Member]) -> None:
    wait_for("all records", lambda: {value for one in some for value in one.values()}, lambda seen: seen >= set(wanted))


def _consumer(broker: Broker, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "log_level": 2,
        }
    )


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_committed_offsets_survive_the_broker(brokers: BrokerFactory, how: str) -> None:
    """With what was committed beside them."""
    broker = brokers(settings=SETTINGS)
    broker.start()
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, 2)
    produce(broker.bootstrap, topic, 2, 0, 20)
    consumer = _consumer(broker, group)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3, "note"), TopicPartition(topic, 1, 7)], asynchronous=False)
    broker.stop() if how == "stop" else broker.kill()
    broker.start()

    found = _consumer(broker, group).committed([TopicPartition(topic, index) for index in (0, 1)], timeout=20)

    assert [(one.offset, one.metadata) for one in found] == [(3, "note"), (7, None)] or [
        (one.offset, one.metadata or "") for one in found
    ] == [(3, "note"), (7, "")]


def test_broker_that_sleeps_past_its_session_causes_no_rebalance(brokers: BrokerFactory, tmp_path: Path) -> None:
    """SIGSTOP for longer than its ZooKeeper session; members could not heartbeat, and are not punished for it."""
    broker = brokers(settings=SETTINGS)
    broker.start()
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    with members(broker.bootstrap, group, topic, tmp_path, session_ms=20_000) as member:
        some = [member("kafka-python"), member("kafka-python")]
        wait_shared(broker.bootstrap, group, [2, 2])
        before = _stored(broker, group)
        os.kill(broker.pid, signal.SIGSTOP)
        time.sleep(8.0)
        os.kill(broker.pid, signal.SIGCONT)
        written = produce(broker.bootstrap, topic, PARTITIONS, 0, 100)
        _wait_values(written, some)
        assert _stored(broker, group).generation == before.generation


def test_commit_without_zookeeper_fails_and_counts_afterwards(tmp_path: Path) -> None:
    """Never success (K6); commits are good again when ZooKeeper is back."""
    if EXTERNAL:
        pytest.skip("needs a broker process of ours")
    with EmbeddedZooKeeper(tmp_path / "zookeeper", free_port(), tick_ms=500) as server:
        broker = Broker(tmp_path / "b", f"{server.connect}/x", settings={"zookeeper.session.timeout.ms": "6000"})
        broker.start()
        try:
            topic, group = fresh_name("t"), fresh_name("g")
            create_topic(broker.bootstrap, topic, 1)
            consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
            consumer.assign([Place(topic, 0)])
            assert _commits(consumer, topic, 1)
            assert server.pid is not None
            os.kill(server.pid, signal.SIGSTOP)
            try:
                assert not _commits(consumer, topic, 2)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            wait_for("commits are taken again", lambda: _commits(consumer, topic, 3), bool)
            assert consumer.committed(Place(topic, 0)) == 3
            consumer.close()
        finally:
            broker.kill()


def _commits(consumer: KafkaConsumer, topic: str, offset: int) -> bool:
    try:
        consumer.commit({Place(topic, 0): OffsetAndMetadata(offset, "", -1)}, timeout_ms=3000)
    except KafkaError:
        return False
    return True
