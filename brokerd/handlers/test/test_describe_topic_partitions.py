"""DescribeTopicPartitions."""

from __future__ import annotations

import pytest

from brokerd.handlers import describe_topic_partitions
from brokerd.handlers.describe_topic_partitions import page
from brokerd.handlers.test.fakes import FakeBroker, request
from brokerd.metadata import BrokerInfo, ClusterView, PartitionInfo, TopicInfo
from kafka_wire import errors
from kafka_wire.schema.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor, TopicRequest


def view(**topics: int) -> ClusterView:
    """Topics with so many partitions."""
    made = {
        name: TopicInfo(name, name.encode() * 16, tuple(PartitionInfo(n, 1, 3, (1, 2), (1,)) for n in range(count)))
        for name, count in topics.items()
    }
    return ClusterView("cluster", 1, {1: BrokerInfo(1, "one", 9092)}, made)


def test_partitions_are_described() -> None:
    """Replicas whose broker is away are offline."""
    found = page(view(a=1), [], 2000, None)

    (topic,) = found.topics
    (partition,) = topic.partitions
    assert (topic.error_code, topic.name, topic.is_internal, found.next_cursor) == (0, "a", False, None)
    assert (partition.leader_id, partition.leader_epoch, partition.offline_replicas) == (1, 3, (2,))


def test_leaderless_partition_says_so() -> None:
    """Its leader is not registered."""
    found = page(ClusterView("cluster", 1, {}, view(a=1).topics), [], 2000, None)

    assert found.topics[0].partitions[0].error_code == errors.LEADER_NOT_AVAILABLE
    assert found.topics[0].partitions[0].leader_id == -1


def test_unknown_topic_is_told() -> None:
    """The others are described."""
    body = DescribeTopicPartitionsRequest(topics=(TopicRequest("logs"), TopicRequest("none")))

    found = describe_topic_partitions.handle(FakeBroker(), request(body))

    assert [(one.name, one.error_code) for one in found.topics] == [("logs", 0), ("none", 3)]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_hold_everything_once(limit: int) -> None:
    """Topics in the order of their names, whatever the limit."""
    whole, seen, cursor = view(b=3, a=2, c=1), [], None
    while True:
        found = page(whole, [], limit, cursor)
        seen += [(topic.name, one.partition_index) for topic in found.topics for one in topic.partitions]
        if found.next_cursor is None:
            break
        cursor = RequestCursor(*found.next_cursor)

    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]


def test_cursor_at_a_topic_that_is_gone_goes_on_with_the_next() -> None:
    """It was deleted between two pages."""
    found = page(view(a=1, c=1), [], 100, RequestCursor("b", 1))

    assert [topic.name for topic in found.topics] == ["c"]
