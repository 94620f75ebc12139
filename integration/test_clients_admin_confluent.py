"""The admin client of confluent-kafka: topics, settings, partitions, offsets, records, the cluster."""

# The types of confluent-kafka name few of its exports.
# mypy: disable-error-code="attr-defined, no-untyped-call"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from integration.admin import admin_client, create_topic
from integration.clients.base import Record
from integration.clients.confluent import ConfluentKafka
from integration.conftest import fresh_name
from integration.processes import AnyBroker, Broker

MOMENT = 1_700_000_000_000


@pytest.fixture
def admin(broker: AnyBroker) -> Any:
    """An admin client."""
    return admin_client(broker.bootstrap)


@pytest.fixture
def topic(broker: AnyBroker) -> str:
    """A topic with two partitions that keeps everything."""
    name = fresh_name("admin")
    create_topic(broker.bootstrap, name, 2, {"retention.ms": "-1"})
    return name


def outcome(futures: Mapping[Any, Any]) -> Any:
    """The result of the only call."""
    (future,) = futures.values()
    return future.result(30)


def refusal(futures: Mapping[Any, Any]) -> KafkaError:
    """The error of the only call."""
    with pytest.raises(KafkaException) as caught:
        outcome(futures)
    error: KafkaError = caught.value.args[0]
    return error


def settings_of(admin: Any, topic: str) -> dict[str, Any]:
    """All settings of a topic."""
    entries: dict[str, Any] = outcome(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return entries


def test_created_topic_is_described_and_deleted_topic_is_gone(admin: Any) -> None:
    """The whole life of a topic."""
    name = fresh_name("life")
    outcome(admin.create_topics([NewTopic(name, 3, 1)], operation_timeout=30))

    metadata = admin.list_topics(name, timeout=10)
    assert sorted(metadata.topics[name].partitions) == [0, 1, 2]
    for partition in metadata.topics[name].partitions.values():
        assert partition.error is None
        assert partition.leader in metadata.brokers
        assert partition.replicas == [partition.leader] == partition.isrs
    assert metadata.controller_id in metadata.brokers
    assert metadata.cluster_id

    outcome(admin.delete_topics([name], operation_timeout=30))
    assert name not in admin.list_topics(timeout=10).topics


def test_topic_that_exists_is_refused_by_name(admin: Any, topic: str) -> None:
    """A second creation changes nothing."""
    error = refusal(admin.create_topics([NewTopic(topic, 1, 1)]))
    assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert topic in error.str()


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("spaces are wrong", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("a" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic(fresh_name("none"), 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic(fresh_name("copies"), 1, 5), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic(fresh_name("wrong"), 1, 1, config={"no.such.setting": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic(fresh_name("wrong"), 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic(fresh_name("wrong"), 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
        (NewTopic(fresh_name("wrong"), 1, replica_assignment=[[0, 0]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: value.topic[:5] if isinstance(value, NewTopic) else "",
)
def test_impossible_topic_is_refused(admin: Any, new: NewTopic, code: int) -> None:
    """Kafka's error code and a text for people."""
    error = refusal(admin.create_topics([new]))
    assert error.code() == code
    assert error.str()
    assert new.topic not in admin.list_topics(timeout=10).topics


def test_replica_on_an_unknown_broker_is_refused_at_once(own_broker: Broker) -> None:
    """Unlike Apache Kafka 3.9 with ZooKeeper, which keeps such a topic and answers REQUEST_TIMED_OUT."""
    admin = admin_client(own_broker.bootstrap)
    error = refusal(admin.create_topics([NewTopic(fresh_name("elsewhere"), 1, replica_assignment=[[77]])]))
    assert error.code() == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_validated_topic_is_not_created(admin: Any) -> None:
    """validate_only answers as the creation would."""
    name = fresh_name("validated")
    outcome(admin.create_topics([NewTopic(name, 1, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=10).topics


def test_unknown_topic_cannot_be_deleted(admin: Any) -> None:
    """Kafka's code for it."""
    assert refusal(admin.delete_topics([fresh_name("absent")])).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_settings_of_a_topic_are_described_with_their_sources(broker: AnyBroker, admin: Any) -> None:
    """What was set says so, the rest is a default."""
    name = fresh_name("settings")
    create_topic(broker.bootstrap, name, config={"retention.ms": "123456", "cleanup.policy": "compact"})

    entries = settings_of(admin, name)

    assert entries["retention.ms"].value == "123456"
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert entries["cleanup.policy"].value == "compact"
    assert entries["max.message.bytes"].value == "1048588"
    assert entries["max.message.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert entries["max.message.bytes"].is_default


def test_incremental_change_touches_only_what_it_names(admin: Any, topic: str) -> None:
    """Set, append, subtract, delete."""

    def change(*operations: tuple[str, str | None, AlterConfigOpType]) -> None:
        entries = [ConfigEntry(name, value, incremental_operation=kind) for name, value, kind in operations]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        outcome(admin.incremental_alter_configs([resource]))

    change(("segment.bytes", "2000000", AlterConfigOpType.SET), ("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    entries = settings_of(admin, topic)
    assert entries["segment.bytes"].value == "2000000"
    assert set(entries["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    assert entries["retention.ms"].value == "-1"

    change(("segment.bytes", None, AlterConfigOpType.DELETE), ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    entries = settings_of(admin, topic)
    assert entries["segment.bytes"].value == "1073741824"
    assert entries["cleanup.policy"].value == "compact"


def test_full_change_resets_what_it_does_not_name(admin: Any, topic: str) -> None:
    """AlterConfigs of old replaces all."""
    outcome(admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "3000000"})]))

    entries = settings_of(admin, topic)

    assert entries["segment.bytes"].value == "3000000"
    assert entries["retention.ms"].value == "604800000"


def test_wrong_setting_is_refused(admin: Any, topic: str) -> None:
    """And nothing of the change is kept."""
    entries = [
        ConfigEntry("segment.bytes", "2000000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.ms", "never", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)

    assert refusal(admin.incremental_alter_configs([resource])).code() == KafkaError.INVALID_CONFIG
    assert settings_of(admin, topic)["segment.bytes"].value == "1073741824"


def test_settings_of_the_broker_are_described(admin: Any) -> None:
    """Under Kafka's names."""
    (broker_id,) = admin.list_topics(timeout=10).brokers
    entries = outcome(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker_id))]))
    assert entries["broker.id"].value == str(broker_id)
    assert entries["broker.id"].is_read_only
    assert {"log.dirs", "listeners", "zookeeper.connect", "message.max.bytes", "num.partitions"} <= set(entries)


def test_partitions_are_added_and_never_taken_away(admin: Any, topic: str) -> None:
    """From two to five; to three is refused."""
    outcome(admin.create_partitions([NewPartitions(topic, 5)], operation_timeout=30))
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 5

    assert refusal(admin.create_partitions([NewPartitions(topic, 3)])).code() == KafkaError.INVALID_PARTITIONS


def _fill(broker: AnyBroker, topic: str) -> None:
    """Ten records; the greatest timestamp is the sixth's."""
    times = [MOMENT + 10 * number + (1000 if number == 5 else 0) for number in range(10)]
    records = [Record(None, b"%d" % number, (), moment) for number, moment in enumerate(times)]
    # One batch each, so that a look-up by time must find the right one.
    for record in records:
        ConfluentKafka().write(broker.bootstrap, topic, [record], "none")


def test_offsets_are_listed_by_time(broker: AnyBroker, admin: Any, topic: str) -> None:
    """Earliest, latest, at a time, after all, and of the greatest time."""
    _fill(broker, topic)
    partition = TopicPartition(topic, 0)

    def look_up(spec: OffsetSpec) -> tuple[int, int]:
        result = outcome(admin.list_offsets({partition: spec}))
        return result.offset, result.timestamp

    assert look_up(OffsetSpec.earliest())[0] == 0
    assert look_up(OffsetSpec.latest())[0] == 10
    assert look_up(OffsetSpec.for_timestamp(MOMENT)) == (0, MOMENT)
    assert look_up(OffsetSpec.for_timestamp(MOMENT + 25)) == (3, MOMENT + 30)
    assert look_up(OffsetSpec.for_timestamp(MOMENT + 60)) == (5, MOMENT + 1050)
    assert look_up(OffsetSpec.for_timestamp(MOMENT + 5000))[0] == -1
    assert look_up(OffsetSpec.max_timestamp()) == (5, MOMENT + 1050)


def test_deleted_records_are_no_longer_served(broker: AnyBroker, admin: Any, topic: str) -> None:
    """The log starts where the call said; later than its end is refused."""
    _fill(broker, topic)

    deleted = outcome(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    assert [record.offset for record in ConfluentKafka().read(broker.bootstrap, topic, 6)] == list(range(4, 10))

    error = refusal(admin.delete_records([TopicPartition(topic, 0, 99)]))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_cluster_is_described(admin: Any) -> None:
    """Nodes, controller, cluster id."""
    described = admin.describe_cluster().result(10)
    assert described.cluster_id
    assert described.controller.id in {node.id for node in described.nodes}


def test_topic_is_described_with_its_id(admin: Any, topic: str) -> None:
    """Topic ids are real and stay."""
    first, second = (outcome(admin.describe_topics(TopicCollection([topic]))) for _ in range(2))
    assert str(first.topic_id) == str(second.topic_id)
    assert [partition.id for partition in first.partitions] == [0, 1]
