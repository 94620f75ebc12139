"""What `topics reassign`, `brokers` and `status` ask of brokers: replicas and leaders that move."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from barnabas.admin import TIMEOUT_MS, ask_controller
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import KafkaError
from kafka_wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_wire.schema.list_partition_reassignments import ListPartitionReassignmentsRequest

Place = tuple[str, int]
"""A topic's name and a partition's number."""

PREFERRED, UNCLEAN = 0, 1


@attrs.frozen
class Move:
    """A reassignment under way: all replicas that the partition has meanwhile, those to come, those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """What the partition will have."""
        return tuple(one for one in self.replicas if one not in self.removing)


def reassign(cluster: BlockingCluster, wanted: Mapping[Place, Sequence[int] | None]) -> None:
    """Begins to move partitions, or cancels (None). Raises the first refusal; what was not refused has begun."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (name, index), replicas in wanted.items():
        target = None if replicas is None else tuple(replicas)
        topics.setdefault(name, []).append(ReassignablePartition(index, target))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=tuple(ReassignableTopic(name, tuple(partitions)) for name, partitions in topics.items()),
    )

    def results(response: Any) -> Sequence[Any]:
        return [response]

    (answer,) = ask_controller(cluster, Api.ALTER_PARTITION_REASSIGNMENTS, request, results)
    for topic in answer.responses:
        for one in topic.partitions:
            _raise_if_failed(topic.name, one.partition_index, one)


def ongoing(cluster: BlockingCluster) -> dict[Place, Move]:
    """All reassignments under way."""
    request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)
    (answer,) = ask_controller(cluster, Api.LIST_PARTITION_REASSIGNMENTS, request, lambda response: [response])
    return {
        (topic.name, one.partition_index): Move(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in answer.topics
        for one in topic.partitions
    }


def elect(
    cluster: BlockingCluster, places: Iterable[Place] | None, *, unclean: bool = False
) -> dict[Place, KafkaError | None]:
    """Elects leaders of these partitions, or of all; for each None or why not. Of all those are left out that need
    no election.
    """
    asked: dict[str, list[int]] = {}
    for name, index in places or ():
        asked.setdefault(name, []).append(index)
    topics = tuple(TopicPartitions(name, tuple(indexes)) for name, indexes in asked.items())
    request = ElectLeadersRequest(UNCLEAN if unclean else PREFERRED, None if places is None else topics, TIMEOUT_MS)
    (answer,) = ask_controller(cluster, Api.ELECT_LEADERS, request, lambda response: [response])
    return {
        (topic.topic, one.partition_id): errors.for_code(one.error_code)(one.error_message) if one.error_code else None
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


def _raise_if_failed(name: str, index: int, result: Any) -> None:
    if result.error_code:
        error = errors.for_code(result.error_code)
        raise error(f"{name}-{index}: {result.error_message or error.name}")
