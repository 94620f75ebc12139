"""Heartbeat."""

from __future__ import annotations

from typing import Any

from brokerd.groups.test.hosts import Host
from brokerd.handlers import heartbeat
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, join, member
from kafka_wire import errors
from kafka_wire.schema.heartbeat import HeartbeatRequest


def _beat(host: Host, **fields: Any) -> int:
    body = HeartbeatRequest(**{"group_id": "g", "generation_id": 1, **fields})
    return int(result_of(heartbeat.handle(host, asked(body, 4))).error_code)


def test_member_learns_how_it_stands() -> None:
    """Good, to join again, unknown, of another generation, elsewhere."""
    host = Host()
    known = member(host)
    assert _beat(host, member_id=known) == errors.NONE
    assert _beat(host, member_id=known, generation_id=0) == errors.ILLEGAL_GENERATION
    assert _beat(host, member_id="stranger") == errors.UNKNOWN_MEMBER_ID
    assert _beat(host, member_id=known, group_instance_id="x") == errors.UNKNOWN_MEMBER_ID
    join(host, 3)
    assert _beat(host, member_id=known) == errors.REBALANCE_IN_PROGRESS
    host.elect(leader=2, epoch=4)
    assert _beat(host, member_id=known) == errors.NOT_COORDINATOR
