"""Random histories of three brokers, one partition and a model of ZooKeeper: the net under replication.

What decides is the real code: Partition with its LeaderState, follower_state, isr_change, and the controller's
decisions. What is modelled is the world: disks, messages, sessions, clocks, and who does what next, all drawn from one
seed. A history is a few hundred steps; every step checks what must always hold, the end, after everything is healed,
checks what must hold at last. `Rules` switches single rules off: then histories must be found that go wrong.

Faults: kill -9 and restart, power loss (what was not flushed is gone), an emptied disk, a process that is paused past
its session and wakes with buffered requests, sessions that expire, replies of ZooKeeper that are lost, views that are
old, fetches and answers that are late or dropped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs

from brokerd.cluster import decisions
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
from brokerd.topic_config import TopicConfig
from kafka_wire import errors
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.fetch import FetchPartition, PartitionData
from zk_schema import paths
from zk_schema.nodes import (
    NO_LEADER,
    BrokerRegistration,
    ControllerEpoch,
    Incarnation,
    PartitionState,
    TopicAssignment,
    VersionedState,
)
from zk_schema.operations import Check, Create, Delete, NodeError, Operation, Set

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
                world.acked(sent, epoch)

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


class World:
    """Everything. `step` does one thing at random; `heal` ends all faults and lets the cluster come to rest."""

    def __init__(self, seed: int, rules: Rules | None = None, *, durability: str = "replicated") -> None:
        self.chance = random.Random(seed)
        self.rules = rules or Rules()
        self.config = TopicConfig(durability=durability, min_insync_replicas=2)
        self.now = 0.0
        self.store = CountedStore()
        self.ephemerals: dict[int, list[str]] = {}
        self.beats: dict[int, float] = {}
        self.owner: dict[int, int] = {}
        self.pipeline: list[Write] = []
        self.replies: list[tuple[Write, NodeError | None]] = []
        self.requests: list[Fetch] = []
        self.answers: list[Fetch] = []
        self.produced = 0
        self.all_acks: dict[int, str] = {}
        self.first_ack_of: dict[int, float] = {}
        self.visible: dict[int, str] = {}
        self.led: dict[int, int] = {}
        self.damaged: set[int] = set()
        self.trace: list[str] = []
        assignment = TopicAssignment(TP.topic, TOPIC_ID, {0: BROKERS})
        self.store.multi(
            [
                Create(paths.CONTROLLER_EPOCH, ControllerEpoch(0).encode()),
                Create(assignment.path, assignment.encode()),
                *(Create(paths.incarnation(one), Incarnation(one).encode()) for one in BROKERS),
            ]
        )
        self.nodes = [Node(self, number) for number in BROKERS]
        for node in self.nodes:
            node.start()
        self.settle(30)

    # ---- ZooKeeper

    def new_session(self, number: int) -> int:
        """A session that was just heard of."""
        session = len(self.owner) + 1
        self.owner[session], self.beats[session] = number, self.now
        return session

    def end_session(self, session: int) -> None:
        """Expired or closed: its nodes go, what it has in the pipeline is refused."""
        self.beats.pop(session, None)
        for path in self.ephemerals.pop(session, []):
            if path in self.store.nodes:
                self.store.multi([Delete(path)])
        self.pipeline = [one for one in self.pipeline if one.session != session]

    def state(self) -> VersionedState | None:
        """The partition's state as it is now."""
        found = self.store.nodes.get(STATE)
        return None if found is None else VersionedState(PartitionState.decode(*TP, found[0]), found[1])

    def set_state(self, state: PartitionState, version: int) -> None:
        """Somebody writes it."""
        self.store.multi([Set(STATE, state.encode(), version)])
        self._check_state()

    def _check_state(self) -> None:
        found = self.state()
        if found is not None and (not found.state.isr or not set(found.state.isr) <= set(BROKERS)):
            raise Broken(f"I6: the ISR is {found.state.isr}")

    # ---- what must always hold

    def leads(self, node: Node, epoch: int) -> None:
        """S12, S1: one leader for each epoch, and it has all that was acknowledged by all."""
        if self.led.setdefault(epoch, node.number) != node.number:
            raise Broken(f"S12: epoch {epoch} is led by {self.led[epoch]} and {node.number}")
        self._check_has_all(node, f"the new leader {node.number} of epoch {epoch}")

    def _has_all(self, node: Node) -> bool:
        entries = node.log.entries
        return all(at < len(entries) and entries[at].value == value for at, value in self.all_acks.items())

    def _check_has_all(self, node: Node, who: str) -> None:
        entries = node.log.entries
        for offset, value in self.all_acks.items():
            if offset >= len(entries) or entries[offset].value != value:
                raise Broken(f"S1: {who} does not have {value}, which was acknowledged at {offset}")

    def acked(self, sent: Sent, epoch: int) -> None:
        """S12: nobody acknowledges at an old epoch once a newer one has, but for the horizon of A16 (b)."""
        for later, when in self.first_ack_of.items():
            if later > epoch and self.now > when + HORIZON:
                raise Broken(f"S12: {sent.value} acknowledged at epoch {epoch} after an acknowledgement at {later}")
        self.first_ack_of.setdefault(epoch, self.now)
        if sent.acks == -1:
            self.all_acks[sent.offset] = sent.value

    def check(self) -> None:
        """After every step: what consumers can see never changes (S2); V1; epochs of a log never fall (I3)."""
        for node in self.nodes:
            partition, log = node.partition, node.log
            if not node.up:
                continue
            if not 0 <= partition.high_watermark <= log.log_end:
                raise Broken(f"V1: broker {node.number} has {partition.high_watermark} of {log.log_end}")
            epochs = [entry.epoch for entry in log.entries]
            if epochs != sorted(epochs):
                raise Broken(f"I3: the epochs of broker {node.number} are {epochs}")
            if partition.is_leader:
                for entry in log.entries[: partition.high_watermark]:
                    if self.visible.setdefault(entry.offset, entry.value) != entry.value:
                        raise Broken(f"S2: offset {entry.offset} was {self.visible[entry.offset]}, now {entry.value}")

    # ---- steps

    def step(self) -> None:
        """One thing happens."""
        chance = self.chance
        self.now += chance.uniform(0, 0.05)
        weighted: list[tuple[float, Callable[[], None]]] = [
            (8, self._beat),
            (4, self._learn),
            (4, self._control),
            (30, self._ask),
            (30, self._serve),
            (30, self._take),
            (14, self._produce),
            (20, self._flush),
            (6, self._isr),
            (4, self._apply),
            (4, self._reply),
            (1.0, self._expire),
            (0.8, self._crash),
            (1.0, self._restart),
            (0.3, self._pause),
            (0.8, self._wake),
            (0.3, self._pass_time),
            (3.0, self._spite),
            (0.5, self._move),
            (0.4, self._drain),
        ]
        (action,) = chance.choices([one for _, one in weighted], [weight for weight, _ in weighted])
        action()
        self._check_state()
        self.check()

    def _some(self, fits: Callable[[Node], bool] = lambda node: True) -> Node | None:
        found = [node for node in self.nodes if node.up and not node.paused and fits(node)]
        return self.chance.choice(found) if found else None

    def _note(self, text: str) -> None:
        self.trace.append(f"{self.now:7.2f} {text}")

    def _beat(self) -> None:
        for node in self.nodes:
            if node.up and not node.paused and node.session in self.beats and self.chance.random() < 0.8:
                self.beats[node.session] = self.now
                node.lease_until = self.now + SESSION - MARGIN
                node.partition.advance()

    def _expire(self) -> None:
        for session, beat in list(self.beats.items()):
            if self.now > beat + SESSION:
                self._note(f"the session of {self.owner[session]} expires")
                self.end_session(session)

    def _learn(self) -> None:
        node = self._some()
        if node is None:
            return
        if node.session not in self.beats:
            node.begin_session()
        else:
            node.learn()

    def _control(self) -> None:
        """Election of a controller if there is none, else one round of its decisions, on its own old view."""
        node = self._some(lambda one: one.registered and one.session in self.beats)
        if node is None or node.session is None:
            return
        if paths.CONTROLLER not in self.store.nodes:
            _, version = self.store.nodes[paths.CONTROLLER_EPOCH]
            node.authority = Authority(version + 1, version + 1)
            epoch = Set(paths.CONTROLLER_EPOCH, ControllerEpoch(version + 1).encode(), version)
            self.store.multi([Create(paths.CONTROLLER), epoch])
            self.ephemerals.setdefault(node.session, []).append(paths.CONTROLLER)
            self._note(f"{node.number} is controller")
        for one in self.nodes:
            if one.up and not one.paused and one.authority is not None:
                self._decide(one)

    def _decide(self, node: Node) -> None:
        assert node.authority is not None
        if self.chance.random() < 0.7:
            node.learn()
        for multi in decisions.decide(
            node.known, [TP.topic], node.authority, unclean=lambda _: False, new_id=lambda: b"\2" * 16
        ):
            try:
                self.store.multi([one for one in multi.all() if not isinstance(one, Create) or not one.sequence])
            except NodeError as problem:
                if problem.path == paths.CONTROLLER_EPOCH:
                    node.authority = None
                return
            self._note(f"controller {node.number}: {'; '.join(multi.reasons)}")
            if self.chance.random() < 0.7:  # else the reply is lost, and it will read what it wrote
                for change in multi.changes:
                    node.known.put_states(TP.topic, change.states.items())

    def _ask(self) -> None:
        for node in self.nodes:
            if node.up and not node.paused and self.chance.random() < 0.7:
                fetch = node.ask()
                if fetch is not None:
                    self.requests.append(fetch)

    def _serve(self) -> None:
        for fetch in list(self.requests):
            leader = self.nodes[fetch.leader]
            if leader.paused or self.chance.random() < 0.4:
                continue
            self.requests.remove(fetch)
            if leader.up and self.chance.random() < 0.95:
                leader.serve(fetch, self.chance.randint(1, 4))
            self.answers.append(fetch)

    def _take(self) -> None:
        for fetch in list(self.answers):
            node = self.nodes[fetch.follower]
            if node.paused or self.chance.random() < 0.3:
                continue
            self.answers.remove(fetch)
            mine = node.up and (node.life, node.connection) == (fetch.life, fetch.connection)
            if mine and self.chance.random() < 0.95:
                node.take(fetch)
            elif mine:
                node.fetching = False

    def _produce(self) -> None:
        node = self._some(lambda one: one.partition.is_leader)
        if node is not None:
            self.produced += 1
            node.produce(Sent(f"v{self.produced}", self.chance.choice((-1, -1, -1, 1))))

    def _flush(self) -> None:
        for node in self.nodes:
            if node.up and not node.paused and self.chance.random() < 0.6:
                node.log.flush()
                node.partition.advance()

    def _isr(self) -> None:
        node = self._some(lambda one: one.partition.is_leader)
        if node is not None:
            node.look_at_isr()

    def _apply(self) -> None:
        """ZooKeeper takes the next multi; also one of a broker that is dead by now."""
        if not self.pipeline:
            return
        write = self.pipeline.pop(0)
        problem: NodeError | None = None
        try:
            self.store.multi(write.operations)
        except NodeError as refused:
            problem = refused
        else:
            self._note(f"written: {self.state()}")
        self.replies.append((write, problem))

    def _reply(self) -> None:
        if not self.replies:
            return
        node = self.nodes[self.owner[self.replies[0][0].session]]
        if node.paused:
            return
        write, problem = self.replies.pop(0)
        if write.session not in self.beats or not node.up or node.session != write.session:
            return
        if self.chance.random() < 0.15:
            self._note("a reply is lost")
            write.lost()
        else:
            write.done(problem)

    def _crash(self) -> None:
        """Kills at will. Of losses that rule V7 or A24 cannot mend there is one at a time."""
        node = self._some()
        if node is None:
            return
        self._die(node, self.chance.choice(("kill", "kill", "kill", "power", "power", "wipe")))

    def _die(self, node: Node, how: str) -> None:
        lossy = how == "wipe" or (how == "power" and self.config.durability != "flushed")
        self.damaged = {one for one in self.damaged if not self._has_all(self.nodes[one])}
        if lossy and self.damaged - {node.number}:
            how = "kill"
        elif lossy:
            self.damaged.add(node.number)
        self._note(f"{node.number} dies: {how}, its log {len(node.log.entries)}, flushed {node.log.flushed}")
        node.die(how)
        self.answers = [one for one in self.answers if one.follower != node.number]

    def _spite(self) -> None:
        """The worst moment: who is being added to an ISR loses its disk, or the leader dies before it knows that the
        change was applied."""
        for write in self.pipeline:
            for number in write.added:
                node = self.nodes[number]
                if node.up and self.chance.random() < 0.5:
                    self._die(node, "wipe")
                    node.start()
                    return
        for write, problem in self.replies:
            node = self.nodes[self.owner[write.session]]
            if write.added and problem is None and node.up and node.partition.is_leader and len(self.all_acks) % 2:
                self._die(node, "kill")
                return

    def _move(self) -> None:
        """Leadership moves to another member of the ISR while both live: preferred leaders, reassignment."""
        found = self.state()
        if found is None:
            return
        able = [one for one in found.state.isr if one != found.state.leader and self.nodes[one].registered]
        if able and found.state.leader != NO_LEADER:
            after = attrs.evolve(
                found.state, leader=self.chance.choice(able), leader_epoch=found.state.leader_epoch + 1
            )
            self._note(f"moved: {after}")
            self.set_state(after, found.version)

    def _drain(self) -> None:
        """SIGTERM; it dies some time later, by a crash, or is started again."""
        node = self._some(lambda one: one.registered and one.session in self.beats)
        if node is not None:
            self._note(f"{node.number} drains")
            node.drain()

    def _restart(self) -> None:
        down = [node for node in self.nodes if not node.up]
        if down:
            node = self.chance.choice(down)
            self._note(f"{node.number} starts, its log {len(node.log.entries)}")
            node.start()

    def _pause(self) -> None:
        node = self._some()
        if node is not None:
            self._note(f"{node.number} is paused")
            node.paused = True

    def _wake(self) -> None:
        """A15: sockets come before timers, so requests and produce that were buffered are served first."""
        paused = [node for node in self.nodes if node.up and node.paused]
        if not paused:
            return
        node = self.chance.choice(paused)
        self._note(f"{node.number} wakes")
        node.paused = False
        if node.partition.is_leader:
            for fetch in [one for one in self.requests if one.leader == node.number]:
                self.requests.remove(fetch)
                node.serve(fetch, 2)
                self.answers.append(fetch)
            for _ in range(3):
                self.produced += 1
                node.produce(Sent(f"v{self.produced}", self.chance.choice((-1, 1))))

    def _pass_time(self) -> None:
        self.now += self.chance.uniform(0, 2 * SESSION)

    # ---- the end

    def heal(self) -> None:
        """No more faults: everybody runs, and in the end all have the same."""
        for node in self.nodes:
            node.paused = False
            if not node.up or node.draining:
                node.die("kill")
                node.start()
        self.settle(250)
        found = self.state()
        assert found is not None
        if found.state.leader == NO_LEADER:
            if not any(node.known.suspects(one) for node in self.nodes for one in BROKERS):
                raise Broken(f"nobody leads: {found}")
            return  # A24: only an operator can decide
        leader = self.nodes[found.state.leader]
        self._check_has_all(leader, f"the last leader {leader.number}")
        if set(found.state.isr) != set(BROKERS):
            raise Broken(f"not all are in sync at the end: {found}")
        first, *others = [[*node.log.entries][: leader.partition.high_watermark] for node in self.nodes]
        if any(first != other for other in others):
            raise Broken("S11: the replicas differ")

    def settle(self, rounds: int) -> None:
        """Everybody does what there is to do, in no particular order."""
        for _ in range(rounds):
            self.now += 0.05
            for action in (self._beat, self._learn, self._control, self._ask, self._serve, self._take, self._flush):
                action()
            self._isr()
            self._apply()
            self._reply()
            self._expire()
            self._check_state()
            self.check()


def run(seed: int, rules: Rules | None = None, *, durability: str = "replicated", steps: int = 600) -> World:
    """One history; raises Broken."""
    rules = rules or Rules()
    with switched(rules):
        world = World(seed, rules, durability=durability)
        for _ in range(steps):
            world.step()
        world.heal()
    return world
