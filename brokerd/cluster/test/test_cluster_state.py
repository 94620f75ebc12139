"""What is known keeps the newest, shares what did not change, and shows handlers a consistent whole."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.cluster_state import ClusterState, LiveBroker
from brokerd.metadata import NO_LEADER
from zk_schema.nodes import (
    BrokerRegistration,
    Endpoint,
    Incarnation,
    PartitionState,
    TopicAssignment,
    VersionedState,
)

ONE, TWO = b"\1" * 16, b"\2" * 16


def state_of(leader: int, epoch: int, version: int) -> VersionedState:
    """A state with one in-sync replica."""
    return VersionedState(PartitionState(leader, epoch, (leader,), 1), version)


def cluster(*names: str) -> ClusterState:
    """Topics of two partitions each, with states."""
    known = ClusterState()
    for number, name in enumerate(names):
        known.set_assignment(TopicAssignment(name, bytes([number + 1]) * 16, {0: (1,), 1: (2,)}), 0)
        known.put_states(name, [(0, state_of(1, 0, 0)), (1, state_of(2, 0, 0))])
    return known


@given(st.permutations([state_of(1, 0, 0), state_of(2, 1, 1), state_of(3, 2, 2)]))
def test_states_in_any_order_leave_the_newest(states: list[VersionedState]) -> None:
    """Late reads and repeated changes do no harm (A9)."""
    known = cluster("logs")
    known.put_states("logs", [(0, attrs.evolve(one, version=one.version + 1)) for one in states])

    view, _ = known.view()

    assert view.topics["logs"].partitions[0].leader == 3


def test_one_topics_change_leaves_the_others_as_they_are() -> None:
    """Only the changed topic is made anew; the snapshot before does not change."""
    known = cluster("a", "b")
    before, _ = known.view()

    known.put_states("a", [(0, state_of(2, 1, 1))])
    after, changed = known.view()

    assert changed == {"a"}
    assert after.topics["b"] is before.topics["b"]
    assert after.topics["a"].partitions[1] is before.topics["a"].partitions[1]
    assert before.topics["a"].partitions[0].leader == 1
    assert after.topics["a"].partitions[0].leader == 2


def test_partition_without_a_state_is_shown_without_a_leader() -> None:
    """Clients see the whole list (a partial one would make partitions vanish)."""
    known = ClusterState()
    known.set_assignment(TopicAssignment("logs", ONE, {0: (1,), 1: (2,)}), 0)
    known.put_states("logs", [(1, state_of(2, 0, 0))])

    view, _ = known.view()

    assert [one.leader for one in view.topics["logs"].partitions] == [NO_LEADER, 2]


def test_grown_topic_shows_the_new_partitions() -> None:
    """A newer assignment replaces the older one, an older one does not come back."""
    known = cluster("logs")
    known.view()
    grown = TopicAssignment("logs", ONE, {0: (1,), 1: (2,), 2: (1,)})

    known.set_assignment(grown, 1)
    known.set_assignment(TopicAssignment("logs", ONE, {0: (1,)}), 0)

    assert len(known.view()[0].topics["logs"].partitions) == 3


def test_recreated_topic_has_nothing_of_the_old_one() -> None:
    """Another id is another topic, though its versions begin at 0 again (F4)."""
    known = cluster("logs")
    known.put_states("logs", [(0, state_of(1, 9, 9))])
    known.view()

    known.set_assignment(TopicAssignment("logs", TWO, {0: (1,)}), 0)
    known.put_states("logs", [(0, state_of(1, 0, 0))])
    view, _ = known.view()

    assert view.topics["logs"].partitions[0].leader_epoch == 0
    assert view.names == {TWO: "logs"}


def test_buried_topic_is_unknown_to_clients_at_once() -> None:
    """From the tombstone on; its nodes are still known to the controller."""
    known = cluster("logs")
    known.view()

    known.bury(ONE)
    view, changed = known.view()

    assert (dict(view.topics), dict(view.names), changed) == ({}, {}, {"logs"})
    assert known.is_dead(known.topics["logs"])


def test_overrides_are_part_of_the_view() -> None:
    """A changed setting is a change of its topic; the same again is none."""
    known = cluster("logs")
    known.view()

    known.set_overrides("logs", {"retention.ms": "1"})
    view, changed = known.view()
    known.set_overrides("logs", {"retention.ms": "1"})

    assert view.topics["logs"].overrides == {"retention.ms": "1"}
    assert changed == {"logs"}
    assert known.view()[1] == set()


def test_broker_is_shown_with_all_its_addresses() -> None:
    """The first listener is the default, the others are found by name."""
    known = ClusterState()
    endpoints = (Endpoint("IN", "PLAINTEXT", "in", 1), Endpoint("OUT", "PLAINTEXT", "out", 2))
    known.set_brokers({7: LiveBroker(BrokerRegistration(7, endpoints, 0, rack="r"), 5)})

    view, _ = known.view()

    broker = view.brokers[7]
    assert (broker.host, broker.port, broker.rack) == ("in", 1, "r")
    assert broker.addresses == {"IN": ("in", 1), "OUT": ("out", 2)}


def test_older_incarnation_does_not_replace_a_newer_one() -> None:
    """A late read cannot undo a draining mark."""
    known = ClusterState()
    known.set_incarnation(Incarnation(1, draining=True), 5)

    assert not known.set_incarnation(Incarnation(1), 4)
    assert known.is_draining(1)
