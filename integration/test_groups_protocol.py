"""The group APIs by the wire: every version goes round, and wrong requests get the codes that Kafka gives.

With BARNABAS_TEST_BOOTSTRAP=host:port of an Apache Kafka the same tests pass there: that is where the codes come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from brokerd.groups.consumer_protocol import encode_assignment, encode_subscription
from integration.admin import create_topic
from integration.conftest import fresh_name
from integration.group_members import wait_for
from integration.processes import AnyBroker
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingPeer
from kafka_wire.schema.delete_groups import DeleteGroupsRequest
from kafka_wire.schema.describe_groups import DescribeGroupsRequest
from kafka_wire.schema.find_coordinator import FindCoordinatorRequest
from kafka_wire.schema.heartbeat import HeartbeatRequest
from kafka_wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.schema.list_groups import ListGroupsRequest
from kafka_wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

ASSIGNED = encode_assignment({"t": [0]})


class Wire:
    """One group by one connection; calls take the version, at most the newest that the broker has."""

    def __init__(self, peer: BlockingPeer, group: str, topic: str, version: int = 9) -> None:
        self.peer, self.group, self.topic, self.version = peer, group, topic, version

    def ask(self, api: Api, body: Any, least: int = 0) -> Any:
        """A request in the chosen version, where the API begins later in its first."""
        return self.peer.request(api, body, max_version=max(self.version, least))

    def join(self, member_id: str = "", **fields: Any) -> Any:
        """JoinGroup, once more with the id where one is given first."""
        protocols = (JoinGroupRequestProtocol("range", encode_subscription([self.topic])),)
        given: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": protocols,
            **fields,
        }
        answer = self.ask(Api.JOIN_GROUP, JoinGroupRequest(member_id=member_id, **given))
        if answer.error_code == errors.MEMBER_ID_REQUIRED:
            answer = self.ask(Api.JOIN_GROUP, JoinGroupRequest(member_id=answer.member_id, **given))
        return answer

    def sync(self, member_id: str, generation: int, *assigned: str, **fields: Any) -> Any:
        """SyncGroup; `assigned` get partition 0."""
        assignments = tuple(SyncGroupRequestAssignment(one, ASSIGNED) for one in assigned)
        body = SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": generation,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": assignments,
                **fields,
            }
        )
        return self.ask(Api.SYNC_GROUP, body)

    def member(self) -> tuple[str, int]:
        """Id and generation of the only member of a stable group."""
        joined = self.join()
        assert joined.error_code == errors.NONE
        assert self.sync(joined.member_id, joined.generation_id, joined.member_id).error_code == errors.NONE
        return joined.member_id, joined.generation_id

    def heartbeat(self, member_id: str, generation: int) -> int:
        """The code of a Heartbeat."""
        body = HeartbeatRequest(self.group, generation, member_id)
        return int(self.ask(Api.HEARTBEAT, body).error_code)

    def commit(self, member_id: str, generation: int, offset: int = 5, index: int = 0) -> int:
        """The code of an OffsetCommit."""
        topics = (OffsetCommitRequestTopic(self.topic, (OffsetCommitRequestPartition(index, offset, -1, "note"),)),)
        body = OffsetCommitRequest(self.group, generation, member_id, None, topics)
        return int(self.ask(Api.OFFSET_COMMIT, body, 2).topics[0].partitions[0].error_code)

    def fetch(self) -> tuple[int, str | None]:
        """Offset and text of partition 0."""
        topics = (OffsetFetchRequestTopics(self.topic, (0,)),)
        body = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(self.group, None, -1, topics),),
            group_id=self.group,
            topics=(OffsetFetchRequestTopic(self.topic, (0,)),),
        )
        answer = self.ask(Api.OFFSET_FETCH, body, 1)
        found = (answer.groups[0] if answer.groups else answer).topics[0].partitions[0]
        assert found.error_code == errors.NONE
        return found.committed_offset, found.metadata

    def leave(self, *member_ids: str) -> list[int]:
        """The codes of a LeaveGroup."""
        body = LeaveGroupRequest(self.group, tuple(map(MemberIdentity, member_ids)), member_ids[0])
        answer = self.ask(Api.LEAVE_GROUP, body)
        return [one.error_code for one in answer.members] or [answer.error_code]

    def describe(self) -> Any:
        """The group."""
        body = DescribeGroupsRequest((self.group,))
        return self.peer.request(Api.DESCRIBE_GROUPS, body, max_version=min(self.version, 5)).groups[0]

    def delete(self) -> int:
        """The code of a DeleteGroups."""
        return int(self.ask(Api.DELETE_GROUPS, DeleteGroupsRequest((self.group,))).results[0].error_code)

    def find(self) -> int:
        """The code of a FindCoordinator."""
        answer = self.ask(Api.FIND_COORDINATOR, FindCoordinatorRequest(0, (self.group,), self.group))
        return int(answer.coordinators[0].error_code if answer.coordinators else answer.error_code)


@pytest.fixture(scope="module")
def topic(broker: AnyBroker) -> str:
    """A topic with two partitions."""
    name = fresh_name("t")
    create_topic(broker.bootstrap, name, 2)
    return name


@pytest.fixture
def wire(broker: AnyBroker, topic: str) -> Iterator[Wire]:
    """A new group by a new connection, coordinated."""
    with ExitStack() as stack:
        peer = stack.enter_context(BlockingPeer(broker.host, broker.port, timeout=30))
        made = Wire(peer, fresh_name("g"), topic)
        wait_for("a coordinator", made.find, lambda code: code == errors.NONE)
        wait_for("groups are loaded", lambda: made.heartbeat("x", 0), lambda code: code == errors.UNKNOWN_MEMBER_ID)
        yield made


@pytest.mark.parametrize("version", range(10))
def test_every_version_goes_round(wire: Wire, version: int) -> None:
    """Find, join, sync, heartbeat, commit, fetch, describe, list, leave, delete."""
    wire.version = version
    assert wire.find() == errors.NONE
    member, generation = wire.member()
    assert (generation, wire.heartbeat(member, generation)) == (1, errors.NONE)
    assert wire.commit(member, generation) == errors.NONE
    assert wire.fetch() == (5, "note")
    described = wire.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert (described.members[0].member_id, described.members[0].member_assignment) == (member, ASSIGNED)
    listed = {one.group_id: one for one in wire.ask(Api.LIST_GROUPS, ListGroupsRequest()).groups}
    assert listed[wire.group].protocol_type == "consumer"
    assert listed[wire.group].group_state == ("Stable" if version >= 4 else "")
    assert wire.leave(member) == [errors.NONE]
    wait_for("it is empty", lambda: wire.describe().group_state, lambda state: state == "Empty")
    assert wire.delete() == errors.NONE


def test_member_with_a_wrong_identity_is_told_what_is_wrong(wire: Wire) -> None:
    """Stranger, other generation, other protocol, in every call."""
    member, generation = wire.member()

    assert wire.heartbeat("stranger", generation) == errors.UNKNOWN_MEMBER_ID
    assert wire.heartbeat(member, generation + 1) == errors.ILLEGAL_GENERATION
    assert wire.sync("stranger", generation).error_code == errors.UNKNOWN_MEMBER_ID
    assert wire.sync(member, generation - 1).error_code == errors.ILLEGAL_GENERATION
    assert wire.sync(member, generation, protocol_name="other").error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert wire.join("stranger").error_code == errors.UNKNOWN_MEMBER_ID
    assert wire.join(protocol_type="connect").error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert wire.join(protocols=()).error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert wire.leave("stranger") == [errors.UNKNOWN_MEMBER_ID]
    assert wire.commit("stranger", generation) == errors.UNKNOWN_MEMBER_ID
    assert wire.commit(member, generation + 1) == errors.ILLEGAL_GENERATION
    assert wire.commit("", -1) == errors.UNKNOWN_MEMBER_ID
    assert wire.heartbeat(member, generation) == errors.NONE
    assert wire.delete() == errors.NON_EMPTY_GROUP


def test_group_that_does_not_exist_is_told_so(wire: Wire) -> None:
    """Each call has its own way to say it."""
    assert wire.describe().group_state == "Dead"
    assert wire.fetch()[0] == -1
    assert wire.delete() == errors.GROUP_ID_NOT_FOUND
    assert wire.leave("x") == [errors.UNKNOWN_MEMBER_ID]
    assert wire.sync("x", 1).error_code == errors.UNKNOWN_MEMBER_ID
    gone = OffsetDeleteRequest(wire.group, (OffsetDeleteRequestTopic(wire.topic, (OffsetDeleteRequestPartition(0),)),))
    assert wire.ask(Api.OFFSET_DELETE, gone).error_code == errors.GROUP_ID_NOT_FOUND


def test_bad_requests_to_join_are_refused(wire: Wire) -> None:
    """Session timeouts out of bounds, and no name."""
    assert wire.join(session_timeout_ms=5).error_code == errors.INVALID_SESSION_TIMEOUT
    assert wire.join(session_timeout_ms=10**8).error_code == errors.INVALID_SESSION_TIMEOUT
    assert wire.join(group_id="").error_code == errors.INVALID_GROUP_ID
    assert wire.describe().group_state == "Dead"


def test_offsets_without_members(wire: Wire) -> None:
    """Committed, of a partition that does not exist, of one that has too much to say, removed."""
    assert wire.commit("", -1, 7) == errors.NONE
    assert wire.fetch() == (7, "note")
    assert wire.commit("", -1, 3) == errors.NONE
    assert wire.fetch()[0] == 3
    assert wire.describe().group_state == "Empty"
    gone = OffsetDeleteRequest(wire.group, (OffsetDeleteRequestTopic(wire.topic, (OffsetDeleteRequestPartition(0),)),))
    assert wire.ask(Api.OFFSET_DELETE, gone).error_code == errors.NONE
    assert wire.fetch()[0] == -1


def test_second_member_has_everybody_join_again(wire: Wire, broker: AnyBroker) -> None:
    """The first one learns it from its heartbeat; both are in the next generation, and one of them leads."""
    member, generation = wire.member()
    with BlockingPeer(broker.host, broker.port, timeout=30) as peer:
        other = Wire(peer, wire.group, wire.topic)
        protocols = (JoinGroupRequestProtocol("range", encode_subscription([wire.topic])),)
        asked = JoinGroupRequest(wire.group, 10_000, 10_000, "", None, "consumer", protocols)
        given = peer.request(Api.JOIN_GROUP, asked).member_id
        peer.send(Api.JOIN_GROUP, asked._replace(member_id=given))
        wait_for(
            "the rebalance", lambda: wire.heartbeat(member, generation), lambda c: c == errors.REBALANCE_IN_PROGRESS
        )
        assert wire.sync(member, generation).error_code == errors.REBALANCE_IN_PROGRESS
        assert wire.commit(member, generation) == errors.NONE, "what was done in the old generation may be committed"
        first, second = wire.join(member), peer.receive().body
        assert first.generation_id == second.generation_id == generation + 1
        assert first.leader == second.leader == member
        assert {one.member_id for one in first.members} == {member, given}
        assert not second.members
        assert wire.commit(member, generation + 1) == errors.REBALANCE_IN_PROGRESS, "not before it has its assignment"
        assert wire.sync(member, generation + 1, member, given).assignment == ASSIGNED
        assert other.sync(given, generation + 1).assignment == ASSIGNED
        assert other.leave(given, member) == [errors.NONE, errors.NONE]


def test_static_member_comes_back_and_fences_its_former_self(wire: Wire) -> None:
    """Same generation, same assignment, another id."""
    joined = wire.join(group_instance_id="one")
    member, generation = joined.member_id, joined.generation_id
    assert wire.sync(member, generation, member, group_instance_id="one").assignment == ASSIGNED

    back = wire.join(group_instance_id="one")

    assert (back.error_code, back.generation_id, back.skip_assignment) == (errors.NONE, generation, True)
    assert back.member_id != member
    assert wire.sync(back.member_id, generation, group_instance_id="one").assignment == ASSIGNED
    former = HeartbeatRequest(wire.group, generation, member, "one")
    assert wire.ask(Api.HEARTBEAT, former).error_code == errors.FENCED_INSTANCE_ID
    assert wire.join(member, group_instance_id="one").error_code == errors.FENCED_INSTANCE_ID
    gone = LeaveGroupRequest(wire.group, (MemberIdentity("", "one"), MemberIdentity("", "two")))
    assert [one.error_code for one in wire.ask(Api.LEAVE_GROUP, gone).members] == [0, errors.UNKNOWN_MEMBER_ID]
