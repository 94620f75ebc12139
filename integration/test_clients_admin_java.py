"""Apache Kafka's own command-line tools."""

from __future__ import annotations

import json
import time
from pathlib import Path

from integration.admin import create_topic
from integration.clients.base import Record
from integration.clients.confluent import ConfluentKafka
from integration.conftest import fresh_name
from integration.processes import AnyBroker, Broker
from integration.tools import run_java

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
API_VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


COMPATIBILITY = "org.apache.kafka.tools.ClientCompatibilityTest"


def at(broker: AnyBroker) -> list[str]:
    """The option that names the broker."""
    return ["--bootstrap-server", broker.bootstrap]


def filled_topic(broker: AnyBroker, count: int = 10) -> str:
    """A topic with some records."""
    name = fresh_name("java")
    create_topic(broker.bootstrap, name)
    now = int(time.time() * 1000)
    records = [Record(None, b"%d" % number, (), now + number) for number in range(count)]
    ConfluentKafka().write(broker.bootstrap, name, records, "none")
    return name


def test_kafka_topics_creates_describes_alters_and_deletes(broker: AnyBroker) -> None:
    """kafka-topics.sh, the whole life of a topic."""
    name = fresh_name("java")
    created = run_java(
        TOPICS, *at(broker), "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1234567"
    )
    assert f"Created topic {name}" in created

    described = run_java(TOPICS, *at(broker), "--describe", "--topic", name)
    assert "PartitionCount: 2" in described
    assert "retention.ms=1234567" in described
    assert described.count("Leader: ") == 2

    run_java(TOPICS, *at(broker), "--alter", "--topic", name, "--partitions", "3")
    assert "PartitionCount: 3" in run_java(TOPICS, *at(broker), "--describe", "--topic", name)

    refused = run_java(TOPICS, *at(broker), "--create", "--topic", name, check=False)
    assert "already exists" in refused

    run_java(TOPICS, *at(broker), "--delete", "--topic", name)
    assert name not in run_java(TOPICS, *at(broker), "--list").split()


def test_kafka_configs_alters_and_describes(broker: AnyBroker) -> None:
    """kafka-configs.sh for a topic and for a broker."""
    name = filled_topic(broker)
    entity = ["--entity-type", "topics", "--entity-name", name]

    run_java(CONFIGS, *at(broker), *entity, "--alter", "--add-config", "segment.bytes=2000000,retention.ms=-1")
    assert "segment.bytes=2000000" in run_java(CONFIGS, *at(broker), *entity, "--describe")

    run_java(CONFIGS, *at(broker), *entity, "--alter", "--delete-config", "segment.bytes")
    described = run_java(CONFIGS, *at(broker), *entity, "--describe")
    assert "segment.bytes" not in described
    assert "retention.ms=-1" in described

    refused = run_java(CONFIGS, *at(broker), *entity, "--alter", "--add-config", "no.such.key=1", check=False)
    assert "no.such.key" in refused

    everything = run_java(CONFIGS, *at(broker), "--entity-type", "brokers", "--entity-name", "0", "--describe", "--all")
    assert "log.segment.bytes=1073741824" in everything


def test_kafka_get_offsets_and_delete_records(broker: AnyBroker, tmp_path: Path) -> None:
    """kafka-get-offsets.sh and kafka-delete-records.sh."""
    name = filled_topic(broker)
    assert f"{name}:0:10" in run_java(OFFSETS, *at(broker), "--topic", name)

    request = {"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 4}]}
    (tmp_path / "offsets.json").write_text(json.dumps(request))
    done = run_java(DELETE_RECORDS, *at(broker), "--offset-json-file", str(tmp_path / "offsets.json"))
    assert "low_watermark: 4" in done

    assert f"{name}:0:4" in run_java(OFFSETS, *at(broker), "--topic", name, "--time", "-2")
    assert f"{name}:0:9" in run_java(OFFSETS, *at(broker), "--topic", name, "--time", "max-timestamp")


def test_kafka_log_dirs_shows_sizes(broker: AnyBroker) -> None:
    """kafka-log-dirs.sh."""
    name = filled_topic(broker)
    output = run_java(LOG_DIRS, *at(broker), "--describe", "--topic-list", name)
    (text,) = [line for line in output.splitlines() if line.startswith("{")]
    (directory,) = json.loads(text)["brokers"][0]["logDirs"]
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    assert partition["partition"] == f"{name}-0"
    assert partition["size"] > 0


def test_kafka_verifiable_producer_gets_every_ack(broker: AnyBroker) -> None:
    """kafka-verifiable-producer.sh, Kafka's own system-test client."""
    name = fresh_name("verifiable")
    create_topic(broker.bootstrap, name, 3)
    output = run_java(
        VERIFIABLE_PRODUCER, *at(broker), "--topic", name, "--max-messages", "500", "--throughput", "-1", "--acks", "-1"
    )
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in events) == 500
    assert not [event for event in events if event["name"] == "producer_send_error"]


def test_kafka_producer_performance_finishes(broker: AnyBroker) -> None:
    """kafka-producer-perf-test.sh with compression and large batches."""
    name = fresh_name("performance")
    create_topic(broker.bootstrap, name, 3)
    properties = [f"bootstrap.servers={broker.bootstrap}", "acks=all", "compression.type=lz4", "batch.size=100000"]
    arguments = ["--topic", name, "--num-records", "20000", "--record-size", "500", "--throughput", "-1"]
    output = run_java(PRODUCER_PERFORMANCE, *arguments, "--producer-props", *properties)
    assert "20000 records sent" in output


def test_kafka_broker_api_versions_and_cluster_id(broker: AnyBroker) -> None:
    """kafka-broker-api-versions.sh and kafka-cluster.sh."""
    versions = run_java(API_VERSIONS, *at(broker))
    assert "Produce(0): " in versions
    assert "Fetch(1): " in versions
    assert "Cluster ID: " in run_java(CLUSTER, "cluster-id", *at(broker))


def test_kafkas_client_compatibility_test_succeeds(own_broker: Broker) -> None:
    """Its producer, consumer and admin client with every feature but ACLs."""
    name = fresh_name("compatibility")
    create_topic(own_broker.bootstrap, name)
    features = {
        "cluster-id-supported": True,
        "create-topics-supported": True,
        "describe-acls-supported": False,
        "describe-configs-supported": True,
        "expect-record-too-large-exception": False,
        "idempotent-producer-supported": True,
        "offsets-for-times-supported": True,
    }
    options = [word for feature, value in features.items() for word in (f"--{feature}", str(value))]
    output = run_java(COMPATIBILITY, *at(own_broker), "--topic", name, "--num-cluster-nodes", "1", *options)
    assert "SUCCESS" in output
