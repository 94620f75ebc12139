"""DeleteGroups: groups without members go, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.handlers.settling import gathered, settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.DELETE_GROUPS
VERSIONS = (0, 2)


def handle(broker: Broker, request: Request) -> DeleteGroupsResponse | Deferred[DeleteGroupsResponse]:
    """Each group has a result of its own."""
    body: DeleteGroupsRequest = request.body

    def piece(group_id: str) -> Deferred[DeletableGroupResult]:
        return settled(
            broker.groups.removal.delete(group_id),
            lambda _: DeletableGroupResult(group_id=group_id, error_code=errors.NONE),
            lambda problem: DeletableGroupResult(group_id=group_id, error_code=problem.code),
        )

    pieces: list[DeletableGroupResult | Deferred[DeletableGroupResult]] = [
        piece(group_id) for group_id in dict.fromkeys(body.groups_names)
    ]
    return gathered(pieces, lambda results: DeleteGroupsResponse(results=tuple(results)))
