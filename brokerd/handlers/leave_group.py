"""LeaveGroup: one member, or several (a tool that removes static members), each with its own result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.values import Leave, Left
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.LEAVE_GROUP
VERSIONS = (0, 5)

_SEVERAL_FROM = 3


def handle(broker: Broker, request: Request) -> Deferred[LeaveGroupResponse]:
    """Answers at once; the others rebalance."""
    body: LeaveGroupRequest = request.body
    several = request.header.api_version >= _SEVERAL_FROM
    leaving: tuple[tuple[str, str | None], ...] = ((body.member_id, None),)
    if several:
        leaving = tuple((one.member_id, one.group_instance_id) for one in body.members)

    def answer(left: Left) -> LeaveGroupResponse:
        if not several:
            return LeaveGroupResponse(error_code=left.codes[0])
        members = zip(leaving, left.codes, strict=True)
        return LeaveGroupResponse(
            error_code=errors.NONE,
            members=tuple(
                MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code)
                for (member_id, instance_id), code in members
            ),
        )

    return settled(
        broker.groups.coordinator.submit(body.group_id, lambda token: Leave(token, leaving)),
        answer,
        lambda problem: LeaveGroupResponse(error_code=problem.code),
    )
