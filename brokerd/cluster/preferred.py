"""Leaders that are moved though the present one works: back to the preferred replica (A32), away from a leader without
a quorum (A25), and on demand (ElectLeaders). Pure.

The preferred leader is the first replica of the assignment: placement spreads these evenly, so the load is even when
each leads its own. A move changes the leader and the epoch, never the ISR (R31).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import attrs

from brokerd.cluster.cluster_state import ClusterState, KnownTopic, LiveBroker
from brokerd.cluster.decisions import Piece, elect, leads
from kafka_wire import errors
from zk_schema.nodes import NO_LEADER, Change, PartitionState, VersionedState

PER_MINUTE = 100
"""Moves at most: each costs the clients of the partition a round of metadata."""
SETTLED_SECONDS = 60.0
"""A broker that has just come must first prove that it stays."""
RESIGN = "resign"
"""Kind of the change by which a leader asks to be replaced."""


class Tenure:
    """Since when this broker has known each other one to be registered without a break."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, float]] = {}

    def observe(self, brokers: Mapping[int, LiveBroker], now: float) -> None:
        """These are registered; another life of a broker begins anew."""
        self._since = {
            number: known if (known := self._since.get(number)) and known[0] == one.czxid else (one.czxid, now)
            for number, one in brokers.items()
        }

    def settled(self, now: float) -> set[int]:
        """Those that have been there for long enough."""
        return {number for number, (_, since) in self._since.items() if now - since >= SETTLED_SECONDS}


@attrs.frozen
class Balance:
    """auto.leader.rebalance.enable and leader.imbalance.*"""

    enabled: bool
    percentage: int
    interval_seconds: float


# ---- A32


def misled(known: ClusterState, names: Iterable[str] | None = None) -> Iterator[tuple[KnownTopic, int]]:
    """Partitions whose preferred leader does not lead and could."""
    for name in known.topics if names is None else names:
        topic = known.topics.get(name)
        if topic is None or name in known.frozen or known.is_dead(topic):
            continue
        for index, replicas in topic.assignment.partitions.items():
            found = topic.states.get(index)
            if found is None or not replicas or found.state.leader == replicas[0]:
                continue
            if can_lead(known, topic, index, replicas[0], found.state):
                yield topic, index


def can_lead(known: ClusterState, topic: KnownTopic, index: int, broker: int, state: PartitionState) -> bool:
    """In sync, registered, not about to leave, and its log is trusted."""
    return (
        broker in state.isr
        and broker in known.brokers
        and not known.is_draining(broker)
        and (topic.name, index) not in known.suspects(broker)
    )


def rebalance(
    known: ClusterState, settled: set[int], percentage: int, at_most: int, controller_epoch: int
) -> list[Piece]:
    """R33: for every broker of whose preferred partitions too large a part is led elsewhere, those that it can take."""
    prefer: dict[int, int] = {}
    elsewhere: dict[int, int] = {}
    for topic in known.topics.values():
        for index, replicas in topic.assignment.partitions.items():
            found = topic.states.get(index)
            if replicas and found is not None and not known.is_dead(topic):
                prefer[replicas[0]] = prefer.get(replicas[0], 0) + 1
                if found.state.leader != replicas[0]:
                    elsewhere[replicas[0]] = elsewhere.get(replicas[0], 0) + 1
    wanting = {one for one, number in elsewhere.items() if number * 100 > percentage * prefer[one]} & settled
    if not wanting:
        return []
    moves = ((topic, index) for topic, index in misled(known) if topic.assignment.partitions[index][0] in wanting)
    return [_move(topic, index, controller_epoch) for topic, index in islice(moves, at_most)]


def _move(topic: KnownTopic, index: int, controller_epoch: int) -> Piece:
    found = topic.states[index]
    leader = topic.assignment.partitions[index][0]
    return _leads(topic, index, found, leader, controller_epoch, "preferred leader")


def _leads(topic: KnownTopic, index: int, found: VersionedState, leader: int, controller_epoch: int, why: str) -> Piece:
    recovering = found.state.recovering
    return leads(topic, index, found, leader, found.state.isr, controller_epoch, why, recovering=recovering)


# ---- A25


def resignation(topic: KnownTopic, index: int) -> Change:
    """What a leader writes to be replaced: the state that it is weary of, so that nobody acts on it twice."""
    return Change(RESIGN, topic.name, topic.topic_id, {index: topic.states[index]})


def replace_weary(known: ClusterState, controller_epoch: int) -> list[Piece]:
    """Another in-sync replica for every leader that asked for it in its present epoch; none, and it goes on leading."""
    pieces = []
    for (name, index), epoch in known.resignations.items():
        topic = known.topics.get(name)
        found = None if topic is None else topic.states.get(index)
        if topic is None or found is None or known.is_dead(topic) or name in known.frozen:
            continue
        state = found.state
        if state.leader_epoch != epoch or state.leader == NO_LEADER:
            continue
        others = [one for one in topic.assignment.partitions.get(index, ()) if one != state.leader]
        fit = [one for one in others if can_lead(known, topic, index, one, state)]
        if fit:
            why = f"broker {state.leader} asked to be replaced: it has no quorum"
            pieces.append(_leads(topic, index, found, fit[0], controller_epoch, why))
    return pieces


# ---- ElectLeaders


def on_demand(known: ClusterState, topic: KnownTopic, index: int, *, unclean: bool) -> Piece:
    """The election that a client asks for; the controller's epoch in the state stays, its version fences the write.
    UnknownTopicOrPartition, ElectionNotNeeded, PreferredLeaderNotAvailable, EligibleLeadersNotAvailable.
    """
    replicas, found = topic.assignment.partitions.get(index, ()), topic.states.get(index)
    if not replicas or found is None:
        raise errors.UnknownTopicOrPartition("The partition does not exist.")
    if unclean:
        return _unclean(known, topic, index, replicas, found)
    state = found.state
    if state.leader == replicas[0] and state.leader in known.brokers:
        raise errors.ElectionNotNeeded(f"Broker {replicas[0]} is the preferred leader and leads.")
    if not can_lead(known, topic, index, replicas[0], state):
        raise errors.PreferredLeaderNotAvailable(
            f"The preferred leader, broker {replicas[0]}, is not there or not in sync (ISR {list(state.isr)})."
        )
    return _move(topic, index, state.controller_epoch)


def _unclean(
    known: ClusterState, topic: KnownTopic, index: int, replicas: Sequence[int], found: VersionedState
) -> Piece:
    state = found.state
    if state.leader != NO_LEADER and state.leader in known.brokers:
        raise errors.ElectionNotNeeded(f"Broker {state.leader} leads.")
    piece = elect(known, topic, index, replicas, found, state.controller_epoch, unclean=True)
    if piece is None or piece.state is None or piece.state.state.leader == NO_LEADER:
        raise errors.EligibleLeadersNotAvailable(f"None of the replicas {list(replicas)} is there.")
    return piece
