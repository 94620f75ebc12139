"""Tools on groups: Kafka's kafka-consumer-groups, and the admin clients of confluent-kafka, kafka-python and kafkajs.

With BARNABAS_TEST_BOOTSTRAP the same tests run against an Apache Kafka.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from kafka import KafkaAdminClient
from kazoo.client import KazooClient

from integration.admin import admin_client, create_topic
from integration.clients.kafkajs import call
from integration.conftest import fresh_name
from integration.group_members import describe, members, produce, wait_for, wait_shared
from integration.processes import AnyBroker, Broker
from integration.tools import run_java

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def _groups(broker: AnyBroker, *arguments: str, check: bool = True) -> str:
    return run_java(GROUPS, "--bootstrap-server", broker.bootstrap, *arguments, check=check)


def _rows(output: str, topic: str) -> dict[int, list[str]]:
    """Partition to the words after its topic."""
    lines = re.findall(rf"{re.escape(topic)}\s+(\d+\s.*)", output)
    return {int(line.split()[0]): line.split() for line in lines}


def _committed(broker: AnyBroker, group: str, topic: str, *indexes: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        return [one.offset for one in consumer.committed([TopicPartition(topic, index) for index in indexes], 20)]
    finally:
        consumer.close()


def _commit(broker: AnyBroker, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 2})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def test_kafka_consumer_groups_describes_members_state_and_lag(broker: AnyBroker, tmp_path: Path) -> None:
    """A group with two members, in the words that operators know."""
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, 2)
    produce(broker.bootstrap, topic, 2, 0, 20)
    with members(broker.bootstrap, group, topic, tmp_path) as member:
        some = [member("confluent-range"), member("confluent-range")]
        wait_shared(broker.bootstrap, group, [1, 1])
        wait_for("all records", lambda: sum(len(one.values()) for one in some), lambda seen: seen >= 20)
        wait_for("commits", lambda: _committed(broker, group, topic, 0, 1), lambda seen: seen == [10, 10])
        assert group in _groups(broker, "--list").split()

        rows = _rows(_groups(broker, "--describe", "--group", group), topic)
        assert {index: row[1:4] for index, row in rows.items()} == {0: ["10", "10", "0"], 1: ["10", "10", "0"]}
        shown = _groups(broker, "--describe", "--group", group, "--members", "--verbose")
        assert "(0)" in shown
        assert "(1)" in shown
        state = _groups(broker, "--describe", "--group", group, "--state")
        assert "range" in state
        assert "Stable" in state
        listed = _groups(broker, "--list", "--state", "stable")
        assert any(line.split() == [group, "Stable"] for line in listed.splitlines())

        refused = _groups(broker, "--delete", "--group", group, check=False)
        assert "GroupNotEmptyException" in refused
        refused = _groups(
            broker, "--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute", check=False
        )
        assert "current state is Stable" in refused
        refused = _groups(broker, "--delete-offsets", "--group", group, "--topic", topic, check=False)
        assert "is subscribed to" in refused or "GroupSubscribedToTopic" in refused or "subscribed" in refused
        for one in some:
            one.stop()


def test_kafka_consumer_groups_resets_and_deletes(broker: AnyBroker) -> None:
    """Offsets of a group without members: moved, shown, removed; at the end the group itself."""
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, 2)
    produce(broker.bootstrap, topic, 2, 0, 20)
    _commit(broker, group, TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6))
    one_topic = ["--group", group, "--topic", topic]

    dry = _groups(broker, "--reset-offsets", *one_topic, "--to-earliest", "--dry-run")
    assert set(re.findall(rf"{topic}\s+(\d+)\s+(\d+)", dry)) == {("0", "0"), ("1", "0")}
    assert _committed(broker, group, topic, 0, 1) == [5, 6]
    for how, offsets in (
        (["--to-latest"], [10, 10]),
        (["--shift-by", "-3"], [7, 7]),
        (["--to-offset", "2"], [2, 2]),
        (["--to-earliest"], [0, 0]),
    ):
        _groups(broker, "--reset-offsets", *one_topic, *how, "--execute")
        assert _committed(broker, group, topic, 0, 1) == offsets

    assert "Successful" in _groups(broker, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert _committed(broker, group, topic, 0, 1) == [-1001, 0]
    deleted = _groups(broker, "--delete", "--group", group)
    assert "was successful" in deleted
    assert group not in _groups(broker, "--list").split()
    missing = _groups(broker, "--delete", "--group", group, check=False)
    assert "GroupIdNotFound" in missing


def test_confluent_admin_lists_moves_and_deletes(broker: AnyBroker) -> None:
    """confluent-kafka's admin client."""
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, 2)
    _commit(broker, group, TopicPartition(topic, 0, 5))
    client: Any = admin_client(broker.bootstrap)

    listed = client.list_consumer_groups(request_timeout=20).result(30)
    assert group in {one.group_id for one in listed.valid}
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 8), TopicPartition(topic, 1, 9)])
    client.alter_consumer_group_offsets([asked])[group].result(30)
    found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    assert sorted((one.partition, one.offset) for one in found.topic_partitions) == [(0, 8), (1, 9)]
    client.delete_consumer_groups([group])[group].result(30)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        client.delete_consumer_groups([group])[group].result(30)
    assert describe(broker.bootstrap, group).state == "Dead"


def test_kafka_python_admin_lists_and_describes(broker: AnyBroker, tmp_path: Path) -> None:
    """kafka-python's admin client."""
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, 2)
    with members(broker.bootstrap, group, topic, tmp_path) as member:
        member("kafka-python")
        wait_shared(broker.bootstrap, group, [2])
        client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        try:
            listed = client.list_groups()
            assert group in str(listed)
            described = str(client.describe_groups([group]))
            assert "Stable" in described
            assert topic in described
        finally:
            client.close()


def test_kafkajs_admin_describes_fetches_and_deletes(broker: AnyBroker) -> None:
    """kafkajs' admin client."""
    topic, group = fresh_name("t"), fresh_name("g")
    create_topic(broker.bootstrap, topic, 1)
    produce(broker.bootstrap, topic, 1, 0, 10)
    _commit(broker, group, TopicPartition(topic, 0, 5))

    calls = [
        ["fetchOffsets", {"groupId": group, "topics": [topic]}],
        ["setOffsets", {"groupId": group, "topic": topic, "partitions": [{"partition": 0, "offset": "3"}]}],
        ["fetchOffsets", {"groupId": group, "topics": [topic]}],
        ["describeGroups", [[group]]],
        ["deleteGroups", [[group]]],
    ]
    first, _, moved, described, deleted = call(broker.bootstrap, "admin", calls=calls)

    assert first[0]["partitions"][0]["offset"] == "5"
    assert moved[0]["partitions"][0]["offset"] == "3"
    assert described["groups"][0]["state"] == "Empty"
    assert deleted[0]["errorCode"] == 0


def test_groups_of_our_own_consumer_are_listed_and_described(own_broker: Broker) -> None:
    """They are nodes in ZooKeeper; kafka-consumer-groups shows them as any other group, and does not harm them."""
    topic, group = fresh_name("t"), fresh_name("ours")
    create_topic(own_broker.bootstrap, topic, 2)
    produce(own_broker.bootstrap, topic, 2, 0, 20)
    _commit(own_broker, fresh_name("first"), TopicPartition(topic, 0, 1))
    client = KazooClient(own_broker.zookeeper)
    client.start()
    try:
        root = f"/consumers/{group}"
        client.create(f"{root}/plan", b'{"version":1,"kind":"registry","generation":1}', makepath=True)
        client.create(f"{root}/offsets/{topic}/0", b"4", makepath=True)
        member = b'{"version":1,"subscription":{"%s":1},"pattern":"static","timestamp":"1"}' % topic.encode()
        client.create(f"{root}/ids/c1", member, makepath=True, ephemeral=True)
        for index in (0, 1):
            client.create(f"{root}/owners/{topic}/{index}", b"c1-0", makepath=True, ephemeral=True)

        assert group in _groups(own_broker, "--list").split()
        rows = _rows(_groups(own_broker, "--describe", "--group", group), topic)
        assert (rows[0][1:4], rows[0][4], rows[1][4]) == (["4", "10", "6"], "c1", "c1")
        assert "GroupNotEmptyException" in _groups(own_broker, "--delete", "--group", group, check=False)
        mixed = Consumer({"bootstrap.servers": own_broker.bootstrap, "group.id": group, "log_level": 2})
        mixed.subscribe([topic])
        wait_for("an error", lambda: _error(mixed), lambda seen: seen == "INCONSISTENT_GROUP_PROTOCOL")
        mixed.close()
        assert client.exists(f"{root}/group") is None
    finally:
        client.stop()
        client.close()


def _error(consumer: Consumer) -> str | None:
    message = consumer.poll(0.5)
    problem = None if message is None else message.error()
    return None if problem is None else problem.name()
