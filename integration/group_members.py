"""Members of consumer groups as processes of many clients, and what the coordinator says of their group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import attrs
from confluent_kafka import Producer

from brokerd.groups.consumer_protocol import assigned_partitions
from integration import tools
from integration.clients.java import CONSUMER
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingPeer
from kafka_wire.errors import KafkaError, NetworkException, RequestTimedOut
from kafka_wire.exchange import parse_bootstrap
from kafka_wire.schema.describe_groups import DescribeGroupsRequest
from kafka_wire.schema.find_coordinator import FindCoordinatorRequest

KINDS = (
    "confluent-range",
    "confluent-roundrobin",
    "confluent-cooperative-sticky",
    "kafka-python",
    "aiokafka",
    "kafkajs",
    "java",
    "kcat",
)
_PROGRAM = "integration.group_member_program"
_JS = Path(__file__).with_name("group_member.js")
_POLL_SECONDS = 0.1

T = TypeVar("T")


class Member:
    """One member process. Its output goes to a file, so that nobody has to read it in time."""

    def __init__(
        self, kind: str, bootstrap: str, group: str, topic: str, directory: Path, instance: str | None, session_ms: int
    ) -> None:
        self.kind = kind
        self._output = directory / f"{kind}-{time.monotonic_ns()}.out"
        node_path = str(tools.TOOLS / "node" / "node_modules")
        environment = {**os.environ, "NODE_PATH": node_path, "MEMBER_SESSION_MS": str(session_ms)}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                _command(kind, bootstrap, group, topic, instance),
                cwd=tools.ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if kind != "kcat" else subprocess.DEVNULL,
            )

    def lines(self) -> list[str]:
        """All that it printed, whole lines."""
        return self._output.read_text().rpartition("\n")[0].splitlines()

    def values(self) -> list[str]:
        """The records that it got."""
        return [line for line in self.lines() if line.startswith("value-")]

    def assignments(self) -> list[str]:
        """The assignments that it got, one after the other; empty for clients that do not tell."""
        return [line.removeprefix("!assigned ") for line in self.lines() if line.startswith("!assigned")]

    def stop(self, timeout: float = 20.0) -> None:
        """Has it leave its group."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout)

    def kill(self) -> None:
        """SIGKILL: the group hears nothing of it."""
        self.process.kill()
        self.process.wait()


def _command(kind: str, bootstrap: str, group: str, topic: str, instance: str | None) -> list[str]:
    if kind == "kafkajs":
        return [tools.node(), str(_JS), bootstrap, group, topic]
    if kind == "kcat":
        settings = ["auto.offset.reset=earliest", "session.timeout.ms=6000", "heartbeat.interval.ms=500"]
        settings.append("auto.commit.interval.ms=200")
        options = [part for setting in settings for part in ("-X", setting)]
        return [tools.kcat(), "-b", bootstrap, *options, "-u", "-f", "%s\\n", "-G", group, topic]
    if kind == "java":
        arguments = ["--bootstrap-server", bootstrap, "--group", group, "--topic", topic, "--from-beginning"]
        settings = ["session.timeout.ms=6000", "heartbeat.interval.ms=500", "auto.commit.interval.ms=200"]
        options = [part for setting in settings for part in ("--consumer-property", setting)]
        return tools.java_command(CONSUMER, *arguments, *options)
    extra = [] if instance is None else [instance]
    return [sys.executable, "-m", _PROGRAM, kind, bootstrap, group, topic, *extra]


@contextlib.contextmanager
def members(
    bootstrap: str, group: str, topic: str, directory: Path, session_ms: int = 6000
) -> Iterator[Callable[..., Member]]:
    """Makes members of one group; those left at the end are killed. Only our own program takes `session_ms`."""
    made: list[Member] = []

    def make(kind: str, instance: str | None = None) -> Member:
        made.append(Member(kind, bootstrap, group, topic, directory, instance, session_ms))
        return made[-1]

    try:
        yield make
    finally:
        for member in made:
            member.kill()


@attrs.frozen
class Described:
    """A group as its coordinator describes it: partitions by member id."""

    state: str
    members: dict[str, tuple[int, ...]]
    coordinator: int

    @property
    def shares(self) -> list[int]:
        """How many partitions each member has, largest first."""
        return sorted((len(one) for one in self.members.values()), reverse=True)

    @property
    def owned(self) -> list[int]:
        """All partitions that somebody has, twice if two have one."""
        return sorted(index for one in self.members.values() for index in one)


UNKNOWN = Described("Unknown", {}, -1)


def describe(bootstrap: str, group: str) -> Described:
    """The group now; UNKNOWN while its coordinator is away, is elected, or reads it.

    Asked with our own client: librdkafka's aborts the process when a coordinator dies under DescribeGroups.
    """
    try:
        with _any_peer(bootstrap) as peer:
            asked = peer.request(Api.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=(group,)))
        found = asked.coordinators[0]
        if found.error_code != errors.NONE:
            return UNKNOWN
        with BlockingPeer(found.host, found.port, timeout=5) as peer:
            answer = peer.request(Api.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=(group,)), max_version=5)
    except (NetworkException, RequestTimedOut):
        return UNKNOWN
    described = answer.groups[0]
    if described.error_code != errors.NONE:
        return UNKNOWN
    members = {}
    for one in described.members:
        partitions = assigned_partitions(one.member_assignment) or {}
        members[one.member_id] = tuple(sorted(index for indexes in partitions.values() for index in indexes))
    return Described(described.group_state, members, found.node_id)


def _any_peer(bootstrap: str) -> BlockingPeer:
    problem: KafkaError = NetworkException("no broker is named")
    for host, port in parse_bootstrap(bootstrap):
        try:
            return BlockingPeer(host, port, timeout=15)
        except (NetworkException, RequestTimedOut) as other:
            problem = other
    raise problem


def wait_for(what: str, look: Callable[[], T], good: Callable[[T], bool], timeout: float = 40.0) -> T:
    """What `look` sees as soon as it is good."""
    deadline = time.monotonic() + timeout
    while True:
        seen = look()
        if good(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}; seen at last: {seen}")
        time.sleep(_POLL_SECONDS)


def wait_shared(bootstrap: str, group: str, shares: list[int], timeout: float = 40.0) -> Described:
    """The group once it is stable with these shares, every partition owned once."""
    return wait_for(
        f"group {group} shared {shares}",
        lambda: describe(bootstrap, group),
        lambda seen: seen.state == "Stable" and seen.shares == shares and seen.owned == list(range(sum(shares))),
        timeout,
    )


def wait_told(some: list[Member], share: int) -> list[list[str]]:
    """All assignments of each member, once each has printed that it has so many partitions now."""
    return wait_for(
        f"{share} partitions each",
        lambda: [one.assignments() for one in some],
        lambda seen: all(told and len(told[-1].split(",")) == share for told in seen),
    )


def produce(bootstrap: str, topic: str, partitions: int, first: int, count: int) -> list[str]:
    """Writes numbered values round robin; the values."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    made = [f"value-{number}" for number in range(first, first + count)]
    for number, value in enumerate(made):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(30) == 0
    return made
