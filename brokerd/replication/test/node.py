"""One broker of the simulation: what is on its disk outlives it, everything else is of one life.

It plays the parts of the shells (roles, fetch loop, ISR writer, life) around the real Partition, follower_state and
isr_change; the world around it, and what is checked, are in simulation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from brokerd.cluster.cluster_state import ClusterState, LiveBroker
from brokerd.cluster.decisions import Authority
from brokerd.cluster.test.store import Store
from brokerd.partition import Partition
from brokerd.replication import isr_change
from brokerd.replication.follower_state import Cut, Question, Restart, Take, next_step
from brokerd.replication.isr_change import IsrChange, Outcome
from brokerd.replication.leader_state import NEVER, Heard, LeaderState
from brokerd.replication.surroundings import Surroundings
from brokerd.replication.test.model_log import Entry, ModelLog
from kafka_wire import errors
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.fetch import FetchPartition, PartitionData
from zk_schema import paths
from zk_schema.nodes import (
    NO_LEADER,
    BrokerRegistration,
    Incarnation,
    PartitionState,
    VersionedState,
)
from zk_schema.operations import Check, Create, NodeError, Operation, Set

if TYPE_CHECKING:
    from brokerd.replication.test.simulation import World

TP = TopicPartition("logs", 0)
TOPIC_ID = b"\1" * 16
STATE = paths.partition_state(*TP)
SESSION = 3.0
MARGIN = 0.5
LAG = 4.0
HORIZON = 1.0
BROKERS = (0, 1, 2)


class CountedStore(Store):
    """Knows whether anything has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def multi(self, operations: Sequence[Operation]) -> None:
        """Counts those that were applied."""
        super().multi(operations)
        self.changes += 1


class Broken(AssertionError):
    """A promise was broken; the text says which, and how."""


@attrs.frozen
class Rules:
    """All rules hold unless they are switched off."""

    a3: bool = True
    """An ISR change checks the incarnations of those it adds."""
    a6: bool = True
    """An expansion counts from the moment it is sent (and who is about to join before that, R5)."""
    a7: bool = True
    """A log that may have lost records is suspect."""
    a10: bool = True
    """A suspect replica writes itself out before it registers."""
    a16: bool = True
    """A leader that may have been replaced takes no writes."""
    v2: bool = True
    """The high watermark is the least of the ISR, not the leader's own end."""
    v4: bool = True
    """A follower of a `flushed` topic asks for more only when what it has is flushed."""
    r25: bool = True
    """A follower cuts where its history parts from the leader's."""


@contextmanager
def switched(rules: Rules) -> Iterator[None]:
    """The real code with rules that live in it switched off, for the negative controls."""
    former_count, former_mark = LeaderState._count, LeaderState.high_watermark
    if not rules.a6:

        def count(self: LeaderState) -> None:
            members = self.committed
            self._counted = tuple(one for one in self.followers.values() if one.broker_id in members)

        LeaderState._count = count  # type: ignore[method-assign]
    if not rules.v2:

        def high_watermark(self: LeaderState, own_end: int, current: int, min_insync: int) -> int:
            return max(own_end, current)

        LeaderState.high_watermark = high_watermark  # type: ignore[method-assign]
    try:
        yield
    finally:
        LeaderState._count, LeaderState.high_watermark = former_count, former_mark  # type: ignore[method-assign]


@attrs.define(eq=False)
class Fetch:
    """A request on its way, then waiting at the leader, then its answer on its way."""

    follower: int
    leader: int
    life: int
    connection: int
    question: Question
    replica_epoch: int
    answer: PartitionData | None = None
    records: tuple[Entry, ...] = ()


@attrs.define(eq=False)
class Write:
    """A multi in a session's pipeline. `done` gets None, the error, or never anything: the reply is lost."""

    session: int
    operations: list[Operation]
    added: tuple[int, ...]
    done: Callable[[NodeError | None], None]
    lost: Callable[[], None]


@attrs.define(eq=False)
class Sent:
    """A produce request that waits; `acks` is -1 or 1."""

    value: str
    acks: int
    offset: int = -1


class Node:
    """One broker: what is on its disk outlives it, everything else is of one life."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.log = ModelLog(world.config)
        self.mark_on_disk = 0
        self.lost_power = False
        self.wiped = False
        self.up = False
        self.paused = False
        self.life = 0
        self.session: int | None = None
        self.lease_until = NEVER
        self.epoch = -1
        self.registered = False
        self.draining = False
        self.authority: Authority | None = None
        self.known = ClusterState()
        self.seen = -1
        self.partition = self._partition()
        self.following: tuple[int, int] | None = None
        self.fetching = False
        self.connection = 0
        self.heard: dict[int, Heard] = {}
        self.answered_at: dict[tuple[int, int], float] = {}
        """When the last answer on a follower's connection was sent."""

    def _partition(self) -> Partition:
        world = self.world
        self.around = Surroundings(
            now=lambda: world.now,
            lease_valid=lambda: not world.rules.a16 or world.now < self.lease_until,
            lag_seconds=LAG,
            horizon_seconds=HORIZON,
        )
        made = Partition(TP, self.log, self.number, self.around)  # type: ignore[arg-type]
        made.high_watermark = min(self.mark_on_disk, self.log.log_end)
        return made

    # ---- a life

    def start(self) -> None:
        """A8 to A10 in one go; the world is not still meanwhile, but what matters are the versions."""
        self.up, self.paused, self.draining = True, False, False
        self.life += 1
        self.known, self.seen = ClusterState(), -1
        self.partition = self._partition()
        self.following, self.fetching = None, False
        self.heard, self.answered_at = {}, {}
        self.authority = None
        self.begin_session()

    def begin_session(self) -> None:
        """Also after an expired session: the same path (A12)."""
        world = self.world
        self.draining = False
        self.drop_roles()
        if self.session is not None:
            world.end_session(self.session)
        self.session = world.new_session(self.number)
        self.lease_until = world.now + SESSION - MARGIN
        path = paths.incarnation(self.number)
        data, version = world.store.nodes[path]
        former = Incarnation.decode(self.number, data)
        world.store.multi([Set(path, Incarnation(self.number, suspect=former.suspect).encode(), version)])
        self.epoch = version + 1
        lost = world.rules.a7 and (self.wiped or (self.lost_power and world.config.durability != "flushed"))
        found = world.state()
        if found is not None:
            self._write_out(found, lost, former)
        world.store.multi(
            [
                Check(path, self.epoch),
                Create(paths.broker(self.number), BrokerRegistration(self.number, (), 0, self.epoch).encode()),
            ]
        )
        world.ephemerals.setdefault(self.session, []).append(paths.broker(self.number))
        self.registered = True
        self.lost_power = self.wiped = False
        self.learn()

    def _write_out(self, found: VersionedState, lost: bool, former: Incarnation) -> None:
        world, state = self.world, found.state
        isr, leader, epoch = state.isr, state.leader, state.leader_epoch
        alone = isr == (self.number,)
        suspect: tuple[tuple[str, int], ...] = ((TP.topic, TP.partition),) if alone and (lost or former.suspect) else ()
        if not world.rules.a10:
            suspect, lost = (), False
        if suspect != former.suspect:
            data = Incarnation(self.number, suspect=suspect).encode()
            world.store.multi([Set(paths.incarnation(self.number), data, self.epoch)])
            self.epoch += 1
        if lost and not alone:
            isr = tuple(one for one in isr if one != self.number)
        if leader == self.number:
            leader, epoch = NO_LEADER, epoch + 1
        if (isr, leader) != (state.isr, state.leader):
            world.set_state(attrs.evolve(state, isr=isr, leader=leader, leader_epoch=epoch), found.version)

    def drop_roles(self) -> None:
        """A12."""
        self.registered = False
        self.authority = None
        self.following, self.fetching = None, False
        self.connection += 1
        self.heard, self.answered_at = {}, {}
        if self.partition.is_leader:
            self.partition.resign()

    def drain(self) -> None:
        """A13: nobody adds this broker to an ISR any more, and the controller moves what it leads."""
        if self.registered and not self.draining:
            data = Incarnation(self.number, draining=True, suspect=tuple(self.known.suspects(self.number))).encode()
            self.world.store.multi([Set(paths.incarnation(self.number), data, self.epoch)])
            self.draining = True

    def die(self, how: str) -> None:
        """kill -9, power loss, or the disk is emptied as well."""
        self.mark_on_disk = min(self.partition.high_watermark, self.log.log_end)
        if how != "kill":
            self.log.lose_power() if how == "power" else self.log.wipe()
            self.lost_power, self.wiped = self.lost_power or how == "power", self.wiped or how == "wipe"
            self.mark_on_disk = min(self.mark_on_disk, self.log.log_end)
        self.up = self.registered = False
        self.authority = None
        self.partition.leading = None
        self.partition.is_leader = False

    # ---- learning

    def learn(self) -> None:
        """A9, A18-A21: everything as it is now. Between two of these the view is old."""
        world, known = self.world, self.known
        if self.seen != world.store.changes:
            self.seen = world.store.changes
            self._read(world, known)
        topic = known.topics.get(TP.topic)
        found = None if topic is None else topic.states.get(0)
        if found is not None and self.registered:
            self._play(found)

    def _read(self, world: World, known: ClusterState) -> None:
        world.store.read(known)
        brokers = {}
        for text in world.store.children(paths.BROKER_IDS):
            data, _ = world.store.nodes[paths.broker(int(text))]
            brokers[int(text)] = LiveBroker(BrokerRegistration.decode(int(text), data), 0)
        known.set_brokers(brokers)
        for number in BROKERS:
            data, version = world.store.nodes[paths.incarnation(number)]
            known.set_incarnation(Incarnation.decode(number, data), version)
        self.around.registered = {number: one.registration.epoch for number, one in brokers.items()}
        self.around.fit = {one: at for one, at in self.around.registered.items() if not known.is_draining(one)}

    def _play(self, found: VersionedState) -> None:
        partition, state = self.partition, found.state
        if state.leader != self.number:
            if state.leader_epoch > partition.leader_epoch or not partition.is_leader:
                self._follow(state)
            return
        if partition.is_leader and state.leader_epoch <= partition.leader_epoch:
            if state.leader_epoch == partition.leader_epoch:
                partition.settle_isr(BROKERS, state.isr, found.version)
            return
        if state.leader_epoch <= self.log.latest_epoch:
            return
        if partition.is_leader:
            partition.resign()
        self.following = None
        self.world.leads(self, state.leader_epoch)
        self.heard, self.answered_at = {}, {}
        partition.lead(state.leader_epoch, BROKERS, state.isr, partition.high_watermark, found.version)

    def _follow(self, state: PartitionState) -> None:
        if state.leader_epoch < self.partition.leader_epoch:
            return
        self.partition.follow(state.leader_epoch, BROKERS, state.isr)
        self.following = None if state.leader == NO_LEADER else (state.leader, state.leader_epoch)

    # ---- following

    def ask(self) -> Fetch | None:
        """The next request, if it is time for one."""
        log, partition = self.log, self.partition
        if self.following is None or self.fetching or partition.is_leader or not self.registered:
            return None
        if self.world.config.durability == "flushed" and self.world.rules.v4 and log.flushed < log.log_end:
            return None
        self.fetching = True
        return Fetch(self.number, self.following[0], self.life, self.connection, partition.question(), self.epoch)

    def take(self, fetch: Fetch) -> None:
        """The answer has come."""
        self.fetching = False
        partition, answer = self.partition, fetch.answer
        if answer is None or self.following != (fetch.leader, fetch.question.leader_epoch) or partition.is_leader:
            return
        if not self.world.rules.r25:
            answer = answer._replace(diverging_epoch=PartitionData().diverging_epoch)
        step = next_step(
            fetch.question,
            answer,
            log_start=0,
            log_end=self.log.log_end,
            epoch_end=self.log.epoch_end_offset,
        )
        if isinstance(step, Cut):
            partition.cut(step.offset)
        elif isinstance(step, Restart):
            partition.restart(step.offset)
        elif isinstance(step, Take):
            if fetch.records:
                partition.copy(fetch.records)  # type: ignore[arg-type]
                partition.write()
            partition.adopt(step.high_watermark, 0)

    # ---- leading

    def serve(self, fetch: Fetch, count: int) -> None:
        """A22, R25: fills in the answer."""
        partition, question, follower = self.partition, fetch.question, fetch.follower
        known = self.around.registered.get(follower, -1)
        heard = self.heard.setdefault(follower, Heard())
        heard.at, heard.proven_at = self.world.now, self.answered_at.get((follower, fetch.connection), NEVER)
        try:
            if fetch.replica_epoch != known:
                raise errors.StaleBrokerEpoch() if fetch.replica_epoch < known else errors.UnknownLeaderEpoch()
            asked = FetchPartition(0, question.leader_epoch, question.offset, question.last_epoch, 0, 1)
            diverging = partition.asked(follower, fetch.replica_epoch, asked, heard)
        except errors.KafkaError as problem:
            out = problem.code == errors.OFFSET_OUT_OF_RANGE
            fetch.answer = PartitionData(0, problem.code, -1, self.log.log_end if out else -1, 0 if out else -1)
            return
        self.answered_at[follower, fetch.connection] = self.world.now
        mark = partition.high_watermark
        if diverging is not None:
            fetch.answer = PartitionData(0, 0, mark, mark, 0, diverging)
            return
        fetch.answer = PartitionData(0, 0, mark, mark, 0)
        fetch.records = self.log.read(question.offset, count)

    def produce(self, sent: Sent) -> None:
        """A client believes that this is the leader."""
        partition, world = self.partition, self.world
        try:
            partition.check_leader()
            if sent.acks == -1:
                partition.check_enough_replicas()
            sent.offset = partition.append(sent.value, 0).first_offset  # type: ignore[arg-type]
        except errors.KafkaError:
            return
        epoch = partition.leader_epoch

        def tell(problem: errors.KafkaError | None) -> None:
            if problem is None:
                world.acked(sent, epoch, self)

        if sent.acks == 1:
            partition.when_written(sent.offset + 1, tell)
        else:
            partition.when_committed(sent.offset + 1, tell)
        partition.write()

    def look_at_isr(self) -> None:
        """A3: what is to be written goes into the session's pipeline."""
        partition, topic = self.partition, self.known.topics.get(TP.topic)
        leading = partition.leading
        if leading is None or topic is None or not self.registered:
            return
        found = topic.states.get(0)
        if found is None or (found.version, found.state.leader_epoch) != (leading.version, leading.leader_epoch):
            return
        isr = partition.wished_isr()
        if isr is None:
            return
        added = tuple((one, leading.followers[one].replica_epoch) for one in isr if one not in leading.committed)
        change = IsrChange(TP.topic, TOPIC_ID, 0, found, isr, added)
        leading.send(isr)
        self._write_isr(change, leading)

    def _write_isr(self, change: IsrChange, leading: LeaderState) -> None:
        operations = list(change.piece().operations)
        if not self.world.rules.a3:
            operations = [one for one in operations if not isinstance(one, Check)]
        guard = isr_change.fence(self.number, self.epoch + self.draining)

        def matters() -> bool:
            return self.up and self.partition.leading is leading

        def done(problem: NodeError | None) -> None:
            if not matters():
                return
            if problem is None:
                after = VersionedState(change.state, change.found.version + 1)
            else:
                there = self.world.state()
                result = isr_change.outcome(change, there)
                if result is Outcome.OVER or there is None:
                    return
                after = there
            self.known.put_states(TP.topic, [(0, after)])
            self.partition.settle_isr(BROKERS, after.state.isr, after.version)
            self.partition.isr_settled()

        def lost() -> None:
            if matters() and self.session is not None:
                self._write_isr(change, leading)

        assert self.session is not None
        names = tuple(one for one, _ in change.added)
        self.world.pipeline.append(Write(self.session, [guard, *operations], names, done, lost))
