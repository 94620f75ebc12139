"""A group under everything at once: members and brokers that die, sleep and come back, while records are written.

Promises: committed offsets never go back; when it is quiet again every partition has one owner within seconds; every
acknowledged record was delivered. Members are told by their seed, so that a failure can be repeated.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from barnabas.embedded_zookeeper import EmbeddedZooKeeper
from integration.admin import create_topic
from integration.conftest import EXTERNAL, fresh_name
from integration.group_members import Member, describe, members, wait_for
from integration.processes import Broker

PARTITIONS = 20
SECONDS = 40.0
KINDS = ("confluent-range", "kafka-python", "confluent-range", "aiokafka", "confluent-range")


class Offsets(threading.Thread):
    """Watches the committed offsets in ZooKeeper and keeps every step back."""

    def __init__(self, connect: str, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._client = KazooClient(connect)
        self._root = f"/consumers/{group}/offsets/{topic}"
        self._stop_asked = threading.Event()
        self.last: dict[str, int] = {}
        self.back: list[str] = []

    def run(self) -> None:
        """Until it is stopped."""
        self._client.start()
        while not self._stop_asked.wait(0.05):
            with contextlib.suppress(KazooException):
                for name in self._client.get_children(self._root):
                    offset = int(self._client.get(f"{self._root}/{name}")[0])
                    if offset < self.last.get(name, -1):
                        self.back.append(f"partition {name}: {self.last[name]} -> {offset}")
                    self.last[name] = offset
        self._client.stop()
        self._client.close()

    def end(self) -> None:
        """Stops it."""
        self._stop_asked.set()
        self.join(10)


class Writer(threading.Thread):
    """Writes numbered values all the time; `acked` are those that the broker acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "message.timeout.ms": 60_000})
        self._topic = topic
        self._stop_asked = threading.Event()
        self.acked: set[str] = set()

    def run(self) -> None:
        """Until it is stopped."""
        number = 0
        while not self._stop_asked.wait(0.005):
            value = f"value-{number}"
            self._producer.produce(
                self._topic, value.encode(), partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1
        self._producer.flush(60)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acked.add(message.value().decode())  # type: ignore[attr-defined]

    def end(self) -> None:
        """Stops it when everything is acknowledged or given up."""
        self._stop_asked.set()
        self.join(70)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1])
def test_group_survives_the_death_of_members_and_brokers(
    request: pytest.FixtureRequest, seed: int, tmp_path: Path
) -> None:
    """Five members over twenty partitions."""
    if EXTERNAL:
        pytest.skip("needs broker processes of ours")
    server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
    connect = f"{server.connect}/{fresh_name('chaos')}"
    settings = {"zookeeper.session.timeout.ms": "6000", "group.initial.rebalance.delay.ms": "200"}
    broker = Broker(tmp_path / "b", connect, settings=settings)
    chance = random.Random(seed)
    topic, group = fresh_name("t"), fresh_name("g")
    with contextlib.ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        create_topic(broker.bootstrap, topic, PARTITIONS)
        writer, offsets = Writer(broker.bootstrap, topic), Offsets(connect, group, topic)
        make = stack.enter_context(members(broker.bootstrap, group, topic, tmp_path))
        writer.start()
        offsets.start()
        stack.callback(offsets.end)
        stack.callback(writer.end)
        every: list[Member] = [make(kind) for kind in KINDS]
        living = list(every)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            _trouble(chance, broker, living)
            while len(living) < len(KINDS):
                living.append(make(chance.choice(KINDS)))
                every.append(living[-1])
            time.sleep(chance.uniform(0.5, 2.0))
        writer.end()
        wait_for(
            "every partition has an owner",
            lambda: describe(broker.bootstrap, group),
            lambda seen: seen.state == "Stable" and seen.owned == list(range(PARTITIONS)),
        )
        wait_for(
            "every acknowledged record was delivered",
            lambda: writer.acked - {value for one in every for value in one.values()},
            lambda missing: not missing,
        )
        offsets.end()
        assert len(writer.acked) > 1000
        assert not offsets.back


def _trouble(chance: random.Random, broker: Broker, living: list[Member]) -> None:
    what = chance.choice(["kill member", "stop member", "kill broker", "sleep member", "sleep broker", "nothing"])
    if what == "kill member":
        living.pop(chance.randrange(len(living))).kill()
    elif what == "stop member":
        living.pop(chance.randrange(len(living))).stop()
    elif what == "kill broker":
        broker.kill()
        broker.start()
    elif what.startswith("sleep"):
        pid = broker.pid if what == "sleep broker" else chance.choice(living).process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(chance.uniform(0.5, 8.0))
        finally:
            os.kill(pid, signal.SIGCONT)
