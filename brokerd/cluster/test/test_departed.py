"""When a replica that has moved away may be deleted."""

from __future__ import annotations

from brokerd.cluster.departed import KEPT_SECONDS, Departures
from kafka_wire.ids import TopicPartition
from zk_schema.nodes import TopicAssignment

ID = b"\1" * 16
REPLICA = (TopicPartition("logs", 0), ID)
ELSEWHERE = TopicAssignment("logs", ID, {0: (2, 3)})
HERE = TopicAssignment("logs", ID, {0: (1, 3)})


def test_A27_replica_is_deleted_when_it_was_elsewhere_for_a_minute() -> None:
    """Read twice; in between it is not read at all."""
    rule = Departures(1)

    assert rule.due([REPLICA], 0.0) == [REPLICA]
    assert not rule.read(REPLICA, ELSEWHERE, 0.0)
    assert rule.due([REPLICA], KEPT_SECONDS - 1) == []
    assert rule.due([REPLICA], KEPT_SECONDS) == [REPLICA]
    assert rule.read(REPLICA, ELSEWHERE, KEPT_SECONDS)


def test_A27_assignment_that_came_back_begins_the_wait_anew() -> None:
    """Whether it was read or only heard of."""
    rule = Departures(1)
    rule.read(REPLICA, ELSEWHERE, 0.0)
    assert not rule.read(REPLICA, HERE, KEPT_SECONDS)
    assert not rule.read(REPLICA, ELSEWHERE, KEPT_SECONDS + 1)

    assert rule.due([], KEPT_SECONDS + 2) == []
    assert not rule.read(REPLICA, ELSEWHERE, 3 * KEPT_SECONDS)


def test_A29_topic_that_is_gone_or_another_one_deletes_nothing() -> None:
    """Wiped ZooKeeper; the same name under another id; fewer partitions than there were."""
    rule = Departures(1)
    for assignment in (None, TopicAssignment("logs", b"\2" * 16, {0: (2,)}), TopicAssignment("logs", ID, {1: (2,)})):
        rule.read(REPLICA, ELSEWHERE, 0.0)
        assert not rule.read(REPLICA, assignment, 2 * KEPT_SECONDS)
