"""`barnabas topics` without a cluster: wrong calls, and what is shown of a given state."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from barnabas import admin
from barnabas.cli import cli
from barnabas.commands.topics import parse_assignment
from kafka_wire.metadata_view import MetadataView, PartitionView, TopicView
from kafka_wire.schema.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def _topic(name: str, *partitions: tuple[int, tuple[int, ...], tuple[int, ...]], internal: bool = False) -> TopicView:
    views = {number: PartitionView(*each, (), 0) for number, each in enumerate((p[0], 1, *p[1:]) for p in partitions)}
    return TopicView(name, bytes(16), internal, 0, views)


HEALTHY = _topic("healthy", (0, (0, 1), (0, 1)))
LAGGING = _topic("lagging", (0, (0, 1), (0, 1)), (1, (1, 0), (1,)))
LEADERLESS = _topic("leaderless", (-1, (2,), (2,)))
INTERNAL = _topic("__internal", (0, (0,), (0,)), internal=True)


class FakeCluster:
    """Has the topics above; `lagging` has a setting of its own."""

    def metadata(self, topics: object = None, refresh: bool = False) -> MetadataView:
        return MetadataView(topics={each.name: each for each in (LAGGING, HEALTHY, LEADERLESS, INTERNAL)})

    def request(self, api: object, body: Any, broker_id: int | None = None) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_type=2,
                    resource_name=each.resource_name,
                    configs=(
                        DescribeConfigsResourceResult(
                            "retention.ms", "5", config_source=1 if each.resource_name == "lagging" else 5
                        ),
                    ),
                )
                for each in body.resources
            ]
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call reaches FakeCluster."""

    @contextlib.contextmanager
    def connected(bootstrap_server: str) -> Iterator[FakeCluster]:
        yield FakeCluster()

    monkeypatch.setattr(admin, "connected", connected)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], {"__internal": [0], "healthy": [0], "lagging": [0, 1], "leaderless": [0]}),
        (["--exclude-internal"], {"healthy": [0], "lagging": [0, 1], "leaderless": [0]}),
        (["--under-replicated-partitions"], {"lagging": [1]}),
        (["--unavailable-partitions"], {"leaderless": [0]}),
        (["--topics-with-overrides"], {"lagging": [0, 1]}),
        (["healthy"], {"healthy": [0]}),
    ],
)
def test_description_is_of_what_was_asked_for(options: list[str], shown: dict[str, list[int]]) -> None:
    """The filters of Kafka's own tool."""
    result = CliRunner().invoke(cli, ["topics", "describe", "--json", *options])
    found = json.loads(result.stdout)
    assert {topic["name"]: [each["partition"] for each in topic["partitions"]] for topic in found} == shown


@pytest.mark.usefixtures("cluster")
def test_description_outside_a_terminal_has_kafkas_shape() -> None:
    """Scripts that parse kafka-topics.sh parse this too."""
    result = CliRunner().invoke(cli, ["topics", "describe", "lagging", "leaderless"])
    assert result.stdout.splitlines() == [
        "Topic: lagging\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2"
        "\tConfigs: retention.ms=5",
        "\tTopic: lagging\tPartition: 0\tLeader: 0\tReplicas: 0,1\tIsr: 0,1",
        "\tTopic: lagging\tPartition: 1\tLeader: 1\tReplicas: 1,0\tIsr: 1",
        "Topic: leaderless\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: ",
        "\tTopic: leaderless\tPartition: 0\tLeader: none\tReplicas: 2\tIsr: 2",
    ]


@pytest.mark.usefixtures("cluster")
def test_list_outside_a_terminal_is_names_only() -> None:
    """One on each line, sorted."""
    result = CliRunner().invoke(cli, ["topics", "list", "--exclude-internal"])
    assert result.stdout == "healthy\nlagging\nleaderless\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "t", "--partitions", "0"],
        ["create", "t", "--partitions", "2", "--replica-assignment", "0,1"],
        ["create", "t", "--config", "novalue"],
        ["add-partitions", "t"],
        ["add-partitions", "t", "--add", "1", "--partitions", "4"],
        ["alter", "t"],
        ["delete"],
    ],
)
def test_call_that_makes_no_sense_is_refused_before_any_connection(arguments: list[str]) -> None:
    """Exit code 2."""
    assert CliRunner().invoke(cli, ["topics", *arguments, "-b", "nowhere.invalid:1"]).exit_code == 2


def test_assignment_is_read_as_kafkas_tools_write_it() -> None:
    """Partitions with commas, replicas with colons."""
    assert parse_assignment("0:1,1:2,2:0") == [[0, 1], [1, 2], [2, 0]]
    with pytest.raises(click.UsageError):
        parse_assignment("0:x")
