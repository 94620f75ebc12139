"""An ISR change as a ZooKeeper multi, and what its failure means (A3, A5). Pure.

Only the ISR changes: leader, leader epoch and controller epoch stay as they were read. The multi of a leader holds, for
every replica it adds, a check of that broker's incarnation at the epoch that its fetches carried: whoever died, drained
or was re-born between its fetch and this write cannot be added.
"""

from __future__ import annotations

import enum

import attrs

from brokerd.cluster.decisions import Piece
from zk_schema import paths
from zk_schema.nodes import PartitionState, VersionedState
from zk_schema.operations import Check, NodeError, Set


@attrs.frozen
class IsrChange:
    """What a leader wants: `isr` in place of what `found` says. `added` has the epochs of the replicas it adds."""

    topic: str
    topic_id: bytes
    index: int
    found: VersionedState
    isr: tuple[int, ...]
    added: tuple[tuple[int, int], ...]

    @property
    def state(self) -> PartitionState:
        """The state to be written."""
        return attrs.evolve(self.found.state, isr=self.isr)

    @property
    def path(self) -> str:
        """Of the state node."""
        return paths.partition_state(self.topic, self.index)

    def piece(self) -> Piece:
        """Its part of a multi; the leader's own fence and the change node belong to the whole multi."""
        checks = tuple(Check(paths.incarnation(broker_id), epoch) for broker_id, epoch in self.added)
        write = Set(self.path, self.state.encode(), self.found.version)
        after = VersionedState(self.state, self.found.version + 1)
        return Piece(self.topic, self.topic_id, self.index, (*checks, write), after, "states", "")


class Outcome(enum.Enum):
    """What a refused change means for the leader (A5)."""

    DONE = "it is what I wanted: my own write, whose reply was lost"
    OLD = "another version at my epoch: adopt it and decide anew"
    OVER = "a higher epoch, or no state at all: I lead no more"


def outcome(wanted: IsrChange, now_there: VersionedState | None) -> Outcome:
    """What the state that is there now says about a change that was not confirmed."""
    if now_there is None or now_there.state.leader_epoch > wanted.found.state.leader_epoch:
        return Outcome.OVER
    if now_there.version == wanted.found.version + 1 and now_there.state == wanted.state:
        return Outcome.DONE
    return Outcome.OLD


def fence(broker_id: int, version: int) -> Check:
    """The check that every multi of a leader holds: its own life is still the current one (F9)."""
    return Check(paths.incarnation(broker_id), version)


def refused_by(problem: NodeError, wanted: IsrChange) -> int | None:
    """The broker whose incarnation check failed; None if it was the state itself."""
    for broker_id, _ in wanted.added:
        if problem.path == paths.incarnation(broker_id):
            return broker_id
    return None
