"""ElectLeaders: preferred leaders back to their places, or an unclean election where nobody can lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.handlers.settling import settled, within
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.errors import KafkaError
from kafka_wire.schema.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.ELECT_LEADERS
VERSIONS = (0, 2)

_PREFERRED, _UNCLEAN = 0, 1
_Place = tuple[str, int]


def handle(broker: Broker, request: Request) -> ElectLeadersResponse | Deferred[ElectLeadersResponse]:
    """Answers when the elections are in ZooKeeper and known here."""
    body: ElectLeadersRequest = request.body
    asked: list[_Place] | None = None
    if body.topic_partitions is not None:
        asked = [(one.topic, index) for one in body.topic_partitions for index in one.partitions]
    if body.election_type not in (_PREFERRED, _UNCLEAN):
        problem = errors.InvalidRequest(f"There is no election type {body.election_type}.")
        return _response(dict.fromkeys(asked or (), problem), problem)
    work = broker.moves.elect(asked, unclean=body.election_type == _UNCLEAN)

    def late(problem: KafkaError) -> ElectLeadersResponse:
        return _response(dict.fromkeys(asked or (), problem), problem)

    return settled(within(broker.reactor, body.timeout_ms, work), _response, late)


def _response(results: Mapping[_Place, KafkaError | None], problem: KafkaError | None = None) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for (name, index), one in results.items():
        code, message = (errors.NONE, None) if one is None else (one.code, one.message)
        topics.setdefault(name, []).append(PartitionResult(partition_id=index, error_code=code, error_message=message))
    return ElectLeadersResponse(
        error_code=errors.NONE if problem is None else problem.code,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=name, partition_result=tuple(found)) for name, found in topics.items()
        ),
    )
