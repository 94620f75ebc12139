"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments: what they ask for and how they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from brokerd.cluster.reassignment import Replicas
from brokerd.handlers import alter_partition_reassignments, elect_leaders, list_partition_reassignments
from brokerd.handlers.test.fakes import FakeBroker, request
from kafka_wire import errors
from kafka_wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


class FakeMoves:
    """Refuses partition 1; remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.late = False

    def reassign(
        self, name: str, targets: Mapping[int, Sequence[int] | None], *, same_number: bool = False
    ) -> Deferred[Any]:
        """As the real one."""
        self.asked.append((name, dict(targets), same_number))
        problem = errors.NoReassignmentInProgress("none")
        return Deferred() if self.late else succeed({index: problem if index == 1 else None for index in targets})

    def elect(self, asked: Iterable[tuple[str, int]] | None, *, unclean: bool) -> Deferred[Any]:
        """As the real one."""
        self.asked.append((asked, unclean))
        problem = errors.ElectionNotNeeded("no")
        return succeed({place: problem if place[1] == 1 else None for place in asked or [("logs", 0)]})

    def ongoing(self) -> dict[str, dict[int, Replicas]]:
        """As the real one."""
        return {"logs": {0: Replicas((2, 1), (2,), (1,)), 3: Replicas((1, 2), (), (2,))}}


@pytest.fixture
def broker() -> FakeBroker:
    """With fake moves."""
    made = FakeBroker()
    made.moves = FakeMoves()  # type: ignore[assignment]
    return made


def answer(module: Any, broker: FakeBroker, body: Any) -> Any:
    """What the handler answers, now or later."""
    found = module.handle(broker, request(body))
    if not isinstance(found, Deferred):
        return found
    results: list[Any] = []
    found.addCallback(results.append)
    if not results:
        broker.reactor.advance(60)
    return results[0]


def test_reassignments_are_answered_partition_by_partition(broker: FakeBroker) -> None:
    """Null replicas are a cancel."""
    partitions = (ReassignablePartition(0, (2, 1)), ReassignablePartition(1, None))
    body = AlterPartitionReassignmentsRequest(
        1000, allow_replication_factor_change=False, topics=(ReassignableTopic("logs", partitions),)
    )

    found = answer(alter_partition_reassignments, broker, body)

    assert broker.moves.asked == [("logs", {0: (2, 1), 1: None}, True)]  # type: ignore[attr-defined]
    assert found.error_code == 0
    (topic,) = found.responses
    assert [tuple(one) for one in topic.partitions] == [(0, 0, None), (1, errors.NO_REASSIGNMENT_IN_PROGRESS, "none")]


def test_partition_that_is_named_twice_is_refused(broker: FakeBroker) -> None:
    """Which of the two was meant is not for us to guess."""
    twice = (ReassignablePartition(0, (2,)), ReassignablePartition(0, (1,)))
    body = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic("logs", twice),))

    (topic,) = answer(alter_partition_reassignments, broker, body).responses

    assert [one.error_code for one in topic.partitions] == [errors.INVALID_REQUEST]


def test_late_reassignment_is_told_so(broker: FakeBroker) -> None:
    """The work itself goes on."""
    broker.moves.late = True  # type: ignore[attr-defined]
    body = AlterPartitionReassignmentsRequest(
        1000, topics=(ReassignableTopic("logs", (ReassignablePartition(0, (2,)),)),)
    )

    (topic,) = answer(alter_partition_reassignments, broker, body).responses

    assert topic.partitions[0].error_code == errors.REQUEST_TIMED_OUT


def test_all_reassignments_are_listed(broker: FakeBroker) -> None:
    """With what is added and removed."""
    (topic,) = answer(list_partition_reassignments, broker, ListPartitionReassignmentsRequest(topics=None)).topics

    assert topic.name == "logs"
    assert [tuple(one) for one in topic.partitions] == [(0, (2, 1), (2,), (1,)), (3, (1, 2), (), (2,))]


def test_named_reassignments_are_listed(broker: FakeBroker) -> None:
    """What does not move, or does not exist, is left out."""
    wanted = (ListPartitionReassignmentsTopics("logs", (3, 4)), ListPartitionReassignmentsTopics("none", (0,)))

    (topic,) = answer(list_partition_reassignments, broker, ListPartitionReassignmentsRequest(topics=wanted)).topics

    assert [one.partition_index for one in topic.partitions] == [3]


def test_elections_are_answered_partition_by_partition(broker: FakeBroker) -> None:
    """Preferred and unclean."""
    found = answer(elect_leaders, broker, ElectLeadersRequest(1, (TopicPartitions("logs", (0, 1)),)))

    assert broker.moves.asked == [([("logs", 0), ("logs", 1)], True)]  # type: ignore[attr-defined]
    (topic,) = found.replica_election_results
    assert [tuple(one) for one in topic.partition_result] == [(0, 0, None), (1, errors.ELECTION_NOT_NEEDED, "no")]


def test_all_leaders_are_elected_without_a_list(broker: FakeBroker) -> None:
    """Null means all partitions."""
    found = answer(elect_leaders, broker, ElectLeadersRequest(0, None))

    assert broker.moves.asked == [(None, False)]  # type: ignore[attr-defined]
    assert [one.topic for one in found.replica_election_results] == ["logs"]


def test_unknown_election_is_refused(broker: FakeBroker) -> None:
    """There are two types."""
    found = answer(elect_leaders, broker, ElectLeadersRequest(5, (TopicPartitions("logs", (0,)),)))

    assert found.error_code == errors.INVALID_REQUEST
    assert found.replica_election_results[0].partition_result[0].error_code == errors.INVALID_REQUEST
