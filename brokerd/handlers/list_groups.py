"""ListGroups: the groups that this broker coordinates, of both kinds; a client asks every broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.catalogue import Summary
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.LIST_GROUPS
VERSIONS = (0, 5)

TYPE = "classic"
"""Kafka's name for groups of the JoinGroup protocol (KIP-848)."""


def handle(broker: Broker, request: Request) -> Deferred[ListGroupsResponse]:
    """States and types are filtered without regard to case, as Kafka does."""
    body: ListGroupsRequest = request.body
    states = {text.lower() for text in body.states_filter}
    types = {text.lower() for text in body.types_filter}

    def answer(found: list[Summary]) -> ListGroupsResponse:
        return ListGroupsResponse(
            error_code=errors.NONE,
            groups=tuple(
                ListedGroup(
                    group_id=one.group_id, protocol_type=one.protocol_type, group_state=one.state, group_type=TYPE
                )
                for one in found
                if (not states or one.state.lower() in states) and (not types or TYPE in types)
            ),
        )

    return settled(
        broker.groups.catalogue.summaries(),
        answer,
        lambda problem: ListGroupsResponse(error_code=problem.code, groups=()),
    )
