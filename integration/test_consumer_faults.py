"""A group of real processes over real ZooKeeper and a real broker, with faults, and the history of what it did.

The checks are those of the simulation (G1-G6) as far as they can be seen from outside. BARNABAS_FAULT_SECONDS=120 makes
the run longer; the seed is printed and can be given as BARNABAS_FAULT_SEED.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from integration.admin import create_topic
from integration.conftest import BrokerFactory, fresh_name
from integration.processes import Broker
from integration.tools import ROOT
from zk_schema import paths

SECONDS = float(os.environ.get("BARNABAS_FAULT_SECONDS", "25"))
SEED = int(os.environ.get("BARNABAS_FAULT_SEED", str(random.randrange(10**6))))
SESSION_MS = 3000
PARTITIONS = 20
MEMBERS = 5
SETTLED_WITHIN = 5.0


@attrs.define(eq=False)
class Member:
    """One process of the group."""

    name: str
    process: subprocess.Popen[bytes]
    stopped: bool = False

    @property
    def alive(self) -> bool:
        """Whether it runs, or could."""
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """To this process alone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


class Group:
    """Members that can be started, killed and stopped, and their common history."""

    def __init__(self, directory: Path, zookeeper: str, topic: str, *, strategy: str = "range", commit: bool = False):
        self.group_id = fresh_name("group")
        self.topic = topic
        self.zookeeper = zookeeper
        self.path = directory / "history.jsonl"
        self._log = directory / "members.log"
        by_hand = ["--commit", "--work-ms", "400"] if commit else []
        self._options = ["--strategy", strategy, *by_hand]
        self.members: list[Member] = []
        self.events: list[dict[str, Any]] = []

    def start(self) -> Member:
        """One more member."""
        name = f"m{len(self.members)}"
        command = [sys.executable, "-m", "integration.consumer_member", "--zookeeper", self.zookeeper]
        command += ["--group", self.group_id, "--topic", self.topic, "--history", str(self.path), "--name", name]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*command, "--session-ms", str(SESSION_MS), *self._options], cwd=ROOT, stdout=log, stderr=log
            )
        self.members.append(Member(name, process))
        return self.members[-1]

    @property
    def living(self) -> list[Member]:
        """Members that run and are not stopped."""
        return [one for one in self.members if one.alive and not one.stopped]

    def note(self, op: str, member: Member) -> None:
        """What the test itself did."""
        self.events.append({"t": time.monotonic_ns(), "proc": member.name, "op": op})

    def stop(self, member: Member) -> None:
        """SIGSTOP."""
        member.stopped = True
        self.note("stop", member)
        member.signal(signal.SIGSTOP)

    def go_on(self, member: Member) -> None:
        """SIGCONT."""
        member.signal(signal.SIGCONT)
        self.note("cont", member)
        member.stopped = False

    def end(self) -> None:
        """All of them, cleanly."""
        for member in self.members:
            if member.alive:
                member.signal(signal.SIGCONT)
                member.signal(signal.SIGTERM)
        for member in self.members:
            try:
                member.process.wait(15)
            except subprocess.TimeoutExpired:
                member.process.kill()
                raise AssertionError(f"{member.name} does not end:\n{self.log()}") from None

    def kill_all(self) -> None:
        """Whatever happened, nothing is left."""
        for member in self.members:
            if member.alive:
                member.process.kill()
                member.process.wait()

    def history(self) -> list[dict[str, Any]]:
        """Everything, in the order of time."""
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        found = self.events + [json.loads(line) for line in lines if line.endswith(b"}")]
        return sorted(found, key=lambda event: int(event["t"]))

    def log(self) -> str:
        """The end of what the members said."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])


class Registry:
    """The group's nodes as an outsider sees them."""

    def __init__(self, zookeeper: str, group: Group) -> None:
        self.client = KazooClient(hosts=zookeeper)
        self.client.start(20)
        self._group = group
        self.regressions: list[str] = []
        self._seen: dict[int, int] = {}
        self._guard = threading.Lock()

    def watch_offsets(self) -> None:
        """From here on, every change of a committed offset is looked at."""
        for index in range(PARTITIONS):
            path = paths.group_offset(self._group.group_id, self._group.topic, index)
            self.client.DataWatch(path, lambda data, stat, event, index=index: self._saw(index, data))

    def _saw(self, index: int, data: bytes | None) -> bool:
        if data:
            with self._guard:
                if int(data) < self._seen.get(index, -1):
                    self.regressions.append(f"{index}: {self._seen[index]} -> {int(data)}")
                self._seen[index] = int(data)
        return True

    def owned(self) -> set[int]:
        """Partitions that have an owner."""
        path = paths.group_owners(self._group.group_id, self._group.topic)
        return {int(name) for name in self.client.get_children(path)} if self.client.exists(path) else set()

    def committed(self) -> dict[int, int]:
        """What is committed."""
        found = {}
        for index in range(PARTITIONS):
            path = paths.group_offset(self._group.group_id, self._group.topic, index)
            if self.client.exists(path):
                found[index] = int(self.client.get(path)[0])
        return found

    def generation(self) -> int:
        """Of the plan."""
        data, _ = self.client.get(paths.group_plan(self._group.group_id))
        return int(json.loads(data)["generation"])

    def close(self) -> None:
        """Hang up."""
        self.client.stop()
        self.client.close()


class Feeder:
    """Produces at a steady rate; `acked` has every offset that a broker confirmed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acked: dict[int, set[int]] = defaultdict(set)
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ending.wait(0.05):
            for _ in range(40):
                number += 1
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                )
            self._producer.poll(0)
        self._producer.flush(20)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked[message.partition()].add(message.offset())

    def end(self) -> None:
        """No more; all is confirmed or failed."""
        self._ending.set()
        self._thread.join(30)


def wait_until(condition: Callable[[], bool], seconds: float) -> float:
    """How long it took; AssertionError is the caller's."""
    start = time.monotonic()
    while not condition() and time.monotonic() - start < seconds:
        time.sleep(0.05)
    return time.monotonic() - start


def check_owners(history: list[dict[str, Any]]) -> list[str]:
    """G2: whoever delivers a partition after another has been assigned it after that other's last delivery.

    A poll that was under way when its process was stopped may have decided before the stop, and is not judged.
    """
    assigned: dict[tuple[str, int], int] = {}
    last: dict[int, tuple[str, int]] = {}
    stops: dict[str, list[int]] = defaultdict(list)
    problems: list[str] = []
    for event in history:
        proc, t = event["proc"], int(event["t"])
        if event["op"] == "stop":
            stops[proc].append(t)
        elif event["op"] == "own":
            for part in event["parts"]:
                assigned[proc, part] = t
        elif event["op"] == "poll":
            part = event["part"]
            before = last.get(part)
            spans_stop = any(int(event["began"]) - 10**8 <= stop <= t for stop in stops[proc])
            if spans_stop:
                continue
            since = assigned.get((proc, part), -1)
            if before is not None and before[0] != proc and since < before[1]:
                problems.append(f"{part}: {proc} delivers at {t} after {before}, assigned at {since}")
            last[part] = (proc, t)
    return problems


def check_contiguous(history: list[dict[str, Any]]) -> list[str]:
    """S8: within one assignment offsets follow each other."""
    expected: dict[tuple[str, int], int] = {}
    problems: list[str] = []
    for event in history:
        if event["op"] == "own":
            for part in event["parts"]:
                expected.pop((event["proc"], part), None)
        elif event["op"] == "poll":
            key = (event["proc"], event["part"])
            for offset in event["off"]:
                if expected.get(key, offset) != offset:
                    problems.append(f"{key}: {offset} where {expected[key]} was due")
                expected[key] = offset + 1
    return problems


@pytest.fixture
def private_broker(brokers: BrokerFactory) -> Broker:
    """A broker of the test's own."""
    broker = brokers()
    broker.start()
    return broker


@pytest.fixture
def groups(tmp_path: Path, private_broker: Broker) -> Iterator[Callable[..., Group]]:
    """Makes groups over a topic of their own, and leaves nothing running."""
    made: list[Group] = []

    def make(**options: Any) -> Group:
        topic = fresh_name("topic")
        create_topic(private_broker.bootstrap, topic, PARTITIONS)
        directory = tmp_path / topic
        directory.mkdir()
        made.append(Group(directory, private_broker.zookeeper, topic, **options))
        return made[-1]

    yield make
    for group in made:
        group.kill_all()


def disturb(group: Group, dice: random.Random) -> None:
    """One fault."""
    choice = dice.random()
    living = group.living
    if len(living) < 2 or (choice < 0.3 and len(living) < MEMBERS + 1):
        group.start()
    elif choice < 0.5:
        member = dice.choice(living)
        group.note("kill", member)
        member.process.kill()
    elif choice < 0.7:
        member = dice.choice(living)
        group.note("term", member)
        member.signal(signal.SIGTERM)
    else:
        member = dice.choice(living)
        group.stop(member)
        threading.Timer(dice.choice([1.0, SESSION_MS / 1000 + 2.0]), group.go_on, (member,)).start()


@pytest.mark.slow
@pytest.mark.timeout(120 + SECONDS * 2)
@pytest.mark.parametrize("strategy", ["range", "sticky"])
def test_members_killed_stopped_joining_leaving_nothing_lost_nothing_read_twice_at_once(
    groups: Callable[..., Group], private_broker: Broker, strategy: str
) -> None:
    """kill -9, SIGSTOP past the session, joins and leaves: every acked message is delivered, no offset goes back,
    no partition has two readers, and after the last fault all partitions are owned within seconds."""
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    group = groups(strategy=strategy)
    feeder = Feeder(private_broker.bootstrap, group.topic)
    registry = Registry(private_broker.zookeeper, group)
    try:
        registry.watch_offsets()
        for _ in range(MEMBERS):
            group.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            time.sleep(dice.uniform(0.5, 2.5))
            disturb(group, dice)
        wait_until(lambda: not any(member.stopped for member in group.members if member.alive), 10)
        if not group.living:
            group.start()
        time.sleep(SESSION_MS / 1000 + 0.5)  # the sessions of those killed last end in this time
        quiet = wait_until(lambda: registry.owned() == set(range(PARTITIONS)), 20)
        assert quiet < SETTLED_WITHIN, f"{registry.owned()} after {quiet:.1f} s\n{group.log()}"
        feeder.end()
        ends = {part: max(offsets) + 1 for part, offsets in feeder.acked.items()}
        wait_until(lambda: all(registry.committed().get(part, -1) >= end for part, end in ends.items()), 30)
        group.end()
        history = group.history()
        delivered: dict[int, set[int]] = defaultdict(set)
        for event in history:
            if event["op"] == "poll":
                delivered[event["part"]].update(event["off"])
        for part, acked in feeder.acked.items():
            assert acked <= delivered[part], f"{part} lacks {sorted(acked - delivered[part])[:10]}\n{group.log()}"
        assert registry.committed() == ends
        assert registry.regressions == []
        assert check_owners(history) == []
        assert check_contiguous(history) == []
    finally:
        feeder.end()
        registry.close()


@pytest.mark.timeout(90)
def test_zombies_commit_is_refused_and_raises_in_the_application(
    groups: Callable[..., Group], private_broker: Broker
) -> None:
    """A member that slept past its session with records in its hands: its commit fails, and its successor gets them."""
    group = groups(commit=True)
    feeder = Feeder(private_broker.bootstrap, group.topic)
    registry = Registry(private_broker.zookeeper, group)
    try:
        registry.watch_offsets()
        zombie, successor = group.start(), None
        assert wait_until(lambda: len(registry.owned()) == PARTITIONS, 20) < 20, group.log()
        found = False
        for _ in range(5):
            time.sleep(0.5)
            group.stop(zombie)
            successor = successor or group.start()
            time.sleep(SESSION_MS / 1000 + 3)
            group.go_on(zombie)
            time.sleep(1.0)
            refused = [event for event in group.history() if event["op"] == "commit" and event["proc"] == zombie.name]
            found = any(event["err"] == "CommitFailedError" for event in refused)
            if found:
                break
        feeder.end()
        ends = {part: max(offsets) + 1 for part, offsets in feeder.acked.items()}
        wait_until(lambda: registry.committed() == ends, 20)
        group.end()
        assert found, group.history()[-20:]
        assert registry.committed() == ends
        assert registry.regressions == []
        assert check_owners(group.history()) == []
    finally:
        feeder.end()
        registry.close()


@pytest.mark.timeout(90)
def test_broker_killed_and_started_again_causes_no_rebalance(
    groups: Callable[..., Group], private_broker: Broker
) -> None:
    """B12: owners stay, fetching goes on when the broker is back."""
    group = groups()
    feeder = Feeder(private_broker.bootstrap, group.topic)
    registry = Registry(private_broker.zookeeper, group)
    try:
        for _ in range(2):
            group.start()
        wait_until(lambda: len(registry.owned()) == PARTITIONS, 20)
        time.sleep(4)
        generation, owns = registry.generation(), sum(event["op"] == "own" for event in group.history())
        private_broker.kill()
        time.sleep(2)
        private_broker.start()
        time.sleep(3)
        feeder.end()
        ends = {part: max(offsets) + 1 for part, offsets in feeder.acked.items()}
        wait_until(lambda: registry.committed() == ends, 20)
        assert registry.committed() == ends, group.log()
        assert registry.generation() == generation
        assert sum(event["op"] == "own" for event in group.history()) == owns
        group.end()
    finally:
        feeder.end()
        registry.close()
