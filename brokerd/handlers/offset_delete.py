"""OffsetDelete: committed offsets of a group go, unless one of its members is subscribed to their topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import spawn
from brokerd.groups.consumer_protocol import CONSUMER, subscribed_topics
from brokerd.groups.values import State
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.groups.catalogue import Description

API = Api.OFFSET_DELETE
VERSIONS = (0, 0)


def handle(broker: Broker, request: Request) -> Deferred[OffsetDeleteResponse]:
    """First how the group stands, then the offsets that nobody uses."""
    return settled(spawn(_delete(broker, request.body)), lambda answer: answer, _failed)


async def _delete(broker: Broker, body: OffsetDeleteRequest) -> OffsetDeleteResponse:
    group = await broker.groups.catalogue.describe(body.group_id)
    if group.state == State.DEAD.value:
        raise errors.GroupIdNotFound
    if group.members and group.protocol_type != CONSUMER:
        raise errors.NonEmptyGroup
    used = _used(group)
    if used is None:
        raise errors.RebalanceInProgress
    gone = {
        topic.name: [one.partition_index for one in topic.partitions] for topic in body.topics if topic.name not in used
    }
    await broker.groups.committed.remove(body.group_id, gone)
    return _answer(body, used)


def _used(group: Description) -> frozenset[str] | None:
    """The topics that members are subscribed to; None while nobody can say (the group rebalances)."""
    if not group.members:
        return frozenset()
    if group.state != State.STABLE.value:
        return None
    return frozenset(name for member in group.members for name in subscribed_topics(member.metadata) or ())


def _answer(body: OffsetDeleteRequest, used: frozenset[str]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=errors.NONE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in used else errors.NONE,
                    )
                    for one in topic.partitions
                ),
            )
            for topic in body.topics
        ),
    )


def _failed(problem: errors.KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=problem.code)
