"""LeaveGroup."""

from __future__ import annotations

from brokerd.groups.test.hosts import Host
from brokerd.handlers import leave_group
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, join, member
from kafka_wire import errors
from kafka_wire.schema.leave_group import LeaveGroupRequest, MemberIdentity


def test_one_member_leaves_in_old_versions() -> None:
    """Its code is that of the answer."""
    host = Host()
    known = member(host)
    for code in (errors.NONE, errors.UNKNOWN_MEMBER_ID):
        answer = leave_group.handle(host, asked(LeaveGroupRequest(group_id="g", member_id=known), 2))
        assert result_of(answer).error_code == code


def test_several_leave_with_a_code_each() -> None:
    """By member id, by instance id, and one that was never there."""
    host = Host()
    known = member(host)
    join(host, group_instance_id="static")
    leaving = (MemberIdentity(known), MemberIdentity("", "static"), MemberIdentity("stranger"))

    answer = result_of(leave_group.handle(host, asked(LeaveGroupRequest(group_id="g", members=leaving), 5)))

    assert answer.error_code == errors.NONE
    assert [one.error_code for one in answer.members] == [0, 0, errors.UNKNOWN_MEMBER_ID]
    assert [one.group_instance_id for one in answer.members] == [None, "static", None]


def test_wrong_broker_says_so() -> None:
    """16."""
    host = Host()
    host.elect(leader=2, epoch=4)

    answer = leave_group.handle(host, asked(LeaveGroupRequest(group_id="g", member_id="x"), 2))
    assert result_of(answer).error_code == errors.NOT_COORDINATOR
