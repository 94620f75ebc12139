"""The admin client of kafkajs. Each call is one node process with a list of method calls."""

from __future__ import annotations

from typing import Any

from integration.admin import create_topic
from integration.clients.base import Record
from integration.clients.kafkajs import KafkaJs, call
from integration.conftest import fresh_name
from integration.processes import AnyBroker

TOPIC = 2  # kafkajs' ConfigResourceTypes
MOMENT = 1_700_000_000_000


def admin(broker: AnyBroker, *calls: tuple[str, Any]) -> list[Any]:
    """The answers of these calls."""
    answers: list[Any] = call(broker.bootstrap, "admin", calls=[list(one) for one in calls])
    return answers


def test_topic_is_created_described_grown_and_deleted(broker: AnyBroker) -> None:
    """createTopics answers false for a topic that exists."""
    name = fresh_name("life")
    new = {"topics": [{"topic": name, "numPartitions": 2, "replicationFactor": 1}], "waitForLeaders": True}
    grown = {"topicPartitions": [{"topic": name, "count": 3}]}

    created, again, described, listed, _, offsets, _, after = admin(
        broker,
        ("createTopics", new),
        ("createTopics", new),
        ("fetchTopicMetadata", {"topics": [name]}),
        ("listTopics", None),
        ("createPartitions", grown),
        ("fetchTopicOffsets", name),
        ("deleteTopics", {"topics": [name]}),
        ("listTopics", None),
    )

    assert (created, again) == (True, False)
    assert [entry["partitionId"] for entry in described["topics"][0]["partitions"]] == [0, 1]
    assert name in listed
    assert [entry["partition"] for entry in sorted(offsets, key=lambda entry: entry["partition"])] == [0, 1, 2]
    assert name not in after


def test_invalid_topic_is_refused_with_kafkas_code(broker: AnyBroker) -> None:
    """By its name in the protocol."""
    (refused,) = admin(broker, ("createTopics", {"topics": [{"topic": "not valid!"}], "waitForLeaders": False}))
    assert refused == {"error": "INVALID_TOPIC_EXCEPTION"}


def test_settings_are_altered_and_described(broker: AnyBroker) -> None:
    """AlterConfigs, then what the topic has."""
    name = fresh_name("settings")
    create_topic(broker.bootstrap, name)
    change = {"type": TOPIC, "name": name, "configEntries": [{"name": "retention.ms", "value": "86400001"}]}
    question = {"type": TOPIC, "name": name}

    altered, described = admin(
        broker,
        ("alterConfigs", {"validateOnly": False, "resources": [change]}),
        ("describeConfigs", {"includeSynonyms": True, "resources": [question]}),
    )

    assert altered["resources"][0]["errorCode"] == 0
    entries = {entry["configName"]: entry["configValue"] for entry in described["resources"][0]["configEntries"]}
    assert entries["retention.ms"] == "86400001"


def test_offsets_and_deleted_records(broker: AnyBroker) -> None:
    """Offsets by time, and the low watermark after a deletion."""
    name = fresh_name("offsets")
    create_topic(broker.bootstrap, name, config={"retention.ms": "-1"})
    records = [Record(None, b"x", (), MOMENT + 10 * number) for number in range(10)]
    KafkaJs().write(broker.bootstrap, name, records, "none")

    by_time, _, offsets = admin(
        broker,
        ("fetchTopicOffsetsByTimestamp", [name, MOMENT + 35]),
        ("deleteTopicRecords", {"topic": name, "partitions": [{"partition": 0, "offset": "6"}]}),
        ("fetchTopicOffsets", name),
    )

    assert by_time == [{"partition": 0, "offset": "4"}]
    assert (offsets[0]["low"], offsets[0]["high"]) == ("6", "10")


def test_cluster_is_described(broker: AnyBroker) -> None:
    """Brokers, controller and cluster id."""
    (described,) = admin(broker, ("describeCluster", None))
    assert described["clusterId"]
    assert described["controller"] in [entry["nodeId"] for entry in described["brokers"]]
