"""Which slots are held, and the fence of every write."""

from __future__ import annotations

import pytest

from brokerd.cluster.asynchronous import spawn
from brokerd.groups.placement import OFFSETS_TOPIC
from brokerd.groups.slots import SlotLost
from brokerd.groups.test.hosts import Host, code_of, now
from kafka_wire import errors
from zk_schema import paths
from zk_schema.nodes import PartitionState
from zk_schema.operations import ConnectionLost, Create, NoNode

STATE = paths.partition_state(OFFSETS_TOPIC, 0)


def test_K1_leader_of_a_slot_coordinates_its_groups() -> None:
    """And nobody else."""
    host = Host(slots=4)
    slots = host.groups.coordinator.slots
    assert sorted(slots.held) == [0, 1, 2, 3]

    host.elect(4, leader=2, epoch=4)

    assert not slots.held
    with pytest.raises(errors.NotCoordinator):
        slots.slot_for("g")


def test_K2_writes_go_on_while_only_the_isr_changed() -> None:
    """The version moved, leader and epoch did not."""
    host = Host(slots=1)
    slot = host.groups.coordinator.slots.held[0]
    host.zookeeper.put(STATE, PartitionState(1, 3, (1, 2), 1).encode())

    now(spawn(host.groups.coordinator.slots.multi([slot], [Create("/consumers/x")])))

    assert "/consumers/x" in host.zookeeper.nodes
    assert slot.version == host.zookeeper.nodes[STATE].version


@pytest.mark.parametrize("state", [PartitionState(2, 4, (2,), 1), PartitionState(1, 5, (1,), 1), None])
def test_K2_write_of_a_deposed_coordinator_fails(state: PartitionState | None) -> None:
    """Before it hears of it by other ways; also if it leads again, at another epoch, or the topic is gone."""
    host = Host(slots=1)
    slot = host.groups.coordinator.slots.held[0]
    if state is None:
        host.zookeeper.drop(STATE)
    else:
        host.zookeeper.put(STATE, state.encode())

    with pytest.raises(SlotLost):
        now(spawn(host.groups.coordinator.slots.multi([slot], [Create("/consumers/x")])))

    assert "/consumers/x" not in host.zookeeper.nodes
    assert not slot.held
    host.groups.look()
    assert not host.groups.coordinator.slots.held, "the old view must not give the slot back"
    host.elect(1, epoch=6)
    assert host.groups.coordinator.slots.held


def test_other_errors_of_a_multi_are_the_callers() -> None:
    """Counted without the fences."""
    host = Host(slots=1)
    slot = host.groups.coordinator.slots.held[0]
    with pytest.raises(NoNode) as found:
        now(spawn(host.groups.coordinator.slots.multi([slot], [Create("/consumers/x"), Create("/no/where")])))
    assert found.value.index == 1
    host.zookeeper.lose = "before"
    with pytest.raises(ConnectionLost):
        now(spawn(host.groups.coordinator.slots.multi([slot], [Create("/consumers/x")])))


def test_K7_without_a_lease_nothing_is_coordinated() -> None:
    """Somebody else may lead by now."""
    host = Host()
    host.zookeeper.lease = False

    assert code_of(host.groups.committed.fetch("g", None)) == errors.NOT_COORDINATOR


def test_lost_registration_ends_every_slot() -> None:
    """A12."""
    host = Host()
    host.is_registered = False
    host.groups.look()

    assert not host.groups.coordinator.slots.held
