"""ListPartitionReassignments: what is being moved at the moment, of all topics or of those named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.LIST_PARTITION_REASSIGNMENTS
VERSIONS = (0, 0)


def handle(broker: Broker, request: Request) -> ListPartitionReassignmentsResponse:
    """Answers at once; a partition that does not move, or does not exist, is left out."""
    body: ListPartitionReassignmentsRequest = request.body
    ongoing = broker.moves.ongoing()
    if body.topics is not None:
        ongoing = {
            one.name: {index: ongoing[one.name][index] for index in one.partition_indexes if index in ongoing[one.name]}
            for one in body.topics
            if one.name in ongoing
        }
    return ListPartitionReassignmentsResponse(
        error_code=errors.NONE,
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(
                name=name,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=one.all,
                        adding_replicas=one.adding,
                        removing_replicas=one.removing,
                    )
                    for index, one in partitions.items()
                ),
            )
            for name, partitions in ongoing.items()
            if partitions
        ),
    )
