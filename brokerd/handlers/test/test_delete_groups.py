"""DeleteGroups."""

from __future__ import annotations

from brokerd.groups.test.hosts import Host
from brokerd.handlers import delete_groups
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, member
from kafka_wire import errors
from kafka_wire.schema.delete_groups import DeleteGroupsRequest


def test_groups_without_members_go() -> None:
    """Each has a result of its own."""
    host = Host()
    member(host)
    host.zookeeper.put("/consumers/old/offsets/logs/0", b"1")
    body = DeleteGroupsRequest(groups_names=("g", "old", "none", ""))

    answer = result_of(delete_groups.handle(host, asked(body, 2)))

    codes = {one.group_id: one.error_code for one in answer.results}
    assert codes == {
        "g": errors.NON_EMPTY_GROUP,
        "old": errors.NONE,
        "none": errors.GROUP_ID_NOT_FOUND,
        "": errors.INVALID_GROUP_ID,
    }
    assert "/consumers/old" not in host.zookeeper.nodes
