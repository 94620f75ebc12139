"""SyncGroup: the leader brings the assignment, everybody gets its own; nobody before it is written (K3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.values import Sync, Synced
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire.apis import Api
from kafka_wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.SYNC_GROUP
VERSIONS = (0, 5)


def handle(broker: Broker, request: Request) -> Deferred[SyncGroupResponse]:
    """Waits for the leader's assignment and its write."""
    body: SyncGroupRequest = request.body

    def make(token: int) -> Sync:
        return Sync(
            token=token,
            member_id=body.member_id,
            generation=body.generation_id,
            assignments={one.member_id: bytes(one.assignment) for one in body.assignments},
            instance_id=body.group_instance_id,
            protocol_type=body.protocol_type,
            protocol=body.protocol_name,
        )

    return settled(
        broker.groups.coordinator.submit(body.group_id, make),
        _answer,
        lambda problem: SyncGroupResponse(error_code=problem.code),
    )


def _answer(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.code,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
