"""The snapshot of the cluster."""

from brokerd.metadata import BrokerInfo, ClusterView, PartitionInfo, TopicInfo

LOGS = TopicInfo("logs", b"\1" * 16, (PartitionInfo(0, 1, 3, (1, 2), (1,)),))


def test_topic_added_and_removed_is_found_by_name_and_by_id() -> None:
    """Names and ids always tell of the same topics, and an older snapshot does not change."""
    empty = ClusterView("castle")

    one = empty.with_topic(LOGS)
    none = one.without_topic("logs")

    assert one.topics == {"logs": LOGS}
    assert one.names == {LOGS.topic_id: "logs"}
    assert not none.topics
    assert not none.names
    assert not empty.topics


def test_replica_on_an_unregistered_broker_is_offline() -> None:
    """Clients are told which replicas are away."""
    alive = {1: BrokerInfo(1, "localhost", 9092)}

    assert LOGS.partitions[0].offline(alive) == (2,)
