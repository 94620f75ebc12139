"""The benchmarks measure a real broker: short runs of each, and what they report adds up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas.bench.brokers import BarnabasBroker
from barnabas.cli import cli
from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from barnabas.peers.kafka_broker import KafkaBroker
from barnabas.peers.kafka_install import installed_jars

SHORT = ("--rounds", "1", "--seconds", "0.3", "--warm-up", "0.1")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Iterator[BarnabasBroker]:
    with BarnabasBroker(tmp_path_factory.mktemp("broker"), free_port(), zookeeper.connect) as one:
        yield one


def bench(*arguments: str) -> list[dict[str, Any]]:
    """The outcomes of one call, as programs get them."""
    result = CliRunner().invoke(cli, ["bench", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("client", ["librdkafka", "raw"])
def test_produce_reports_rate_and_cpu(broker: BarnabasBroker, client: str) -> None:
    """Both clients send for the given time; the broker's process is found by its port."""
    (outcome,) = bench("produce", "-b", broker.address, "--client", client, "--partitions", "2", *SHORT)
    (series,) = outcome["brokers"]
    (sample,) = series["samples"]
    assert sample["operations"] > 1000
    assert sample["bytes"] == sample["operations"] * 200
    assert sample["broker_cpu"] > 0


@pytest.mark.parametrize("client", ["librdkafka", "raw"])
def test_fetch_reads_all_messages(broker: BarnabasBroker, client: str) -> None:
    """A run is over when everything was read."""
    arguments = ("--client", client, "--partitions", "2", "--messages", "20000", "--rounds", "1")
    (outcome,) = bench("fetch", "-b", broker.address, *arguments)
    assert outcome["brokers"][0]["samples"][0]["operations"] >= 20_000


def test_latency_has_percentiles_in_order(broker: BarnabasBroker) -> None:
    """p50 is not above p99."""
    (outcome,) = bench("latency", "-b", broker.address, "--rate", "500", *SHORT)
    latency = outcome["brokers"][0]["latency_micros"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"] < 60e6


def test_small_requests_against_itself_gives_ratios(broker: BarnabasBroker) -> None:
    """Two addresses give two series and their ratio; the same broker twice is the negative control."""
    arguments = ("--against", broker.address, "--connections", "1,4", "--in-flight", "4", *SHORT)
    outcomes = bench("small-requests", "-b", broker.address, *arguments)
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert len(outcome["brokers"]) == 2
        assert 0.1 < outcome["ratios"]["rate"] < 10


def test_no_broker_there_is_said_in_one_line() -> None:
    """Nobody waits for a time-out."""
    result = CliRunner().invoke(cli, ["bench", "produce", "-b", f"127.0.0.1:{free_port()}"])
    assert result.exit_code == 1
    assert "there is no broker at" in result.output


@pytest.mark.slow
def test_kafka_runs_beside_the_same_zookeeper(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    """The peer starts, is measured like ours, and stops."""
    from barnabas.peers.kafka_install import default_directory, install

    if not installed_jars(default_directory()):
        if os.environ.get("BARNABAS_REQUIRE_CLIENTS") != "1":
            pytest.skip("Apache Kafka is not installed; `barnabas bench install-kafka` does it")
        install()
    with KafkaBroker(tmp_path, free_port(), f"{zookeeper.connect}/kafka", heap="256m") as kafka:
        (outcome,) = bench("produce", "-b", kafka.address, *SHORT)
        assert outcome["brokers"][0]["rate"] > 0
    assert not kafka.running()
