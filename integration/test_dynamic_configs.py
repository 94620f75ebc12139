"""Settings of brokers, changed while they run: by clients, by Kafka's own tool, by `barnabas configs`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from barnabas import admin
from integration.conftest import BrokerFactory, fresh_name
from integration.processes import Broker
from integration.tools import ROOT, run_java

CONFIGS = "kafka.admin.ConfigCommand"
DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER = 2, 3


@pytest.fixture
def running(brokers: BrokerFactory) -> Broker:
    """A broker of its own."""
    made = brokers({"num.partitions": "2"})
    made.start()
    return made


def _alter(broker: Broker, broker_id: int | None, **settings: str | None) -> None:
    """Changes settings of a broker, or (None) of all; None deletes one."""
    changed = {name.replace("_", "."): value for name, value in settings.items() if value is not None}
    deleted = [name.replace("_", ".") for name, value in settings.items() if value is None]
    with admin.connected(broker.bootstrap) as cluster:
        admin.alter_configs(cluster, admin.Resource.broker(broker_id), changed=changed, deleted=deleted)


def _described(broker: Broker, broker_id: int | None) -> dict[str, admin.Setting]:
    resource = admin.Resource.broker(broker_id)
    with admin.connected(broker.bootstrap) as cluster:
        return {one.name: one for one in admin.describe_configs(cluster, [resource])[resource]}


def _created(broker: Broker, **options: Any) -> tuple[str, int]:
    """A new topic and the number of its partitions."""
    name = fresh_name("dynamic")
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic(name, **options)])[name].result(20)
    return name, len(client.list_topics(name, timeout=20).topics[name].partitions)


def _produced(broker: Broker, topic: str, size: int) -> KafkaError | None:
    found: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 10_000_000})
    producer.produce(topic, bytes(size), on_delivery=lambda error, _: found.append(error))
    producer.flush(20)
    return found[0]


def test_settings_hold_at_once_and_after_a_restart(running: Broker) -> None:
    """A topic's defaults follow the broker's settings, in logs that are open too."""
    topic, partitions = _created(running)
    assert partitions == 2
    assert _produced(running, topic, 2_000_000) is not None

    _alter(running, 0, message_max_bytes="3000000")
    _alter(running, None, num_partitions="5")

    assert _produced(running, topic, 2_000_000) is None
    assert _created(running)[1] == 5
    running.restart()
    assert _produced(running, topic, 2_000_000) is None
    assert _created(running)[1] == 5
    _alter(running, 0, message_max_bytes=None)
    error = _produced(running, topic, 2_000_000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_sources_are_kafkas_and_the_nodes_in_zookeeper_too(running: Broker) -> None:
    """The strongest layer is shown; nodes are as Kafka's brokers and tools expect them."""
    _alter(running, 0, num_partitions="7")
    _alter(running, None, num_partitions="6", log_retention_ms="123456")

    found = _described(running, 0)
    partitions = found["num.partitions"]
    assert (partitions.value, partitions.source, partitions.read_only) == ("7", DYNAMIC_BROKER, False)
    retention = found["log.retention.ms"]
    assert (retention.value, retention.source) == ("123456", DYNAMIC_DEFAULT_BROKER)
    assert found["broker.id"].read_only
    assert {"log.retention.hours", "log.retention.minutes", "log.roll.hours"} <= set(found)
    assert {name: one.value for name, one in _described(running, None).items()} == {
        "num.partitions": "6",
        "log.retention.ms": "123456",
    }
    zookeeper = KazooClient(running.zookeeper)
    zookeeper.start()
    try:
        assert json.loads(zookeeper.get("/config/brokers/0")[0]) == {"version": 1, "config": {"num.partitions": "7"}}
        notices = [zookeeper.get(f"/config/changes/{name}")[0] for name in zookeeper.get_children("/config/changes")]
        assert {json.loads(one)["entity_path"] for one in notices} == {"brokers/0", "brokers/<default>"}
    finally:
        zookeeper.stop()
        zookeeper.close()


def test_fixed_setting_is_refused_by_name(running: Broker) -> None:
    """Nothing of the request is taken."""
    with pytest.raises(Exception, match=r"broker\.rack"):
        _alter(running, 0, broker_rack="a", num_partitions="9")

    assert _described(running, 0)["num.partitions"].value == "2"


def test_new_advertised_listeners_reach_clients(running: Broker) -> None:
    """The broker registers them; metadata has them at once."""
    _alter(running, 0, advertised_listeners=f"PLAINTEXT://localhost:{running.port}")

    assert _eventually(lambda: _host(running) == "localhost")
    running.restart()
    assert _host(running) == "localhost"


def test_connections_are_limited_anew(running: Broker) -> None:
    """A limit that is set while the broker runs refuses the next connection."""
    _alter(running, 0, max_connections_per_ip="0")

    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": running.bootstrap}).list_topics(timeout=2)


def test_kafka_configs_alters_brokers(running: Broker) -> None:
    """kafka-configs.sh for one broker and for all."""
    at = ["--bootstrap-server", running.bootstrap, "--entity-type", "brokers"]
    one, everybody = [*at, "--entity-name", "0"], [*at, "--entity-default"]

    run_java(CONFIGS, *one, "--alter", "--add-config", "log.retention.ms=60000,message.max.bytes=2000000")
    run_java(CONFIGS, *everybody, "--alter", "--add-config", "log.retention.ms=70000")
    described = run_java(CONFIGS, *one, "--describe")
    defaults = run_java(CONFIGS, *everybody, "--describe")

    assert "log.retention.ms=60000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=60000" in described
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=70000" in described
    assert "log.retention.ms=70000" in defaults
    run_java(CONFIGS, *one, "--alter", "--delete-config", "log.retention.ms")
    assert "log.retention.ms=60000" not in run_java(CONFIGS, *one, "--describe")
    refused = run_java(CONFIGS, *one, "--alter", "--add-config", "log.dirs=/tmp/x", check=False)
    assert "log.dirs" in refused


def test_our_own_tool_alters_brokers(running: Broker) -> None:
    """`barnabas configs alter`."""
    _barnabas(running, "alter", "--broker", "0", "--set", "num.partitions=3")
    _barnabas(running, "alter", "--broker-defaults", "--set", "log.retention.ms=5")

    found = json.loads(_barnabas(running, "describe", "--broker", "0", "--json"))
    shown = {one["name"]: (one["value"], one["source"]) for one in found}
    assert shown["num.partitions"] == ("3", "dynamic broker")
    assert shown["log.retention.ms"][0] == "5"


def _barnabas(broker: Broker, *arguments: str) -> str:
    command = [sys.executable, "-m", "barnabas.cli", "configs", *arguments, "--bootstrap-server", broker.bootstrap]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def _host(broker: Broker) -> str:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    return str(client.list_topics(timeout=20).brokers[0].host)


def _eventually(condition: Callable[[], bool], tries: int = 50) -> bool:
    return any(condition() for _ in range(tries))
