"""Two coordinators over one ZooKeeper, one of them often deposed without knowing it: seeded histories.

Elections, stale views, late and lost answers and broken connections in any order. Whatever happens, nothing is written
for a group but by the broker that leads its slot at that moment (K2), what was acknowledged is there, generations in
ZooKeeper never go back, and everybody who asked is answered in the end.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from brokerd.groups.offset_nodes import Committed
from brokerd.groups.placement import OFFSETS_TOPIC
from brokerd.groups.slots import Slot
from brokerd.groups.test.hosts import Host
from brokerd.groups.test.zookeeper_model import ZooKeeperModel
from brokerd.groups.values import Commit, Join, Sync
from brokerd.handlers.test.fakes import topic, topic_id
from brokerd.metadata import PartitionInfo
from zk_schema import paths
from zk_schema.group_nodes import StoredGroup
from zk_schema.nodes import PartitionState
from zk_schema.operations import Check, Create, Operation, Set

STATE = paths.partition_state(OFFSETS_TOPIC, 0)
GROUP = "/consumers/g/group"
OFFSET = "/consumers/g/offsets/logs/0"
STEPS = (
    *("join", "sync", "commit") * 4,
    *("release",) * 8,
    *("time",) * 3,
    *("elect", "tell", "tell", "lose", "cut", "connect", "connect", "connect", "hold"),
)


class Session(ZooKeeperModel):
    """The session of one broker; sees to it that no other than the leader writes."""

    def __init__(self, broker_id: int, shared: ZooKeeperModel | None = None) -> None:
        super().__init__(shared)
        self.broker_id = broker_id
        self.wrong: list[str] = []
        self.offsets: list[bytes] = []

    def applied(self, operations: list[Operation]) -> None:
        """After each multi."""
        self.offsets += [one.data for one in operations if isinstance(one, Create | Set) and one.path == OFFSET]
        written = [one.path for one in operations if one.path.startswith("/consumers") and not isinstance(one, Check)]
        leader = PartitionState.decode(OFFSETS_TOPIC, 0, self.nodes[STATE].data).leader
        if written and leader != self.broker_id:
            self.wrong.append(f"broker {self.broker_id} wrote {written[0]} while {leader} led")


class History:
    """Two hosts, and what clients asked of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        first = Session(1)
        self.sessions = [first, Session(2, first)]
        self.hosts = [
            Host(1, session, broker_id=str(session.broker_id), group_initial_rebalance_delay_ms="100")
            for session in self.sessions
        ]
        self.epoch = 10
        self.members: list[tuple[str, int]] = []
        self.open: list[Deferred[Any]] = []
        self.asked = 0
        self.problems: list[str] = []
        self.generation = 0
        self.elect(0, told=2)

    def elect(self, leader: int, told: int) -> None:
        """A new leader; `told` hosts hear of it, the new leader first."""
        self.epoch += 1
        self.sessions[0].put(STATE, PartitionState(leader + 1, self.epoch, (1, 2), 1).encode())
        for host in (self.hosts[leader], self.hosts[1 - leader])[:told]:
            self.tell(host)

    def tell(self, host: Host) -> None:
        """A host learns how ZooKeeper stands."""
        node = self.sessions[0].nodes[STATE]
        state = PartitionState.decode(OFFSETS_TOPIC, 0, node.data)
        info = PartitionInfo(0, state.leader, state.leader_epoch, (1, 2), (1, 2), node.version)
        made = topic(OFFSETS_TOPIC, 9)
        host.learn(type(made)(made.name, made.topic_id, (info,), {}))

    def watch(self, answer: Deferred[Any], done: Any) -> None:
        """Keeps a request until it is answered."""
        self.open.append(answer)

        def ended(result: Any) -> None:
            self.open.remove(answer)
            if isinstance(result, Failure):
                if not hasattr(result.value, "code"):
                    self.problems.append(result.getTraceback())
            else:
                done(result)

        answer.addBoth(ended)

    def join(self, host: Host) -> None:
        """Somebody joins, new or again."""
        member_id = self.chance.choice([one for one, _ in self.members[-6:]] + [""])
        self.asked += 1
        fresh = f"m{self.asked}"

        def make(token: int) -> Join:
            return Join(
                token, member_id, None, "c", "/h", 10_000, 5_000, "consumer", (("range", b""),), fresh, needs_id=False
            )

        self.watch(host.groups.coordinator.join("g", make), self._joined)

    def _joined(self, joined: Any) -> None:
        if joined.code == 0:
            self.members.append((joined.member_id, joined.generation))

    def sync(self, host: Host) -> None:
        """Somebody asks for its assignment; if it leads, it brings one."""
        if not self.members:
            return
        member_id, generation = self.chance.choice(self.members[-6:])
        given = {one: b"x" for one, _ in self.members}
        answer = host.groups.coordinator.submit("g", lambda token: Sync(token, member_id, generation, given))
        self.watch(answer, lambda synced: self._synced(synced, generation))

    def _synced(self, synced: Any, generation: int) -> None:
        if synced.code == 0 and self.stored().generation < generation:
            self.problems.append(f"an assignment of generation {generation} was told before it was stored")

    def commit(self, host: Host) -> None:
        """A member commits, or one without a group."""
        member_id, generation = self.chance.choice([*self.members[-6:], ("", -1)])
        self.asked += 1
        offset = self.asked

        def done(_: Any) -> None:
            if b"%d" % offset not in {value for session in self.sessions for value in session.offsets}:
                self.problems.append(f"offset {offset} was acknowledged and never written")

        entries = [Committed("logs", topic_id(5), 0, offset)]
        self.watch(host.groups.committed.commit("g", lambda token: Commit(token, member_id, generation), entries), done)

    def stored(self) -> StoredGroup:
        """The truth."""
        return StoredGroup.decode(GROUP, self.sessions[0].data(GROUP))

    def step(self) -> None:
        """One random thing."""
        host = self.chance.choice(self.hosts)
        session = self.sessions[self.hosts.index(host)]
        what = self.chance.choice(STEPS)
        if what in ("join", "sync", "commit"):
            getattr(self, what)(host)
        elif what == "release":
            session.release()
        elif what == "time":
            host.clock.advance(self.chance.choice([0.05, 0.5, 3.0]))
        elif what == "elect":
            self.elect(self.chance.randrange(2), told=self.chance.randrange(3))
        elif what == "tell":
            self.tell(host)
        elif what == "lose":
            session.lose = self.chance.choice(["before", "after"])
        elif what in ("cut", "connect"):
            session.connected = what == "connect"
        else:
            session.holding = not session.holding
        self.check()

    def check(self) -> None:
        """What must hold at every moment."""
        self.problems += [wrong for session in self.sessions for wrong in session.wrong]
        if GROUP in self.sessions[0].nodes:
            generation = self.stored().generation
            if generation < self.generation:
                self.problems.append(f"generation {self.generation} -> {generation}")
            self.generation = generation
        assert not self.problems, "\n".join(self.problems)

    def end(self) -> None:
        """It is quiet again: whoever waits is answered."""
        for session in self.sessions:
            session.connected, session.holding, session.lose = True, False, ""
        for host in self.hosts:
            self.tell(host)
        for _ in range(100):
            for session, host in zip(self.sessions, self.hosts, strict=True):
                session.release()
                host.clock.advance(5)
        self.check()
        assert not self.open


def play(seed: int) -> None:
    """Two hundred steps, and quiet. Nothing unforeseen may be logged on the way."""
    history = History(seed)

    def note(event: LogEvent) -> None:
        if "log_failure" in event:
            history.problems.append(event["log_failure"].getTraceback())

    observe: Any = note
    globalLogPublisher.addObserver(observe)
    try:
        for _ in range(200):
            history.step()
        history.end()
    finally:
        globalLogPublisher.removeObserver(observe)


@pytest.mark.parametrize("seed", range(150))
def test_K2_only_the_leader_writes(seed: int) -> None:
    """In every history."""
    play(seed)


def test_without_the_fence_a_deposed_coordinator_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The red control: the histories above do try it."""
    monkeypatch.setattr(Slot, "fence", property(lambda slot: Check("/consumers", -1)))

    with pytest.raises(AssertionError, match="while"):
        list(map(play, range(150)))
