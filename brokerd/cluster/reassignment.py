"""A27: partitions that move to other brokers. Pure.

The topic node alone says what is under way (A30): `replicas` are the target and the former ones together, `adding` the
ones that are not there yet, `removing` those that shall go.

    begin       (1) writes that, with a new epoch for every partition; or takes it back (cancel)
    -           (2) the leaders add the new replicas to their ISRs, as they do with every follower
    finish      (3) as soon as all of the target is in sync: replicas = target, leader and ISR within it

An ISR is never empty (A6): a step that would leave none of the in-sync replicas is refused. What is left on
the disks of the former replicas is the matter of `departed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from brokerd.cluster.cluster_state import ClusterState, KnownTopic
from brokerd.cluster.decisions import PIECES_PER_MULTI, Authority, Multi, Piece, leads
from kafka_wire import errors
from zk_schema.nodes import NO_LEADER, Change, TopicAssignment, VersionedState
from zk_schema.operations import MAX_MULTI_BYTES, Operation, Set, size

CHANGE = "assignment"
"""Kind of the change: whoever learns of it reads the topic node again; the states are in the change."""

_MARGIN = 32 * 1024
"""Bytes of a multi that are left for the fences, the change's own fields and a chroot."""


@attrs.frozen
class Replicas:
    """The replicas of one partition, in the order and with the fields of the topic node."""

    all: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """Where it goes; where it is, if it does not move."""
        return tuple(one for one in self.all if one not in self.removing)

    @property
    def former(self) -> tuple[int, ...]:
        """Where it comes from; their order is that of the target as far as they are in it."""
        return tuple(one for one in self.all if one not in self.adding)

    @property
    def moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    def towards(self, target: Sequence[int]) -> Replicas:
        """The same with another target: a reassignment under way is replaced, what it added and is not wanted goes."""
        every = tuple(dict.fromkeys((*target, *self.former)))
        adding = tuple(one for one in every if one not in self.former)
        return Replicas(every, adding, tuple(one for one in every if one not in target))


def replicas_of(assignment: TopicAssignment, index: int) -> Replicas:
    """The replicas of a partition; an unknown one has none."""
    return Replicas(
        assignment.partitions.get(index, ()), assignment.adding.get(index, ()), assignment.removing.get(index, ())
    )


def moving(assignment: TopicAssignment) -> dict[int, Replicas]:
    """The partitions of a topic that are being moved."""
    found = {index: replicas_of(assignment, index) for index in sorted({*assignment.adding, *assignment.removing})}
    return {index: one for index, one in found.items() if one.moving}


# ---- what may be asked for


@attrs.frozen
class Cancel:
    """The wish to go back to where a partition was when this was asked; it may be asked again after a lost reply."""

    former: tuple[int, ...]


Wish = Sequence[int] | Cancel


def wish(topic: KnownTopic, index: int, target: Sequence[int] | None, *, same_number: bool) -> Wish:
    """What a client asks for, `target` None meaning: cancel. NoReassignmentInProgress, UnknownTopicOrPartition,
    InvalidReplicationFactor where the number of replicas shall stay and does not.
    """
    now = replicas_of(topic.assignment, index)
    if not now.all:
        raise errors.UnknownTopicOrPartition("The partition does not exist.")
    if target is None:
        if not now.moving:
            raise errors.NoReassignmentInProgress("There is no reassignment of this partition to cancel.")
        return Cancel(now.former)
    if same_number and len(target) != len(now.former):
        raise errors.InvalidReplicationFactor(
            f"The partition has {len(now.former)} replicas and would get {len(target)}; the request forbids that."
        )
    return tuple(target)


def _wanted(known: ClusterState, now: Replicas, asked: Wish) -> Replicas:
    if not now.all:
        raise errors.UnknownTopicOrPartition("The partition does not exist.")
    if isinstance(asked, Cancel):
        if not now.moving and set(now.all) != set(asked.former):
            raise errors.NoReassignmentInProgress("The reassignment was finished before it could be cancelled.")
        return Replicas(now.former) if now.moving else now
    if not asked:
        raise errors.InvalidReplicaAssignment("Empty replica list specified in partition reassignment.")
    if len(set(asked)) != len(asked):
        raise errors.InvalidReplicaAssignment(f"Duplicate replica ids in partition reassignment: {list(asked)}.")
    if any(one < 0 for one in asked):
        raise errors.InvalidReplicaAssignment(f"Invalid broker id in replica list: {list(asked)}.")
    wanted = now.towards(asked)
    gone = sorted(one for one in wanted.adding if one not in known.brokers)
    if gone:
        raise errors.InvalidReplicaAssignment(f"These brokers are not registered and cannot get replicas: {gone}.")
    return wanted


# ---- (1)


@attrs.frozen
class Begun:
    """One multi's worth: `settled` are the partitions that need nothing more when it is applied, `refused` why not."""

    multi: Multi | None
    settled: frozenset[int]
    refused: Mapping[int, errors.KafkaError]


def begin(known: ClusterState, topic: KnownTopic, asked: Mapping[int, Wish], fences: Sequence[Operation]) -> Begun:
    """The next multi of what is asked for. It names the version of every node that it depends on, so any broker may
    write it; the controller's epoch in the states stays what it was.
    """
    steps: dict[int, Replicas] = {}
    refused: dict[int, errors.KafkaError] = {}
    settled: set[int] = set()
    pieces: list[Piece] = []
    room = _room(topic)
    for index, one in sorted(asked.items()):
        now = replicas_of(topic.assignment, index)
        try:
            wanted = _wanted(known, now, one)
            piece = None if wanted == now else _begun(known, topic, index, wanted)
        except errors.KafkaError as problem:
            refused[index] = problem
            continue
        if wanted != now:
            room -= _cost(piece, wanted)
            if steps and (room < 0 or len(steps) >= PIECES_PER_MULTI):
                break
            steps[index] = wanted
            pieces.extend([] if piece is None else [piece])
        settled.add(index)
    multi = _multi(topic, steps, pieces, fences, ()) if steps else None
    return Begun(multi, frozenset(settled), refused)


def _begun(known: ClusterState, topic: KnownTopic, index: int, wanted: Replicas) -> Piece | None:
    """The state in a new epoch. None: there is none yet, the controller makes one (A26)."""
    found = topic.states.get(index)
    if found is None:
        return None
    state = found.state
    isr = tuple(one for one in state.isr if one in wanted.all)
    if not isr:
        raise errors.InvalidReplicaAssignment(
            f"None of the replicas {list(wanted.all)} is in sync (ISR {list(state.isr)}); records would be lost."
        )
    leader = state.leader
    if leader != NO_LEADER and leader not in wanted.all:
        fit = _fit(known, topic, index, wanted.all, isr)
        if fit is None:
            raise errors.InvalidReplicaAssignment(
                f"None of the in-sync replicas {list(isr)} can take over from broker {leader}."
            )
        leader = fit
    how = f"moves to {list(wanted.target)}" if wanted.moving else f"stays on {list(wanted.all)}"
    return _in_new_epoch(topic, index, found, leader, isr, state.controller_epoch, how)


# ---- (3)


def finish(known: ClusterState, names: Iterable[str], authority: Authority) -> list[Multi]:
    """What can be finished in these topics now: one multi for each, the rest when that is applied."""
    multis = []
    for name in names:
        topic = known.topics.get(name)
        if topic is not None and name not in known.frozen and not known.is_dead(topic):
            done = dict(_done(known, topic, authority))
            if done:
                steps = {index: Replicas(replicas_of(topic.assignment, index).target) for index in done}
                multis.append(_multi(topic, steps, list(done.values()), (), (authority,)))
    return multis


def _done(known: ClusterState, topic: KnownTopic, authority: Authority) -> Iterator[tuple[int, Piece]]:
    room, count = _room(topic), 0
    for index, replicas in moving(topic.assignment).items():
        piece = _finished(known, topic, index, replicas, authority)
        if piece is None:
            continue
        room -= _cost(piece, replicas)
        if count and (room < 0 or count >= PIECES_PER_MULTI):
            return
        count += 1
        yield index, piece


def _finished(
    known: ClusterState, topic: KnownTopic, index: int, replicas: Replicas, authority: Authority
) -> Piece | None:
    found = topic.states.get(index)
    if found is None or not set(replicas.target) <= set(found.state.isr):
        return None
    state, target = found.state, replicas.target
    if state.leader not in known.brokers or known.is_draining(state.leader):
        return None  # an election comes first
    leader = state.leader if state.leader in target else _fit(known, topic, index, target, state.isr)
    if leader is None:
        return None
    isr = tuple(one for one in state.isr if one in target)
    return _in_new_epoch(topic, index, found, leader, isr, authority.epoch, f"has moved to {list(target)}")


# ---- common


def _fit(known: ClusterState, topic: KnownTopic, index: int, replicas: Sequence[int], isr: Sequence[int]) -> int | None:
    """R32: the first of these replicas that can lead."""
    for one in replicas:
        present = one in known.brokers and not known.is_draining(one)
        if one in isr and present and (topic.name, index) not in known.suspects(one):
            return one
    return None


def _in_new_epoch(
    topic: KnownTopic,
    index: int,
    found: VersionedState,
    leader: int,
    isr: tuple[int, ...],
    controller_epoch: int,
    why: str,
) -> Piece:
    return leads(topic, index, found, leader, isr, controller_epoch, why, recovering=found.state.recovering)


def _room(topic: KnownTopic) -> int:
    """Bytes for states in a multi that holds the topic node as well (A1)."""
    return MAX_MULTI_BYTES - _MARGIN - size(Set(topic.assignment.path, topic.assignment.encode(), 0))


def _cost(piece: Piece | None, replicas: Replicas) -> int:
    """A change repeats the state, and the topic node grows by the replicas' numbers."""
    states = 0 if piece is None else 2 * sum(map(size, piece.operations))
    return states + 12 * (len(replicas.all) + len(replicas.adding) + len(replicas.removing)) + 32


def _multi(
    topic: KnownTopic,
    steps: Mapping[int, Replicas],
    pieces: Sequence[Piece],
    fences: Sequence[Operation],
    authority: Sequence[Authority],
) -> Multi:
    """The topic node with these replicas, and the states, in one write."""
    now = topic.assignment
    after = attrs.evolve(
        now,
        partitions={**now.partitions, **{index: one.all for index, one in steps.items()}},
        adding=_with(now.adding, {index: one.adding for index, one in steps.items()}),
        removing=_with(now.removing, {index: one.removing for index, one in steps.items()}),
    )
    states = {piece.index: piece.state for piece in pieces if piece.state is not None}
    return Multi(
        (
            *fences,
            *(one.check() for one in authority),
            Set(after.path, after.encode(), topic.version),
            *(operation for piece in pieces for operation in piece.operations),
        ),
        (Change(CHANGE, topic.name, topic.topic_id, states),),
        (topic.name,),
        tuple(piece.reason for piece in pieces),
    )


def _with(now: Mapping[int, tuple[int, ...]], steps: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    return {index: one for index, one in {**now, **steps}.items() if one}
