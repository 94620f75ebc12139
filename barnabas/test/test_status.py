"""What is said about the cluster's health."""

from barnabas.commands.status import parse_srvr, summary
from kafka_wire.metadata_view import BrokerAddress, MetadataView, PartitionView, TopicView


def _partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionView:
    return PartitionView(leader, 3, replicas, isr, (), 0)


def test_partitions_out_of_sync_or_without_leader_are_found() -> None:
    """The two things that need somebody's attention."""
    partitions = {0: _partition(0, (0, 1), (0, 1)), 1: _partition(1, (1, 0), (1,)), 2: _partition(-1, (2,), (2,))}
    topic = TopicView("logs", bytes(16), False, 0, partitions)
    brokers = {number: BrokerAddress(number, "h", 9092, None) for number in (1, 0)}
    found = summary(MetadataView(brokers, {"logs": topic}, 1, "cluster", True))
    assert [(each["topic"], each["partition"]) for each in found["under_replicated"]] == [("logs", 1)]
    assert [(each["topic"], each["partition"]) for each in found["offline"]] == [("logs", 2)]
    assert [(each["id"], each["leads"], each["replicas"]) for each in found["brokers"]] == [(0, 1, 2), (1, 1, 2)]
    assert (found["controller"], found["topics"], found["partitions"]) == (1, 1, 3)


def test_cluster_without_controller_says_so() -> None:
    """-1 is the protocol's way, not the user's."""
    assert summary(MetadataView())["controller"] is None


def test_zookeepers_answer_is_understood() -> None:
    """As version 3.9 writes it."""
    answer = "Zookeeper version: 3.9.5-abc, built on 2026-01-01\nConnections: 2\nMode: leader\nNode count: 5\n"
    assert parse_srvr(answer) == {"mode": "leader", "version": "3.9.5", "connections": 2, "problem": None}


def test_zookeeper_that_does_not_serve_has_a_problem() -> None:
    """It answers, but not what was asked."""
    answer = "This ZooKeeper instance is not currently serving requests\n"
    assert parse_srvr(answer)["problem"] == "This ZooKeeper instance is not currently serving requests"
    assert parse_srvr("")["problem"] == "it closed the connection"
