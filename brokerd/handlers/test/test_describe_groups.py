"""DescribeGroups."""

from __future__ import annotations

from typing import Any

from brokerd.groups.consumer_protocol import encode_assignment, encode_subscription
from brokerd.groups.test.hosts import Host
from brokerd.handlers import describe_groups
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, join, member
from kafka_wire import errors
from kafka_wire.schema.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest


def _describe(host: Host, *groups: str, version: int = 6, operations: bool = False) -> Any:
    body = DescribeGroupsRequest(groups=groups, include_authorized_operations=operations)
    return result_of(describe_groups.handle(host, asked(body, version))).groups


def test_stable_group_is_described_with_its_members() -> None:
    """Subscription and assignment as the members said them."""
    host = Host()
    known = member(host)

    assert _describe(host, "g") == (
        DescribedGroup(
            error_code=0,
            error_message=None,
            group_id="g",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=(
                DescribedGroupMember(
                    member_id=known,
                    group_instance_id=None,
                    client_id="test",
                    client_host="/10.0.0.7",
                    member_metadata=encode_subscription(["logs"]),
                    member_assignment=encode_assignment({"logs": [0, 1]}),
                ),
            ),
            authorized_operations=-(2**31),
        ),
    )


def test_group_in_a_rebalance_shows_its_members_without_assignments() -> None:
    """They are about to change."""
    host = Host()
    member(host)
    join(host, 3)

    (group,) = _describe(host, "g")
    assert (group.group_state, len(group.members)) == ("PreparingRebalance", 2)
    assert all(not one.member_assignment for one in group.members)


def test_missing_group_is_dead_and_since_version_6_an_error() -> None:
    """KIP-1043."""
    old, new = _describe(Host(), "x", version=5)[0], _describe(Host(), "x", version=6)[0]

    assert (old.group_state, old.error_code) == ("Dead", errors.NONE)
    assert (new.group_state, new.error_code) == ("Dead", errors.GROUP_ID_NOT_FOUND)


def test_operations_are_told_to_those_who_ask() -> None:
    """Read, delete, describe; there are no access rules yet."""
    assert _describe(Host(), "x", operations=True)[0].authorized_operations == 0b1_0100_1000


def test_group_of_another_broker_is_sent_there() -> None:
    """16."""
    host = Host()
    host.elect(leader=2, epoch=4)

    assert _describe(host, "g")[0].error_code == errors.NOT_COORDINATOR
