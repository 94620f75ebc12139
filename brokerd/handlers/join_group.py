"""JoinGroup: a member comes into the next generation of its group; the answer waits until the generation is fixed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.values import Join, Joined
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.JOIN_GROUP
VERSIONS = (0, 9)

_MEMBER_ID_REQUIRED_FROM = 4
_SKIP_FROM = 9


def handle(broker: Broker, request: Request) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
    """Waits for the other members, unless there is something wrong with this one."""
    body: JoinGroupRequest = request.body
    config = broker.config
    if not config.group_min_session_timeout_ms <= body.session_timeout_ms <= config.group_max_session_timeout_ms:
        return _refused(body.member_id, errors.INVALID_SESSION_TIMEOUT)
    if body.group_instance_id == "":
        return _refused(body.member_id, errors.INVALID_REQUEST)

    def make(token: int) -> Join:
        return _event(request, body, token)

    return settled(
        broker.groups.coordinator.join(body.group_id, make),
        _answer,
        lambda problem: _refused(body.member_id, problem.code),
    )


def _event(request: Request, body: JoinGroupRequest, token: int) -> Join:
    version, client_id = request.header.api_version, request.header.client_id or ""
    rebalance_ms = body.rebalance_timeout_ms if body.rebalance_timeout_ms > 0 else body.session_timeout_ms
    return Join(
        token=token,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=client_id,
        client_host=f"/{request.connection.host}",
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=body.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in body.protocols),
        fresh_id=f"{body.group_instance_id or client_id}-{uuid.uuid4()}",
        needs_id=version >= _MEMBER_ID_REQUIRED_FROM,
        takes_skip=version >= _SKIP_FROM,
    )


def _answer(joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=joined.code,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(JoinGroupResponseMember(*member) for member in joined.members),
    )


def _refused(member_id: str, code: int) -> JoinGroupResponse:
    return _answer(Joined(code, member_id))
