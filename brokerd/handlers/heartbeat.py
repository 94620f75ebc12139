"""Heartbeat: the member lives, and learns whether it has to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.values import Heartbeat
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire.apis import Api
from kafka_wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.HEARTBEAT
VERSIONS = (0, 4)


def handle(broker: Broker, request: Request) -> Deferred[HeartbeatResponse]:
    """Answers at once."""
    body: HeartbeatRequest = request.body

    def make(token: int) -> Heartbeat:
        return Heartbeat(token, body.member_id, body.generation_id, body.group_instance_id)

    return settled(
        broker.groups.coordinator.submit(body.group_id, make),
        lambda told: HeartbeatResponse(error_code=told.code),
        lambda problem: HeartbeatResponse(error_code=problem.code),
    )
