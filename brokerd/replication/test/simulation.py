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
from collections.abc import Callable

import attrs

from brokerd.cluster import decisions
from brokerd.cluster.decisions import Authority
from brokerd.replication.test.node import (
    BROKERS,
    HORIZON,
    MARGIN,
    SESSION,
    STATE,
    TOPIC_ID,
    TP,
    Broken,
    CountedStore,
    Fetch,
    Node,
    Rules,
    Sent,
    Write,
    switched,
)
from brokerd.topic_config import TopicConfig
from zk_schema import paths
from zk_schema.nodes import (
    NO_LEADER,
    ControllerEpoch,
    Incarnation,
    PartitionState,
    TopicAssignment,
    VersionedState,
)
from zk_schema.operations import Create, Delete, NodeError, Set

__all__ = ["SESSION", "Broken", "Node", "Rules", "Sent", "World", "run", "switched"]


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

    def acked(self, sent: Sent, epoch: int, node: Node) -> None:
        """S12: whose session may be over acknowledges nothing at an old epoch once a newer one has begun, but for the
        horizon of A16 (b). (A leader that was replaced while it lives may not know it yet; it learns within moments.)
        """
        for later, when in self.first_ack_of.items():
            if later > epoch and self.now > when + HORIZON and self.now > node.lease_until:
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
