"""The nodes of a group."""

from __future__ import annotations

import os

import attrs
import pytest

from brokerd.cluster.asynchronous import spawn
from brokerd.groups.consumer_protocol import encode_assignment, encode_subscription
from brokerd.groups.group_store import Nodes, copies_of
from brokerd.groups.test.hosts import Host, now
from kafka_wire import errors
from zk_schema.group_nodes import PROTOCOL, REGISTRY, GroupKind, StoredGroup, StoredMember
from zk_schema.operations import ConnectionLost

MEMBER = StoredMember(
    "c-1",
    None,
    "c",
    "/h",
    10_000,
    60_000,
    (("range", encode_subscription(["logs"])),),
    encode_assignment({"logs": [0, 1]}),
)
GROUP = StoredGroup("g", 1, "consumer", "range", "c-1", (MEMBER,), 5)
EMPTY = StoredGroup("g", 2, "consumer", None, None, (), 6)


def _write(host: Host, nodes: Nodes, stored: StoredGroup) -> None:
    slot = host.groups.coordinator.slots.slot_for("g")
    now(spawn(host.groups.coordinator.store.write(slot, nodes, stored)))


def _copy(host: Host, nodes: Nodes, stored: StoredGroup) -> None:
    slot = host.groups.coordinator.slots.slot_for("g")
    now(spawn(host.groups.coordinator.store.copy(slot, nodes, stored)))


def _stored(host: Host) -> StoredGroup:
    return StoredGroup.decode("/consumers/g/group", host.zookeeper.data("/consumers/g/group"))


def test_K3_group_is_written_and_written_again() -> None:
    """The first time with its parents and its kind."""
    host, nodes = Host(), Nodes("g")
    _write(host, nodes, GROUP)
    _write(host, nodes, EMPTY)

    assert _stored(host) == EMPTY
    assert GroupKind.decode("g", host.zookeeper.data("/consumers/g/plan")).kind == PROTOCOL
    assert all(len(multi) <= 4 for multi in host.zookeeper.multis)


def test_group_that_is_known_wrongly_is_read_and_written() -> None:
    """The cache is only a cache."""
    host = Host()
    _write(host, Nodes("g"), GROUP)
    _write(host, Nodes("g"), EMPTY)
    _write(host, Nodes("g", exists=True, version=77), GROUP)

    assert _stored(host) == GROUP


@pytest.mark.parametrize("lose", ["before", "after"])
def test_lost_answer_of_a_write_is_no_loss(lose: str) -> None:
    """Whether it was applied or not."""
    host, nodes = Host(), Nodes("g")
    host.zookeeper.lose = lose
    _write(host, nodes, GROUP)
    host.zookeeper.lose = lose
    _write(host, nodes, EMPTY)

    assert _stored(host) == EMPTY


def test_write_waits_for_a_zookeeper_that_is_away_and_gives_up() -> None:
    """Members wait in their SyncGroup, but not for ever."""
    host, nodes = Host(), Nodes("g")
    host.zookeeper.connected = False
    slot = host.groups.coordinator.slots.slot_for("g")
    waiting = spawn(host.groups.coordinator.store.write(slot, nodes, GROUP))
    assert not waiting.called
    for _ in range(200):
        host.clock.advance(0.1)

    with pytest.raises(errors.CoordinatorNotAvailable):
        now(waiting)

    host.zookeeper.connected = True
    _write(host, nodes, GROUP)
    assert _stored(host) == GROUP


def test_group_above_the_size_of_a_node_is_refused() -> None:
    """400 KiB, compressed."""
    host = Host()
    noise = attrs.evolve(MEMBER, assignment=os.urandom(500_000))

    with pytest.raises(errors.GroupMaxSizeReached):
        _write(host, Nodes("g"), attrs.evolve(GROUP, members=(noise,)))


def test_B5_group_of_our_own_consumer_with_members_is_left_alone() -> None:
    """The error names both kinds; without members it changes hands."""
    host = Host()
    host.zookeeper.put("/consumers/g/plan", GroupKind("g", REGISTRY).encode())
    host.zookeeper.put("/consumers/g/ids/somebody", b"{}", ephemeral=True)

    nodes = Nodes("g")
    with pytest.raises(errors.InconsistentGroupProtocol, match=r"registry.*protocol"):
        _write(host, nodes, GROUP)
    assert "/consumers/g/group" not in host.zookeeper.nodes

    host.zookeeper.drop("/consumers/g/ids/somebody")
    _write(host, Nodes("g"), GROUP)
    assert GroupKind.decode("g", host.zookeeper.data("/consumers/g/plan")).kind == PROTOCOL


def test_B5_kind_that_changes_under_a_running_group_ends_its_writes() -> None:
    """Somebody took the empty group over."""
    host, nodes = Host(), Nodes("g")
    _write(host, nodes, GROUP)
    host.zookeeper.put("/consumers/g/plan", GroupKind("g", REGISTRY).encode())
    host.zookeeper.put("/consumers/g/ids/somebody", b"{}", ephemeral=True)

    with pytest.raises(errors.InconsistentGroupProtocol):
        _write(host, nodes, attrs.evolve(GROUP, generation=2))


def test_B5_plan_is_written_anew_when_members_come_to_an_empty_group() -> None:
    """A consumer of ours that read the plan before, and writes its own now, has lost."""
    host, nodes = Host(), Nodes("g")
    for stored in (GROUP, EMPTY, GROUP, attrs.evolve(GROUP, generation=4)):
        _write(host, nodes, stored)

    assert host.zookeeper.nodes["/consumers/g/plan"].version == 1, "made, written at the second coming, then checked"


def test_B5_registered_consumer_of_ours_is_a_member_before_there_is_a_plan() -> None:
    """It came first; copies that a coordinator left behind are nobody."""
    host = Host()
    host.zookeeper.put("/consumers/g/ids/copy", b"{}")
    now(spawn(host.groups.coordinator.store.look_at_kind(Nodes("g"))))
    host.zookeeper.put("/consumers/g/ids/somebody", b"{}", ephemeral=True)

    with pytest.raises(errors.InconsistentGroupProtocol):
        now(spawn(host.groups.coordinator.store.look_at_kind(Nodes("g"))))


def test_K5_copies_for_tools_are_those_of_old_kafka() -> None:
    """ids and owners."""
    host, nodes = Host(), Nodes("g")
    _write(host, nodes, GROUP)
    _copy(host, nodes, GROUP)

    assert b'"subscription":{"logs":1}' in host.zookeeper.data("/consumers/g/ids/c-1")
    assert host.zookeeper.data("/consumers/g/owners/logs/0") == b"c-1-0"
    assert host.zookeeper.data("/consumers/g/owners/logs/1") == b"c-1-0"


def test_K5_copies_follow_with_what_differs() -> None:
    """Nothing is written twice."""
    host, nodes = Host(), Nodes("g")
    _write(host, nodes, GROUP)
    _copy(host, nodes, GROUP)
    before = len(host.zookeeper.multis)
    _copy(host, nodes, GROUP)
    assert len(host.zookeeper.multis) == before

    other = attrs.evolve(MEMBER, member_id="c/2", assignment=encode_assignment({"logs": [1]}))
    first = attrs.evolve(MEMBER, assignment=encode_assignment({"logs": [0]}))
    _copy(host, nodes, attrs.evolve(GROUP, members=(first, other)))
    assert host.zookeeper.below("/consumers/g/ids") == ["c%2F2", "c-1"]
    assert host.zookeeper.data("/consumers/g/owners/logs/1") == b"c%2F2-0"
    assert len(host.zookeeper.multis[-1]) == 3, "fence, one member, one owner"


def test_K5_whoever_loads_the_group_cleans_its_copies() -> None:
    """What a dead coordinator left goes."""
    host = Host()
    _write(host, Nodes("g"), GROUP)
    host.zookeeper.put("/consumers/g/ids/ghost", b"{}")
    host.zookeeper.put("/consumers/g/owners/old/3", b"ghost-0")
    nodes, stored = now(spawn(host.groups.coordinator.store.read("g")))
    _copy(host, nodes, stored)

    assert host.zookeeper.below("/consumers/g/ids") == ["c-1"]
    assert host.zookeeper.below("/consumers/g/owners") == ["logs", "logs/0", "logs/1"]
    _write(host, nodes, EMPTY)
    _copy(host, nodes, EMPTY)
    assert host.zookeeper.below("/consumers/g/ids") == host.zookeeper.below("/consumers/g/owners") == []


def test_copies_of_thousands_of_partitions_are_cut_into_multis() -> None:
    """A1."""
    host, nodes = Host(), Nodes("g")
    many = attrs.evolve(MEMBER, assignment=encode_assignment({"logs": range(5000)}))
    _write(host, nodes, GROUP)
    _copy(host, nodes, attrs.evolve(GROUP, members=(many,)))

    assert len(host.zookeeper.below("/consumers/g/owners/logs")) == 5000


def test_copies_of_other_protocols_name_no_topics() -> None:
    """Connect has its own bytes."""
    copies = copies_of(attrs.evolve(GROUP, protocol_type="connect"))

    assert [path for path in copies if "/owners/" in path] == []


def test_group_is_removed_with_everything() -> None:
    """The truth last."""
    host, nodes = Host(), Nodes("g")
    _write(host, nodes, GROUP)
    _copy(host, nodes, GROUP)
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"5")
    slot = host.groups.coordinator.slots.slot_for("g")

    now(spawn(host.groups.coordinator.store.remove(slot, "g")))

    assert host.zookeeper.below("/consumers") == []
    assert [one.path for one in host.zookeeper.multis[-1]][-2:] == ["/consumers/g/group", "/consumers/g"]


def test_reading_fails_with_zookeepers_error_itself() -> None:
    """Not with Twisted's wrapper of it."""
    host = Host()
    host.zookeeper.connected = False

    with pytest.raises(ConnectionLost):
        now(spawn(host.groups.coordinator.store.read("g")))
