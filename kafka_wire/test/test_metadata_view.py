"""The view of a cluster: look-ups, their errors, and merging of answers."""

import pytest

from kafka_wire import errors
from kafka_wire.errors import (
    BrokerNotAvailable,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import MetadataView
from kafka_wire.schema.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = bytes(range(16))


def topic(
    name: str, leaders: list[int], *, epoch: int = 4, topic_id: bytes = ID, error: int = 0
) -> MetadataResponseTopic:
    partitions = tuple(
        MetadataResponsePartition(
            partition_index=i, leader_id=leader, leader_epoch=epoch, replica_nodes=(1, 2), isr_nodes=(1,)
        )
        for i, leader in enumerate(leaders)
    )
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=partitions)


def view(*topics: MetadataResponseTopic, complete: bool = False) -> MetadataView:
    broker = MetadataResponseBroker(node_id=1, host="one", port=9092, rack="r")
    answer = MetadataResponse(brokers=(broker,), cluster_id="c", controller_id=1, topics=topics)
    return MetadataView.of(answer, complete=complete)


def test_answer_is_looked_up_by_name_and_id() -> None:
    """Leaders, partitions, addresses and topic ids are found."""
    seen = view(topic("t", [1, 2]))
    assert seen.leader(TopicPartition("t", 1)) == 2
    assert seen.partitions("t") == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert seen.partition(TopicPartition("t", 0)).replicas == (1, 2)
    assert seen.address(1).host == "one"
    assert (seen.topic_name(ID), seen.topic("t").topic_id) == ("t", ID)
    assert (seen.cluster_id, seen.controller_id) == ("c", 1)


def test_what_is_missing_raises_the_brokers_error() -> None:
    """Unknown topics, partitions, ids and brokers, and partitions without a leader, have the errors of the protocol."""
    seen = view(topic("t", [-1]), topic("secret", [], error=errors.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(UnknownTopicOrPartition):
        seen.leader(TopicPartition("other", 0))
    with pytest.raises(UnknownTopicOrPartition):
        seen.leader(TopicPartition("t", 1))
    with pytest.raises(LeaderNotAvailable):
        seen.leader(TopicPartition("t", 0))
    with pytest.raises(TopicAuthorizationFailed):
        seen.partitions("secret")
    with pytest.raises(UnknownTopicId):
        seen.topic_name(bytes(16))
    with pytest.raises(BrokerNotAvailable):
        seen.address(7)


def test_answer_about_some_topics_keeps_the_others() -> None:
    """Topics that were not asked for stay; a complete answer forgets those that are gone."""
    both = view(topic("a", [1])).merged(view(topic("b", [2], topic_id=b"b" * 16)))
    assert set(both.topics) == {"a", "b"}
    assert set(both.merged(view(topic("b", [2]), complete=True)).topics) == {"b"}


def test_older_leader_epoch_does_not_replace_a_newer() -> None:
    """A broker that is behind cannot send clients back to the old leader (KIP-320)."""
    known = view(topic("t", [2], epoch=5))
    assert known.merged(view(topic("t", [1], epoch=4))).leader(TopicPartition("t", 0)) == 2
    assert known.merged(view(topic("t", [3], epoch=6))).leader(TopicPartition("t", 0)) == 3
    assert known.merged(view(topic("t", [3], epoch=-1))).leader(TopicPartition("t", 0)) == 3


def test_recreated_topic_replaces_the_old_one() -> None:
    """Another topic id means another topic, whatever its epochs."""
    known = view(topic("t", [2], epoch=5))
    assert known.merged(view(topic("t", [1], epoch=0, topic_id=b"n" * 16))).leader(TopicPartition("t", 0)) == 1
