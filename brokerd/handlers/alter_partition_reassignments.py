"""AlterPartitionReassignments: begins to move partitions to other brokers, or cancels that (`replicas` null).

Answered when it is under way, not when it is finished; ListPartitionReassignments tells of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd import topic_rules
from brokerd.handlers.settling import gathered, settled, within
from brokerd.handlers.types import Request
from brokerd.moves import Results
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.ALTER_PARTITION_REASSIGNMENTS
VERSIONS = (0, 1)

_Answer = AlterPartitionReassignmentsResponse


def handle(broker: Broker, request: Request) -> _Answer | Deferred[_Answer]:
    """Each topic is one piece of work."""
    body: AlterPartitionReassignmentsRequest = request.body
    twice = topic_rules.repeated(topic.name for topic in body.topics)
    pieces = [
        _all(topic, errors.InvalidRequest("The topic or a partition of it is in the request more than once."))
        if topic.name in twice or topic_rules.repeated(one.partition_index for one in topic.partitions)
        else _alter(broker, topic, body)
        for topic in body.topics
    ]
    return gathered(
        pieces,
        lambda results: _Answer(
            allow_replication_factor_change=body.allow_replication_factor_change,
            error_code=errors.NONE,
            error_message=None,
            responses=tuple(results),
        ),
    )


def _alter(
    broker: Broker, topic: ReassignableTopic, body: AlterPartitionReassignmentsRequest
) -> Deferred[ReassignableTopicResponse]:
    targets = {one.partition_index: None if one.replicas is None else tuple(one.replicas) for one in topic.partitions}
    work = broker.moves.reassign(topic.name, targets, same_number=not body.allow_replication_factor_change)
    return settled(
        within(broker.reactor, body.timeout_ms, work),
        lambda results: _results(topic, results),
        lambda problem: _all(topic, problem),
    )


def _all(topic: ReassignableTopic, problem: errors.KafkaError) -> ReassignableTopicResponse:
    return _results(topic, dict.fromkeys((one.partition_index for one in topic.partitions), problem))


def _results(topic: ReassignableTopic, results: Results) -> ReassignableTopicResponse:
    found = []
    for index, problem in results.items():
        code, message = (errors.NONE, None) if problem is None else (problem.code, problem.message)
        found.append(ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=message))
    return ReassignableTopicResponse(name=topic.name, partitions=tuple(found))
