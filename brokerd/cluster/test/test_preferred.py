"""Leaders that are moved on purpose: A32, A25 and ElectLeaders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from brokerd.cluster.cluster_state import ClusterState, LiveBroker
from brokerd.cluster.decisions import Piece
from brokerd.cluster.preferred import (
    PER_MINUTE,
    SETTLED_SECONDS,
    Tenure,
    misled,
    on_demand,
    rebalance,
    replace_weary,
    resignation,
)
from kafka_wire import errors
from zk_schema.nodes import NO_LEADER, BrokerRegistration, Incarnation, PartitionState, TopicAssignment, VersionedState

ID = b"\1" * 16
EPOCH = 5


def live(broker: int, czxid: int = 1) -> LiveBroker:
    """A registration."""
    return LiveBroker(BrokerRegistration(broker, (), 0), czxid)


def known(*partitions: tuple[Sequence[int], PartitionState], brokers: Sequence[int] = (1, 2, 3)) -> ClusterState:
    """A topic `logs` of these partitions."""
    made = ClusterState()
    made.set_brokers({one: live(one) for one in brokers})
    made.set_assignment(TopicAssignment("logs", ID, {n: tuple(one) for n, (one, _) in enumerate(partitions)}), 0)
    made.put_states("logs", [(n, VersionedState(state, 7)) for n, (_, state) in enumerate(partitions)])
    return made


def led(leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    """A state."""
    return PartitionState(leader, 4, isr, 3)


def after(piece: Piece) -> PartitionState:
    """The state that it writes."""
    assert piece.state is not None
    return piece.state.state


# ---- A32


def moves(
    made: ClusterState, *, percentage: int = 10, at_most: int = PER_MINUTE, settled: Sequence[int] = (1, 2, 3)
) -> list[int]:
    """The partitions that are moved."""
    return [one.index for one in rebalance(made, set(settled), percentage, at_most, EPOCH)]


def test_A32_preferred_leader_takes_over_with_the_isr_as_it_is() -> None:
    """A new epoch, signed by the controller."""
    made = known(((1, 2, 3), led(2, (2, 1))))

    (piece,) = rebalance(made, {1}, 10, PER_MINUTE, EPOCH)

    assert after(piece) == PartitionState(1, 5, (2, 1), EPOCH)


def test_A32_little_imbalance_is_left_alone() -> None:
    """One of ten is not more than ten per cent, two are."""
    right = [((1, 2, 3), led(1))] * 9
    assert moves(known(*right, ((1, 2, 3), led(2)))) == []
    assert moves(known(*right[1:], *[((1, 2, 3), led(2))] * 2)) == [8, 9]


@pytest.mark.parametrize("why", ["away", "lagging", "draining", "suspect", "new"])
def test_A32_preferred_leader_that_cannot_lead_is_waited_for(why: str) -> None:
    """Not registered, not in sync, about to leave, not to be trusted, or here for less than a minute."""
    isr = (2, 3) if why == "lagging" else (1, 2, 3)
    made = known(((1, 2, 3), led(2, isr)), brokers=(2, 3) if why == "away" else (1, 2, 3))
    if why == "draining":
        made.set_incarnation(Incarnation(1, draining=True), 9)
    if why == "suspect":
        made.set_incarnation(Incarnation(1, suspect=(("logs", 0),)), 9)

    assert moves(made, settled=(2, 3) if why == "new" else (1, 2, 3)) == []


def test_A32_moves_are_limited() -> None:
    """The rest a minute later."""
    made = known(*[((1, 2, 3), led(2))] * 150)

    assert len(moves(made)) == PER_MINUTE


def test_dead_topic_is_left_alone() -> None:
    """It is being deleted."""
    made = known(((1, 2, 3), led(2)))
    made.bury(ID)

    assert moves(made) == []
    assert list(misled(made)) == []


def test_A32_broker_is_settled_after_a_minute_without_a_break() -> None:
    """Another life of the same broker begins anew."""
    tenure = Tenure()
    tenure.observe({1: live(1, 10), 2: live(2, 11)}, 0.0)
    tenure.observe({1: live(1, 10), 2: live(2, 12)}, 30.0)

    assert tenure.settled(SETTLED_SECONDS - 1) == set()
    assert tenure.settled(SETTLED_SECONDS) == {1}
    tenure.observe({2: live(2, 12)}, SETTLED_SECONDS)
    tenure.observe({1: live(1, 10), 2: live(2, 12)}, SETTLED_SECONDS + 1)
    assert tenure.settled(SETTLED_SECONDS + 30) == {2}


# ---- A25


def test_A25_leader_that_asks_is_replaced_and_the_isr_stays() -> None:
    """It never shrinks and moves in one step."""
    made = known(((1, 2, 3), led(1)))
    made.resignations["logs", 0] = 4

    (piece,) = replace_weary(made, EPOCH)

    assert after(piece) == PartitionState(2, 5, (1, 2, 3), EPOCH)


def test_A25_wish_of_an_earlier_epoch_is_old_news() -> None:
    """It was granted already, or something else happened."""
    made = known(((1, 2, 3), led(1)))
    made.resignations["logs", 0] = 3

    assert replace_weary(made, EPOCH) == []


def test_A25_leader_without_a_successor_goes_on() -> None:
    """A leader alone is better than none."""
    made = known(((1, 2, 3), led(1, (1, 2))), brokers=(1, 3))
    made.resignations["logs", 0] = 4

    assert replace_weary(made, EPOCH) == []


def test_A25_resignation_names_the_state_that_it_is_about() -> None:
    """So that its epoch is known to whoever reads it."""
    made = known(((1, 2, 3), led(1)))

    change = resignation(made.topics["logs"], 0)

    assert (change.kind, change.states[0].state.leader_epoch) == ("resign", 4)


# ---- ElectLeaders


def elected(made: ClusterState, *, unclean: bool = False) -> PartitionState:
    """What the election of partition 0 writes."""
    return after(on_demand(made, made.topics["logs"], 0, unclean=unclean))


def test_preferred_leader_is_elected_on_demand() -> None:
    """The controller's epoch stays: any broker may write it."""
    assert elected(known(((1, 2, 3), led(2)))) == PartitionState(1, 5, (1, 2, 3), 3)


def test_election_that_is_not_needed_is_refused() -> None:
    """The preferred leader leads; or, unclean, anybody does."""
    with pytest.raises(errors.ElectionNotNeeded):
        elected(known(((1, 2, 3), led(1))))
    with pytest.raises(errors.ElectionNotNeeded):
        elected(known(((1, 2, 3), led(2))), unclean=True)


def test_preferred_leader_out_of_sync_is_refused() -> None:
    """Acknowledged records would be lost."""
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elected(known(((1, 2, 3), led(2, (2, 3)))))


def test_unclean_election_takes_whoever_is_there() -> None:
    """Marked as recovering, alone in its ISR; an in-sync one would come first."""
    made = known(((1, 2, 3), led(NO_LEADER, (1,))), brokers=(2, 3))
    assert elected(made, unclean=True) == PartitionState(2, 5, (2,), 3, recovering=True)
    made = known(((1, 2, 3), led(NO_LEADER, (1, 3))), brokers=(2, 3))
    assert elected(made, unclean=True) == PartitionState(3, 5, (3,), 3)


def test_unclean_election_without_anybody_is_refused() -> None:
    """There is nobody to elect."""
    with pytest.raises(errors.EligibleLeadersNotAvailable):
        elected(known(((1, 2, 3), led(1, (1,))), brokers=(4,)), unclean=True)


def test_unknown_partition_is_refused() -> None:
    """As Kafka answers it."""
    made = known(((1, 2, 3), led(1)))
    with pytest.raises(errors.UnknownTopicOrPartition):
        on_demand(made, made.topics["logs"], 9, unclean=False)
