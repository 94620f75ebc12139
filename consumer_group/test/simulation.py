"""A group in simulated time: real engines, rebalancers, scribes and deliveries over the model ZooKeeper and model logs.

What is watched all the time (facts/reliability.md 4.2):
G2 a record is delivered only while the owner node of its partition is the deliverer's;
G3 a committed offset never goes back; G4 a commit is the owner's, and never ahead of what the application was handed;
G5 the first record of a claim is the committed one. At the end, after a time without faults: G1 everything was
delivered and committed, G6 every partition is owned, by members that are at rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from twisted.internet.task import Clock

from consumer_group.asynchronous import pause
from consumer_group.chunks import Chunk
from consumer_group.deliveries import Deliveries, Flow, FlowState
from consumer_group.engine import Engine
from consumer_group.membership import State
from consumer_group.polling import Poller
from consumer_group.settings import Settings
from consumer_group.test.model_zookeeper import ModelSession, Server
from consumer_group.types import OffsetAndTimestamp
from kafka_wire.ids import TopicPartition
from kafka_wire.records import Record, encode_batch
from zk_schema import paths
from zk_schema.consumer_nodes import Registration
from zk_schema.nodes import TopicAssignment
from zk_schema.operations import Create, Operation, Set

GROUP, TOPIC = "g", "t"
TIMEOUT = 4.0


class Violation(AssertionError):
    """One of the invariants does not hold."""


class MemberReactor:
    """A process' own time: stands still while it is paused, and catches up in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[Callable[[], None]] = []
        self.paused = False
        self.dead = False

    def seconds(self) -> float:
        """The world's time."""
        return float(self._clock.seconds())

    def callLater(self, delay: float, function: Callable[..., Any], *arguments: Any) -> Any:
        """As reactors have it."""
        return self._clock.callLater(delay, self.post, function, *arguments)

    def post(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Now, or when the process goes on, or never."""
        if self.dead:
            return
        if self.paused:
            self._waiting.append(lambda: function(*arguments))
        else:
            function(*arguments)

    def resume(self) -> None:
        """Goes on."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self.post(call)


class ModelLogs:
    """The topic's partitions, and the two parts of a consumer that talk to brokers."""

    def __init__(self, dice: random.Random, partitions: int) -> None:
        self.ends = [0] * partitions
        self._dice = dice

    def grow(self) -> None:
        """Somebody produces."""
        self.ends[self._dice.randrange(len(self.ends))] += self._dice.randint(1, 4)


class ModelLookup:
    """ListOffsets that sometimes does not answer."""

    def __init__(self, reactor: MemberReactor, logs: ModelLogs, dice: random.Random) -> None:
        self._reactor, self._logs, self._dice = reactor, logs, dice

    async def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Earliest is 0."""
        await pause(self._reactor, self._dice.uniform(0, 0.05))
        chosen = [one for one in partitions if self._dice.random() < 0.8]
        ends = self._logs.ends
        return {one: OffsetAndTimestamp(0 if timestamp == -2 else ends[one.partition], 0, 0) for one in chosen}


class ModelFetcher:
    """Brings batches of a few records into the flows."""

    def __init__(self, reactor: MemberReactor, logs: ModelLogs, deliveries: Deliveries, dice: random.Random) -> None:
        self._reactor, self._logs, self._deliveries, self._dice = reactor, logs, deliveries, dice
        self._stopped = False
        self._round()

    def wake(self) -> None:
        """It looks by itself."""

    def stop(self) -> None:
        """No more."""
        self._stopped = True

    def _round(self) -> None:
        if self._stopped:
            return
        for flow in self._deliveries.flows():
            end = self._logs.ends[flow.partition.partition]
            if flow.state is FlowState.FLOWING and 0 <= flow.fetch_position < end and not flow.chunks:
                start = flow.fetch_position
                count = min(end - start, self._dice.randint(1, 5))
                data = encode_batch([Record(0, 0, None, b"v") for _ in range(count)], base_offset=start)
                self._deliveries.add(flow, Chunk(data, start, start + count), flow.seeks)
        self._reactor.callLater(self._dice.uniform(0.01, 0.1), self._round)


@attrs.define(eq=False)
class Process:
    """One member: its time, its session, its engine, and an application that polls."""

    name: int
    reactor: MemberReactor
    session: ModelSession
    engine: Engine
    poller: Poller
    fetcher: ModelFetcher
    closing: bool = False
    idle: bool = False
    """Whether its application does not poll."""
    gone: bool = False


class Simulation:
    """A world with one group, from one seed."""

    def __init__(
        self, seed: int, *, partitions: int = 6, strategy: str = "range", hostile: float = 0.3, slow: bool = False
    ) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock()
        self.server = Server(self.clock, TIMEOUT)
        self.server.on_apply = self._applied
        self.logs = ModelLogs(self.dice, partitions)
        self.strategy = strategy
        self.hostile = hostile
        self.slow = slow
        self.processes: list[Process] = []
        self.delivered: list[set[int]] = [set() for _ in range(partitions)]
        self.handed: dict[tuple[int, int], int] = {}
        self.committed = [-1] * partitions
        self.first_seen: set[int] = set()
        self._keep: list[Flow] = []
        self.producing = True
        self.changes = 0
        topic = TopicAssignment(TOPIC, b"i" * 16, dict.fromkeys(range(partitions), (0,)))
        self.server.multi(0, [Create(path) for path in ("/brokers", "/brokers/topics")])
        self.server.multi(0, [Create(topic.path, topic.encode())])
        self._produce()

    # --- the world goes on ---

    def run(self, seconds: float, step: float = 0.005) -> None:
        """So much simulated time."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            calls: list[Any] = list(self.clock.getDelayedCalls())
            ahead = min((call.getTime() for call in calls), default=end) - self.clock.seconds()
            self.clock.advance(min(max(ahead, step), end - self.clock.seconds() + step))

    def _produce(self) -> None:
        if self.producing:
            self.logs.grow()
            self.clock.callLater(self.dice.uniform(0.05, 0.4), self._produce)

    def join(self) -> Process:
        """A member comes."""
        self.changes += 1
        number = len(self.processes)
        dice = random.Random(self.dice.getrandbits(64))
        reactor = MemberReactor(self.clock)
        session = ModelSession(self.server, reactor, dice, hostile=self.hostile)
        session.delay = 0.2 if self.slow else 0.01
        settings = Settings(
            group_id=GROUP,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=700,
            max_poll_interval_ms=3000,
            assignment_strategy=self.strategy,
        )
        deliveries = Deliveries(lease_valid=lambda: session.lease_valid())
        registration = Registration((TOPIC,), None, self.strategy, 1, round(self.clock.seconds() * 1000))
        engine = Engine(
            reactor,
            session,
            settings,
            deliveries,
            registration,
            ModelLookup(reactor, self.logs, dice),
            dice=dice,
            wall_ms=lambda: round(self.clock.seconds() * 1000),
        )

        def hand_over(flows: Sequence[Flow]) -> None:
            reactor.callLater(0, engine.handed_over, tuple(flows))

        poller = Poller(deliveries, deliveries.lane(0), hand_over, listener=lambda: None)
        process = Process(number, reactor, session, engine, poller, ModelFetcher(reactor, self.logs, deliveries, dice))
        self.processes.append(process)
        engine.begin(process.fetcher)
        session.start()
        reactor.callLater(0.05, self._poll, process)
        return process

    def _poll(self, process: Process) -> None:
        if process.gone:
            return
        process.reactor.callLater(self.dice.choice([0.02, 0.1, 0.4]), self._poll, process)
        if process.idle:
            return
        if process.closing:
            process.poller.work(process.engine.deliveries.take_tasks(process.poller.lane))
            return
        for partition, records in process.poller.poll(0, self.dice.randint(1, 6)).items():
            self._deliver(process, partition.partition, [record.offset for record in records])

    # --- faults ---

    @property
    def living(self) -> list[Process]:
        """Members that have not been killed or closed."""
        return [one for one in self.processes if not one.gone and not one.closing]

    def kill(self, process: Process) -> None:
        """kill -9: its session ends by itself, later."""
        self.changes += 1
        process.gone = process.reactor.dead = True

    def leave(self, process: Process) -> None:
        """A clean end."""
        self.changes += 1
        process.closing = True

        def left(_: Any) -> None:
            process.gone = True

        process.reactor.post(lambda: process.engine.stop().addCallback(left))

    def stop_for(self, process: Process, seconds: float) -> None:
        """SIGSTOP and SIGCONT."""
        if not process.reactor.paused:
            process.reactor.paused = True
            self.clock.callLater(seconds, process.reactor.resume)

    def disturb(self) -> None:
        """Some fault."""
        choice = self.dice.random()
        if choice < 0.2 or not self.living:
            if len(self.living) < 6:
                self.join()
            return
        process = self.dice.choice(self.living)
        if choice < 0.3:
            self.kill(process)
        elif choice < 0.4:
            self.leave(process)
        elif choice < 0.55:
            self.stop_for(process, self.dice.uniform(0.1, 2 * TIMEOUT))
        elif choice < 0.85:
            process.session.drop(self.dice.choice([0.05, 0.5, TIMEOUT * 0.8, TIMEOUT * 2]))
        elif choice < 0.9:
            process.session.delay = self.dice.choice([0.001, 0.05, 0.5])
        else:
            self.evict(process)

    def evict(self, process: Process) -> None:
        """`barnabas groups evict`: the registration goes, the session lives."""
        life = process.engine.rebalancer.session.life
        if life is not None and life.path in self.server.nodes:
            self.server._delete(life.path)

    # --- what must hold ---

    def owner(self, index: int) -> int:
        """Session that owns a partition, 0 for none."""
        node = self.server.nodes.get(paths.group_owner(GROUP, TOPIC, index))
        return 0 if node is None else node.owner

    def _deliver(self, process: Process, index: int, offsets: list[int]) -> None:
        session = process.session.session_id
        if self.owner(index) != session:
            raise Violation(f"G2: {process.name} delivers {index} of {self.owner(index)} at {self.clock.seconds():.3f}")
        flow = process.engine.deliveries.flow(TopicPartition(TOPIC, index))
        if flow is not None and id(flow) not in self.first_seen:
            self.first_seen.add(id(flow))
            self._keep.append(flow)
            committed = self.committed[index]
            if offsets[0] != committed:
                raise Violation(f"G5: {process.name} begins {index} at {offsets[0]}, committed is {committed}")
        self.delivered[index].update(offsets)
        key = (session or 0, index)
        self.handed[key] = max(self.handed.get(key, 0), offsets[-1] + 1)

    def _applied(self, session: int, operations: Sequence[Operation]) -> None:
        """After a multi. The owner may have gone in the same multi: that is how a release looks."""
        prefix = paths.group_offsets(GROUP, TOPIC) + "/"
        deleted = {operation.path for operation in operations if not isinstance(operation, Create | Set)}
        for operation in operations:
            if not isinstance(operation, Create | Set) or not operation.path.startswith(prefix):
                continue
            index, offset = int(operation.path[len(prefix) :]), int(operation.data)
            if self.owner(index) != session and paths.group_owner(GROUP, TOPIC, index) not in deleted:
                raise Violation(f"G4: {session} commits {index}={offset}, which {self.owner(index)} owns")
            if offset < self.committed[index]:
                raise Violation(f"G3: {index} goes back from {self.committed[index]} to {offset}")
            if offset > max(self.handed.get((session, index), 0), self.committed[index]) and self.committed[index] >= 0:
                raise Violation(f"G4: {session} commits {index}={offset} ahead of {self.handed.get((session, index))}")
            self.committed[index] = offset

    def check_rest(self) -> None:
        """G6, after a time without faults."""
        for process in self.living:
            member = process.engine.rebalancer.member
            if member.state is not State.OWNING:
                raise Violation(f"G6: {process.name} is {member}")
        sessions = {process.session.session_id for process in self.living}
        for index in range(len(self.logs.ends)):
            if self.owner(index) not in sessions:
                raise Violation(f"G6: {index} is owned by {self.owner(index)}, living are {sessions}")

    def check_end(self) -> None:
        """G1, when all is read."""
        for index, end in enumerate(self.logs.ends):
            missing = set(range(end)) - self.delivered[index]
            if missing:
                raise Violation(f"G1: {index} lacks {sorted(missing)[:5]} of {end}; committed {self.committed[index]}")
            if self.committed[index] != end:
                raise Violation(f"G1: {index} is committed to {self.committed[index]} of {end}")


def history(seed: int, **options: Any) -> Simulation:
    """One history: members come, faults for half a minute, then quiet. Raises Violation."""
    world = Simulation(seed, **options)
    for _ in range(world.dice.randint(1, 3)):
        world.join()
    for _ in range(world.dice.randint(5, 25)):
        world.run(world.dice.choice([0.05, 0.3, 1.0, 3.0]))
        world.disturb()
    if not world.living:
        world.join()
    for process in world.living:
        process.session.delay = 0.01
    world.run(5.0)
    world.producing = False
    for _ in range(6):  # G6 has to hold within the first of these; the rest is for reading what is left
        world.run(20.0)
        world.check_rest()
        if world.committed == world.logs.ends:
            break
    world.check_end()
    return world
