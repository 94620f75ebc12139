"""Hosting groups: loading, losing, time, writes."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import spawn
from brokerd.groups.consumer_protocol import encode_assignment, encode_subscription
from brokerd.groups.offset_nodes import Committed
from brokerd.groups.test.hosts import Host, code_of, now
from brokerd.groups.values import Commit, Heartbeat, Join, Leave, State, Sync
from brokerd.handlers.test.fakes import topic_id
from kafka_wire import errors
from zk_schema.group_nodes import REGISTRY, GroupKind, StoredGroup


def join(host: Host, group: str = "g", member_id: str = "", **fields: Any) -> Deferred[Any]:
    """A join of the consumer protocol."""
    given: dict[str, Any] = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", encode_subscription(["logs"])),),
        "fresh_id": f"c-{id(fields)}",
        "needs_id": False,
        **fields,
    }
    return host.groups.coordinator.join(group, lambda token: Join(token=token, member_id=member_id, **given))


def sync(host: Host, member_id: str, generation: int, given: dict[str, bytes] | None = None) -> Deferred[Any]:
    """A sync."""
    return host.groups.coordinator.submit("g", lambda token: Sync(token, member_id, generation, given or {}))


def beat(host: Host, member_id: str, generation: int = 1) -> int:
    """The code of a heartbeat."""
    told = host.groups.coordinator.submit("g", lambda token: Heartbeat(token, member_id, generation))
    return int(now(told).code)


def stable(host: Host) -> str:
    """Group g with one member, which has all of `logs`; its id."""
    joined = now(join(host))
    now(sync(host, joined.member_id, 1, {joined.member_id: encode_assignment({"logs": [0, 1]})}))
    return str(joined.member_id)


def stored(host: Host) -> StoredGroup:
    """The truth."""
    return StoredGroup.decode("/consumers/g/group", host.zookeeper.data("/consumers/g/group"))


def test_K3_assignment_is_in_zookeeper_before_it_is_told() -> None:
    """With the time of the write."""
    host = Host()
    joined = now(join(host))
    host.zookeeper.holding = True
    waiting = sync(host, joined.member_id, 1, {joined.member_id: b"a"})
    assert not waiting.called
    host.zookeeper.release()
    assert "/consumers/g/group" in host.zookeeper.nodes

    assert now(waiting).assignment == b"a"
    assert (stored(host).generation, stored(host).time_ms) == (1, host.wall_ms)


def test_K4_successor_goes_on_without_a_rebalance() -> None:
    """The broker dies; another one, or the same after a restart, reads what it wrote."""
    host = Host()
    member = stable(host)
    heir = Host(zookeeper=host.zookeeper)
    heir.elect(epoch=4)

    assert beat(heir, member) == errors.NONE
    assert heir.groups.coordinator.hosted["g"].group.generation == 1
    heir.clock.advance(9)
    assert beat(heir, member) == errors.NONE
    heir.clock.advance(11)
    assert beat(heir, member) == errors.UNKNOWN_MEMBER_ID


def test_K4_while_groups_are_loaded_members_are_asked_to_wait() -> None:
    """14, not 16 and not an unknown member."""
    host = Host()
    member = stable(host)
    host.zookeeper.holding = True
    heir = Host(zookeeper=host.zookeeper)
    asked = heir.groups.coordinator.submit("g", lambda token: Heartbeat(token, member, 1))
    assert code_of(asked) == errors.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(heir.groups.catalogue.summaries()) == errors.COORDINATOR_LOAD_IN_PROGRESS
    for _ in range(10):
        host.zookeeper.release()
    host.zookeeper.holding = False

    assert beat(heir, member) == errors.NONE


def test_K4_loading_is_tried_until_it_succeeds() -> None:
    """ZooKeeper may be away just then."""
    host = Host()
    member = stable(host)
    host.zookeeper.connected = False
    heir = Host(zookeeper=host.zookeeper)
    heir.clock.advance(1)
    host.zookeeper.connected = True
    heir.clock.advance(1)

    assert beat(heir, member) == errors.NONE


def test_lost_slot_sends_everybody_away() -> None:
    """Those who wait too."""
    host = Host(group_initial_rebalance_delay_ms="3000")
    waiting = join(host)
    host.elect(leader=2, epoch=4)

    assert now(waiting).code == errors.NOT_COORDINATOR
    assert code_of(join(host)) == errors.NOT_COORDINATOR
    assert host.groups.coordinator.hosted == {}
    assert not host.clock.getDelayedCalls()


def test_K2_write_of_a_deposed_coordinator_sends_members_away() -> None:
    """It learns from its own write that it is not the coordinator any more."""
    host = Host(slots=1)
    joined = now(join(host))
    slot = host.groups.coordinator.slots.held[0]
    host.zookeeper.put(slot.fence.path, b'{"version":1,"leader":2,"leader_epoch":4,"isr":[2],"controller_epoch":1}')

    assert now(sync(host, joined.member_id, 1, {})).code == errors.NOT_COORDINATOR
    assert "/consumers/g/group" not in host.zookeeper.nodes
    assert code_of(join(host)) == errors.NOT_COORDINATOR


def test_silent_member_goes_after_its_session() -> None:
    """And the empty group is written, without copies."""
    host = Host()
    member = stable(host)
    assert host.zookeeper.below("/consumers/g/ids") == [member]
    for _ in range(5):
        host.clock.advance(9)
        assert beat(host, member) == errors.NONE
    host.clock.advance(5)
    host.clock.advance(5.1)

    assert host.groups.coordinator.hosted["g"].group.state is State.EMPTY
    assert stored(host).members == ()
    assert host.zookeeper.below("/consumers/g/ids") == host.zookeeper.below("/consumers/g/owners") == []


def test_K7_silence_without_a_lease_does_not_count() -> None:
    """Members could not reach a coordinator that answers 16 to everything."""
    host = Host()
    member = stable(host)
    host.zookeeper.lease = False
    for _ in range(60):
        host.clock.advance(1)
    host.zookeeper.lease = True

    assert beat(host, member) == errors.NONE


def test_zookeeper_that_stays_away_fails_the_sync() -> None:
    """15, after a while; then the members join again."""
    host = Host()
    joined = now(join(host))
    host.zookeeper.connected = False
    waiting = sync(host, joined.member_id, 1, {})
    for _ in range(120):
        host.clock.advance(0.1)

    assert now(waiting).code == errors.COORDINATOR_NOT_AVAILABLE
    host.zookeeper.connected = True
    assert beat(host, joined.member_id) == errors.REBALANCE_IN_PROGRESS


def test_B5_member_cannot_join_a_group_of_our_own_consumer() -> None:
    """While that has members."""
    host = Host()
    host.zookeeper.put("/consumers/g/plan", GroupKind("g", REGISTRY).encode())
    host.zookeeper.put("/consumers/g/ids/somebody", b"{}", ephemeral=True)

    assert code_of(join(host)) == errors.INCONSISTENT_GROUP_PROTOCOL
    assert host.groups.coordinator.hosted == {}

    host.zookeeper.drop("/consumers/g/ids/somebody")
    assert now(join(host)).code == errors.NONE


def test_group_that_is_only_asked_for_is_not_kept() -> None:
    """Otherwise every typo of a name would stay in memory."""
    host = Host()

    assert beat(host, "nobody") == errors.UNKNOWN_MEMBER_ID
    assert now(join(host, member_id="nobody")).code == errors.UNKNOWN_MEMBER_ID
    assert host.groups.coordinator.hosted == {}
    assert code_of(join(host, "")) == errors.INVALID_GROUP_ID


def test_A31_unreadable_group_is_refused_and_the_others_served() -> None:
    """It is neither guessed nor overwritten."""
    host = Host()
    stable(host)
    host.zookeeper.put("/consumers/bad/group", b"not what it was")
    heir = Host(zookeeper=host.zookeeper)

    assert code_of(join(heir, "bad")) == errors.COORDINATOR_NOT_AVAILABLE
    assert host.zookeeper.data("/consumers/bad/group") == b"not what it was"
    assert "g" in heir.groups.coordinator.hosted


def test_stop_sends_everybody_away_and_leaves_no_timer() -> None:
    """The members find the next coordinator."""
    host = Host(group_initial_rebalance_delay_ms="3000")
    host.groups.start()
    waiting = join(host)
    host.groups.stop()

    assert now(waiting).code == errors.NOT_COORDINATOR
    assert not host.clock.getDelayedCalls()
    assert code_of(join(host)) == errors.NOT_COORDINATOR


# ---- offsets


def commit(host: Host, member_id: str = "", generation: int = -1, group: str = "g", offset: int = 5) -> Deferred[None]:
    """A commit of partition 0."""
    entry = Committed("logs", topic_id(5), 0, offset)
    return host.groups.committed.commit(group, lambda token: Commit(token, member_id, generation), [entry])


def fetched(host: Host, group: str = "g") -> int:
    """What is committed for partition 0; -1 if nothing."""
    found = now(host.groups.committed.fetch(group, {"logs": [0]}))
    return found["logs"][0].offset if found["logs"] else -1


def test_K6_only_a_member_of_the_generation_may_commit() -> None:
    """A zombie may not."""
    host = Host()
    member = stable(host)
    now(commit(host, member, 1))
    assert fetched(host) == 5

    assert code_of(commit(host, member, 0, offset=1)) == errors.ILLEGAL_GENERATION
    assert code_of(commit(host, "zombie", 1, offset=1)) == errors.UNKNOWN_MEMBER_ID
    assert code_of(commit(host, offset=1)) == errors.UNKNOWN_MEMBER_ID
    assert fetched(host) == 5


def test_K6_one_without_a_group_may_commit_to_an_empty_one() -> None:
    """Spark, exporters and tools do; the group is listed then."""
    host = Host()
    now(commit(host))

    assert fetched(host) == 5
    assert [one.group_id for one in now(host.groups.catalogue.summaries())] == ["g"]
    assert stored(host).members == ()


def test_B5_tool_may_commit_for_a_group_of_our_own_consumer_only_without_members() -> None:
    """And does not change its kind."""
    host = Host()
    host.zookeeper.put("/consumers/g/plan", GroupKind("g", REGISTRY).encode())
    host.zookeeper.put("/consumers/g/ids/somebody", b"{}", ephemeral=True)
    assert code_of(commit(host)) == errors.UNKNOWN_MEMBER_ID

    host.zookeeper.drop("/consumers/g/ids/somebody")
    now(commit(host))
    assert fetched(host) == 5
    assert GroupKind.decode("g", host.zookeeper.data("/consumers/g/plan")).kind == REGISTRY
    assert "/consumers/g/group" not in host.zookeeper.nodes


def test_fetch_without_zookeeper_is_to_be_repeated() -> None:
    """14: the Java client takes 15 for final here."""
    host = Host()
    host.zookeeper.connected = False

    assert code_of(host.groups.committed.fetch("g", None)) == errors.COORDINATOR_LOAD_IN_PROGRESS


def test_offset_that_a_tool_moved_between_two_generations_is_committed_again() -> None:
    """It was 5, somebody set it back to 1 by hand, the member comes to 5 again: that is no repetition."""
    host = Host()
    member = stable(host)
    now(commit(host, member, 1))
    now(host.groups.coordinator.submit("g", lambda token: Leave(token, ((member, None),))))
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"1")
    joined = now(join(host))
    now(sync(host, joined.member_id, joined.generation, {}))

    now(commit(host, joined.member_id, joined.generation))

    assert fetched(host) == 5
    now(host.groups.coordinator.submit("g", lambda token: Leave(token, ((joined.member_id, None),))))
    now(commit(host))
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"1")
    now(commit(host))
    assert fetched(host) == 5


def test_id_that_nobody_uses_leaves_no_group_behind() -> None:
    """A client asked for an id and never came again."""
    host = Host()
    assert now(join(host, needs_id=True)).code == errors.MEMBER_ID_REQUIRED
    assert "g" in host.groups.coordinator.hosted
    host.clock.advance(10.1)

    assert host.groups.coordinator.hosted == {}
    assert not host.clock.getDelayedCalls()


# ---- tools


def test_groups_of_both_kinds_are_listed_and_described() -> None:
    """A group of our own consumer is told in the words of the consumer protocol."""
    host = Host()
    member = stable(host)
    host.zookeeper.put("/consumers/ours/plan", GroupKind("ours", REGISTRY).encode())
    host.zookeeper.put(
        "/consumers/ours/ids/c1", b'{"version":1,"subscription":{"logs":1},"pattern":"static"}', ephemeral=True
    )
    host.zookeeper.put("/consumers/ours/owners/logs/1", b"c1-0")
    host.zookeeper.put("/consumers/old/offsets/logs/0", b"1")

    listed = {one.group_id: (one.state, one.protocol_type) for one in now(host.groups.catalogue.summaries())}
    assert listed == {"g": ("Stable", "consumer"), "ours": ("Stable", "consumer"), "old": ("Empty", "consumer")}
    mine = now(host.groups.catalogue.describe("g"))
    assert (mine.state, mine.protocol, mine.members[0].member_id) == ("Stable", "range", member)
    ours = now(host.groups.catalogue.describe("ours"))
    assert ours.members[0].assignment == encode_assignment({"logs": [1]})
    assert ours.members[0].metadata == encode_subscription(["logs"])
    assert now(host.groups.catalogue.describe("nothing")).state == "Dead"


def test_empty_group_that_our_own_consumer_took_is_shown_as_its_own() -> None:
    """And neither expires nor is deleted."""
    host = Host(offsets_retention_minutes="60")
    now(commit(host))
    host.zookeeper.put("/consumers/g/plan", GroupKind("g", REGISTRY).encode())
    host.zookeeper.put("/consumers/g/ids/c1", b'{"version":1,"subscription":{"logs":1}}', ephemeral=True)

    assert [one.member_id for one in now(host.groups.catalogue.describe("g")).members] == ["c1"]
    assert [one.state for one in now(host.groups.catalogue.summaries())] == ["Stable"]
    now(spawn(host.groups.removal.expire(host.wall_ms + 10**9)))
    assert fetched(host) == 5
    assert code_of(host.groups.removal.delete("g")) == errors.NON_EMPTY_GROUP


def test_group_with_members_is_not_deleted() -> None:
    """Of either kind."""
    host = Host()
    stable(host)
    host.zookeeper.put("/consumers/ours/plan", GroupKind("ours", REGISTRY).encode())
    host.zookeeper.put("/consumers/ours/ids/c1", b"{}", ephemeral=True)

    assert code_of(host.groups.removal.delete("g")) == errors.NON_EMPTY_GROUP
    assert code_of(host.groups.removal.delete("ours")) == errors.NON_EMPTY_GROUP
    assert code_of(host.groups.removal.delete("nothing")) == errors.GROUP_ID_NOT_FOUND
    assert host.groups.coordinator.hosted["g"].group.state is State.STABLE


def test_deleted_group_is_gone_and_may_begin_again() -> None:
    """With its offsets."""
    host = Host()
    member = stable(host)
    now(commit(host, member, 1))
    now(host.groups.coordinator.submit("g", lambda token: Leave(token, ((member, None),))))
    now(host.groups.removal.delete("g"))

    assert host.zookeeper.below("/consumers") == []
    assert fetched(host) == -1
    assert stable(host) != member


@pytest.mark.parametrize(("minutes", "left"), [(59, ["g", "kept"]), (61, ["kept"])])
def test_offsets_of_a_group_that_is_empty_for_too_long_expire(minutes: int, left: list[str]) -> None:
    """offsets.retention.minutes; a group with members keeps them for ever."""
    host = Host(offsets_retention_minutes="60")
    host.zookeeper.now_ms = host.wall_ms
    now(commit(host))
    joined = now(join(host, "kept"))
    now(host.groups.coordinator.submit("kept", lambda token: Sync(token, joined.member_id, 1, {})))

    now(spawn(host.groups.removal.expire(host.wall_ms + minutes * 60_000)))

    assert sorted(one.group_id for one in now(host.groups.catalogue.summaries())) == left


def test_offset_that_was_committed_later_stays() -> None:
    """Only what nobody touched goes; the group goes with its last offset."""
    host = Host(offsets_retention_minutes="60")
    host.zookeeper.now_ms = host.wall_ms
    now(commit(host))
    host.zookeeper.now_ms = host.wall_ms + 30 * 60_000
    late = Committed("logs", topic_id(5), 1, 7)
    now(host.groups.committed.commit("g", lambda token: Commit(token, "", -1), [late]))

    now(spawn(host.groups.removal.expire(host.wall_ms + 70 * 60_000)))

    assert set(now(host.groups.committed.fetch("g", None))["logs"]) == {1}
    now(spawn(host.groups.removal.expire(host.wall_ms + 100 * 60_000)))
    assert host.zookeeper.below("/consumers") == []
