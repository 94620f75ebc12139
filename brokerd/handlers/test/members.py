"""Members of a group that come by the handlers, for their tests."""

from __future__ import annotations

from typing import Any

from brokerd.groups.consumer_protocol import encode_assignment, encode_subscription
from brokerd.groups.test.hosts import Host
from brokerd.handlers import join_group, sync_group
from brokerd.handlers.test.fakes import request, result_of
from brokerd.handlers.types import Request
from kafka_wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


class Client:
    """A connection."""

    host = "10.0.0.7"
    listener = "PLAINTEXT"


def asked(body: Any, version: int) -> Request:
    """A request by a connection."""
    made = request(body, version)
    made.connection = Client()
    return made


def join(host: Host, version: int = 9, **fields: Any) -> Any:
    """A JoinGroup; the response or its Deferred."""
    given = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol("range", encode_subscription(["logs"])),),
        **fields,
    }
    return join_group.handle(host, asked(JoinGroupRequest(**given), version))


def sync(host: Host, member_id: str, given: dict[str, bytes] | None = None, generation: int = 1) -> Any:
    """A SyncGroup; the response or its Deferred."""
    assignments = tuple(SyncGroupRequestAssignment(key, value) for key, value in (given or {}).items())
    body = SyncGroupRequest(
        group_id="g", generation_id=generation, member_id=member_id, assignments=assignments, protocol_type="consumer"
    )
    return sync_group.handle(host, asked(body, 5))


def member(host: Host) -> str:
    """The id of the only member of group g, which has both partitions of `logs`."""
    joined = result_of(join(host, 3))
    assert joined.error_code == 0
    given = {joined.member_id: encode_assignment({"logs": [0, 1]})}
    assert result_of(sync(host, joined.member_id, given)).error_code == 0
    return str(joined.member_id)
