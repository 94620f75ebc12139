"""DescribeGroups: members, their subscriptions and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.catalogue import DEAD, Description
from brokerd.handlers.settling import gathered, settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.DESCRIBE_GROUPS
VERSIONS = (0, 6)

_NOT_FOUND_FROM = 6
_NO_OPERATIONS = -(2**31)
_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8  # read, delete, describe


def handle(broker: Broker, request: Request) -> DescribeGroupsResponse | Deferred[DescribeGroupsResponse]:
    """Each group has a result of its own. One that does not exist is Dead, and since version 6 an error too."""
    body: DescribeGroupsRequest = request.body
    operations = _ALL_OPERATIONS if body.include_authorized_operations else _NO_OPERATIONS
    strict = request.header.api_version >= _NOT_FOUND_FROM

    def piece(group_id: str) -> Deferred[DescribedGroup]:
        return settled(
            broker.groups.catalogue.describe(group_id),
            lambda found: _described(group_id, found, operations, strict),
            lambda problem: DescribedGroup(
                error_code=problem.code, error_message=problem.message, group_id=group_id, members=()
            ),
        )

    pieces: list[DescribedGroup | Deferred[DescribedGroup]] = [
        piece(group_id) for group_id in dict.fromkeys(body.groups)
    ]
    return gathered(pieces, lambda groups: DescribeGroupsResponse(groups=tuple(groups)))


def _described(group_id: str, found: Description, operations: int, strict: bool) -> DescribedGroup:
    missing = strict and found == DEAD
    return DescribedGroup(
        error_code=errors.GROUP_ID_NOT_FOUND if missing else errors.NONE,
        error_message=f"Group {group_id} not found." if missing else None,
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in found.members
        ),
        authorized_operations=operations,
    )
