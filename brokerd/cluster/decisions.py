"""The controller's decisions: (what is known, now) -> multis to write. Pure.

Every decision is level-triggered (A30): it follows from the nodes as they are, never from what happened, so a later
controller goes on where this one was interrupted, and deciding twice does no harm - the versions in the multis see to
that. One function per rule:

    give_id         a topic from before topic ids gets one
    create_state    A26: an assigned partition without a state
    elect           A23, A24: a leader that is missing, unregistered or draining
    unmake          A28: what is left of a topic that has a tombstone
    grant_wishes    A28: /admin/delete_topics, where tools of the ZooKeeper age ask for a deletion
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import attrs

from brokerd.cluster.cluster_state import ClusterState, KnownTopic
from zk_schema import paths
from zk_schema.nodes import (
    NO_LEADER,
    Change,
    PartitionState,
    Tombstone,
    TopicAssignment,
    VersionedState,
)
from zk_schema.operations import MAX_MULTI_BYTES, Check, Create, Delete, Operation, Set, size

PIECES_PER_MULTI = 250
"""Partitions in one multi: few enough that building it never holds up the reactor, and far below the limits of A1."""

NO_ID = bytes(16)


@attrs.frozen
class Authority:
    """The right to decide: the controller's epoch, and the version of /controller_epoch that proves it (A2)."""

    epoch: int
    version: int

    def check(self) -> Check:
        """Fails the multi of a controller that is none any more."""
        return Check(paths.CONTROLLER_EPOCH, self.version)


@attrs.frozen
class Multi:
    """One write: the operations, the changes that tell of it, and why."""

    operations: tuple[Operation, ...]
    changes: tuple[Change, ...]
    topics: tuple[str, ...]
    reasons: tuple[str, ...]
    dropped: tuple[tuple[str, int], ...] = ()
    """States that are gone when it is applied."""

    def all(self) -> list[Operation]:
        """The operations with the change nodes."""
        return [*self.operations, *(Create(one.prefix, one.encode(), sequence=True) for one in self.changes)]


@attrs.frozen
class Piece:
    """What happens to one partition: it is never split over two multis."""

    topic: str
    topic_id: bytes
    index: int
    operations: tuple[Operation, ...]
    state: VersionedState | None
    kind: str
    reason: str


def decide(
    known: ClusterState,
    names: Iterable[str],
    authority: Authority,
    *,
    unclean: Callable[[KnownTopic], bool],
    new_id: Callable[[], bytes],
) -> list[Multi]:
    """What is to be written for these topics now; of a flood about one multi's worth, the rest when that is applied and
    this is asked again. Topics with an unreadable node are left alone (A31).
    """
    pieces: list[Piece] = []
    single: list[Multi] = []
    for name in names:
        topic = known.topics.get(name)
        if topic is None or name in known.frozen or len(pieces) >= PIECES_PER_MULTI:
            continue
        if known.is_dead(topic):
            left = list(islice(_remains(topic), PIECES_PER_MULTI))
            pieces.extend(left)
            if not left:
                single.append(unmake(known, topic, authority))
        elif topic.topic_id == NO_ID:
            single.append(give_id(topic, new_id(), authority))
        else:
            pieces.extend(islice(_partitions(known, topic, authority, unclean(topic)), PIECES_PER_MULTI))
    return [*pack(pieces, authority), *single]


def _partitions(known: ClusterState, topic: KnownTopic, authority: Authority, unclean: bool) -> Iterator[Piece]:
    states, away = topic.states, _Away(known)
    parent_made = topic.has_partitions_node
    for index, replicas in topic.assignment.partitions.items():
        found = states.get(index)
        if found is None:
            piece = create_state(known, topic, index, replicas, authority, with_parent=not parent_made)
            parent_made = True
        elif found.state.leader not in away:
            continue
        else:
            piece = elect(known, topic, index, replicas, found, authority.epoch, unclean)
        if piece is not None:
            yield piece


class _Away:
    """Whether a broker cannot or should not lead; a container, because it is asked once per partition."""

    def __init__(self, known: ClusterState) -> None:
        self._present = {broker for broker in known.brokers if not known.is_draining(broker)}

    def __contains__(self, broker_id: int) -> bool:
        return broker_id not in self._present


# ---- A26


def create_state(
    known: ClusterState,
    topic: KnownTopic,
    index: int,
    replicas: Sequence[int],
    authority: Authority,
    *,
    with_parent: bool = False,
) -> Piece | None:
    """The first state of a partition: epoch 0, leader and ISR from the registered replicas. With none of them
    registered it waits for one: an ISR is never empty (A6).
    """
    alive = tuple(one for one in replicas if one in known.brokers and not known.is_draining(one))
    if not alive:
        return None
    state = PartitionState(alive[0], 0, alive, authority.epoch)
    parents: list[Operation] = []
    if with_parent:
        parents.append(Create(paths.partitions(topic.name)))
    if index not in topic.bare:
        parents.append(Create(paths.partition(topic.name, index)))
    create = Create(paths.partition_state(topic.name, index), state.encode())
    return Piece(
        topic.name,
        topic.topic_id,
        index,
        (*parents, create),
        VersionedState(state, 0),
        "topic",
        f"{topic.name}-{index}: new, leader {state.leader}, ISR {list(alive)}",
    )


# ---- A23, A24


def elect(
    known: ClusterState,
    topic: KnownTopic,
    index: int,
    replicas: Sequence[int],
    found: VersionedState,
    controller_epoch: int,
    unclean: bool,
) -> Piece | None:
    """A new leader, or -1 if there is none to be had. None: the state is as good as it can be.

    The candidate is the first of the assignment that is in the ISR, registered, not draining and not suspect. An ISR
    of one suspect member leads again only where nobody else could have the data (replication factor 1) or where an
    unclean election is allowed: one machine's lost tail must not become everyone's (A24).
    """
    state = found.state
    fit = [one for one in replicas if one in known.brokers and not known.is_draining(one)]
    candidates = [one for one in fit if one in state.isr]
    trusted = [one for one in candidates if (topic.name, index) not in known.suspects(one)]
    isr = tuple(one for one in state.isr if one in known.brokers)
    if trusted:
        return leads(topic, index, found, trusted[0], isr, controller_epoch, "")
    coming = topic.assignment.adding.get(index, ())
    if candidates and len([one for one in replicas if one not in coming]) == 1:
        why = "its log lost its end or is gone; what was not flushed may be missing"
        return leads(topic, index, found, candidates[0], isr, controller_epoch, why)
    if fit and unclean and state.leader not in known.brokers:
        why = "unclean election: records that were acknowledged may be lost"
        return leads(topic, index, found, fit[0], (fit[0],), controller_epoch, why, recovering=True)
    if state.leader == NO_LEADER or state.leader in known.brokers:
        return None  # nobody can lead; or the leader is draining and nobody can take over: it leads to its end
    reason = f"broker {state.leader} is gone and no in-sync replica can lead (ISR {list(state.isr)})"
    return leads(topic, index, found, NO_LEADER, state.isr, controller_epoch, reason)


def leads(
    topic: KnownTopic,
    index: int,
    found: VersionedState,
    leader: int,
    isr: tuple[int, ...],
    controller_epoch: int,
    why: str,
    *,
    recovering: bool = False,
) -> Piece:
    """The partition with this leader and ISR, in a new epoch."""
    before = found.state
    state = PartitionState(leader, before.leader_epoch + 1, isr, controller_epoch, recovering)
    write = Set(paths.partition_state(topic.name, index), state.encode(), found.version)
    reason = f"{topic.name}-{index}: leader {before.leader} -> {leader}, epoch {state.leader_epoch}, ISR {list(isr)}"
    versioned = VersionedState(state, found.version + 1)
    return Piece(
        topic.name, topic.topic_id, index, (write,), versioned, "states", f"{reason}; {why}" if why else reason
    )


# ---- A28


def _remains(topic: KnownTopic) -> Iterator[Piece]:
    """Step 2: the states of a dead topic, with their parents."""
    for index in sorted({*topic.states, *topic.bare}):
        operations: list[Operation] = [Delete(paths.partition(topic.name, index))]
        if index in topic.states:
            operations.insert(0, Delete(paths.partition_state(topic.name, index)))
        yield Piece(topic.name, topic.topic_id, index, tuple(operations), None, "", "")


def unmake(known: ClusterState, topic: KnownTopic, authority: Authority) -> Multi:
    """Step 3: the topic's own nodes; from here its name is free."""
    operations: list[Operation] = [authority.check()]
    if topic.has_partitions_node:
        operations.append(Delete(paths.partitions(topic.name)))
    operations.append(Delete(topic.assignment.path, topic.version))
    if topic.has_config:
        operations.append(Delete(paths.topic_config(topic.name)))
    if topic.name in known.wishes:
        operations.append(Delete(paths.delete_topic(topic.name)))
    change = Change("topic", topic.name, topic.topic_id)
    return Multi(tuple(operations), (change,), (topic.name,), (f"topic {topic.name} is deleted",))


def grant_wishes(known: ClusterState, authority: Authority, now_ms: int, *, allowed: bool = True) -> list[Multi]:
    """Step 1 for every topic that a tool wants deleted. A wish for a topic that does not exist is taken away, and so is
    every wish where deletion is not allowed.
    """
    multis = []
    for name in sorted(known.wishes):
        topic = known.topics.get(name)
        if topic is None or not allowed:
            gone = Delete(paths.delete_topic(name))
            why = "delete.topic.enable is false" if topic is not None else "there is no such topic"
            multis.append(Multi((authority.check(), gone), (), (), (f"topic {name} is not deleted: {why}",)))
        elif not known.is_dead(topic) and topic.topic_id != NO_ID:
            multis.append(bury(topic, (authority.check(),), now_ms))
    return multis


def bury(topic: KnownTopic, fences: Sequence[Operation], now_ms: int) -> Multi:
    """Step 1: the tombstone. From here the topic is unknown to clients and brokers drop its logs."""
    tombstone = Tombstone(topic.topic_id, topic.name, now_ms)
    return Multi(
        (*fences, Check(topic.assignment.path, topic.version), Create(tombstone.path, tombstone.encode())),
        (Change("deleted", topic.name, topic.topic_id),),
        (topic.name,),
        (f"topic {topic.name} is being deleted",),
    )


# ---- topics older than topic ids


def give_id(topic: KnownTopic, topic_id: bytes, authority: Authority) -> Multi:
    """The same assignment with an id."""
    named: TopicAssignment = attrs.evolve(topic.assignment, topic_id=topic_id)
    return Multi(
        (authority.check(), Set(named.path, named.encode(), topic.version)),
        (Change("topic", topic.name, topic_id),),
        (topic.name,),
        (f"topic {topic.name} has got the id {named.topic_id_text}",),
    )


# ---- from pieces to multis


def pack(pieces: Iterable[Piece], fence: Authority | None = None, fences: Sequence[Operation] = ()) -> list[Multi]:
    """Multis of whole pieces within the limits of A1, each with its fence and one change per topic it touches."""
    guard = (*fences, fence.check()) if fence is not None else tuple(fences)
    multis: list[Multi] = []
    batch: list[Piece] = []
    used = 0
    for piece in pieces:
        # A change repeats the state, so what a piece takes is counted twice.
        cost = 2 * sum(map(size, piece.operations))
        if batch and (len(batch) >= PIECES_PER_MULTI or used + cost > MAX_MULTI_BYTES // 2):
            multis.append(_multi(batch, guard))
            batch, used = [], 0
        batch.append(piece)
        used += cost
    if batch:
        multis.append(_multi(batch, guard))
    return multis


def _multi(batch: Sequence[Piece], guard: tuple[Operation, ...]) -> Multi:
    changed: dict[str, dict[int, VersionedState]] = {}
    kinds: dict[str, str] = {}
    ids: dict[str, bytes] = {}
    for piece in batch:
        ids[piece.topic] = piece.topic_id
        if piece.state is not None:
            changed.setdefault(piece.topic, {})[piece.index] = piece.state
            # A topic with a new partition must be read again by those who do not know that partition yet.
            kinds[piece.topic] = "topic" if "topic" in (piece.kind, kinds.get(piece.topic)) else piece.kind
    return Multi(
        (*guard, *(operation for piece in batch for operation in piece.operations)),
        tuple(Change(kinds[name], name, ids[name], states) for name, states in changed.items()),
        tuple(ids),
        tuple(piece.reason for piece in batch if piece.reason),
        tuple((piece.topic, piece.index) for piece in batch if piece.state is None),
    )
