"""SyncGroup."""

from __future__ import annotations

from brokerd.groups.test.hosts import Host
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import join, member, sync
from kafka_wire import errors


def test_assignment_is_told_with_its_protocol() -> None:
    """KIP-559."""
    host = Host()
    leader = result_of(join(host, 3)).member_id

    answer = result_of(sync(host, leader, {leader: b"mine"}))

    assert (answer.error_code, answer.assignment) == (0, b"mine")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_what_is_wrong_is_said() -> None:
    """Stranger, old generation, wrong broker."""
    host = Host()
    leader = member(host)

    assert result_of(sync(host, "stranger")).error_code == errors.UNKNOWN_MEMBER_ID
    assert result_of(sync(host, leader, generation=7)).error_code == errors.ILLEGAL_GENERATION
    host.elect(leader=2, epoch=4)
    assert result_of(sync(host, leader)).error_code == errors.NOT_COORDINATOR
