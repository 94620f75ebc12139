"""The admin client of kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import OffsetOutOfRangeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from integration.admin import create_topic
from integration.clients.base import Record
from integration.clients.kafka_python import KafkaPython
from integration.conftest import fresh_name
from integration.processes import AnyBroker

MOMENT = 1_700_000_000_000


@pytest.fixture
def admin(broker: AnyBroker) -> Iterator[Any]:
    """An admin client that asks the broker which versions it speaks."""
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(broker: AnyBroker) -> str:
    """A topic with ten records in its first partition."""
    name = fresh_name("admin")
    create_topic(broker.bootstrap, name, 2, {"retention.ms": "-1"})
    records = [Record(None, b"x", (), MOMENT + 10 * number) for number in range(10)]
    KafkaPython().write(broker.bootstrap, name, records, "none")
    return name


def test_topics_are_created_described_and_deleted(admin: Any) -> None:
    """With default partitions and replicas (-1) as well."""
    first, second = fresh_name("one"), fresh_name("two")
    admin.create_topics([NewTopic(first, 3, 1), NewTopic(second, -1, -1)])

    described = {entry["name"]: entry for entry in admin.describe_topics([first, second])}
    assert len(described[first]["partitions"]) == 3
    assert len(described[second]["partitions"]) >= 1
    assert described[first]["topic_id"] != described[second]["topic_id"]

    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(first, 3, 1)])
    admin.delete_topics([first, second])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([first])


def test_settings_are_altered_and_described(admin: Any, topic: str) -> None:
    """Incrementally, as kafka-python does where the broker can."""
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "4000000"})])

    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    described = admin.describe_configs([resource], config_filter="all", include_synonyms=True)
    settings = described["topic"][topic]

    assert settings["max.message.bytes"]["value"] == "4000000"
    assert settings["max.message.bytes"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert settings["max.message.bytes"]["synonyms"][0]["name"] == "max.message.bytes"
    assert settings["retention.ms"]["value"] == "-1"


def test_partitions_are_added(admin: Any, topic: str) -> None:
    """Visible in the next description."""
    admin.create_partitions({topic: NewPartitions(4)})
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 4


def test_offsets_are_listed(admin: Any, topic: str) -> None:
    """By every specification."""
    partition = TopicPartition(topic, 0)

    def look_up(spec: Any) -> Any:
        return admin.list_partition_offsets({partition: spec})[partition]

    assert look_up(OffsetSpec.EARLIEST).offset == 0
    assert look_up(OffsetSpec.LATEST).offset == 10
    assert look_up(OffsetSpec.MAX_TIMESTAMP).offset == 9
    assert look_up(OffsetSpec.MAX_TIMESTAMP).timestamp == MOMENT + 90
    assert look_up(MOMENT + 35).offset == 4


def test_records_are_deleted(admin: Any, topic: str) -> None:
    """Up to an offset; past the end is refused."""
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 7})[partition]["low_watermark"] == 7
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 50})


def test_cluster_and_log_dirs_are_described(admin: Any, topic: str) -> None:
    """Sizes are those of files that hold something."""
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"]
    assert cluster["controller_id"] in {entry["broker_id"] for entry in cluster["brokers"]}

    text = repr(admin.describe_log_dirs())
    assert topic in text
