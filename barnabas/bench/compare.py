"""The whole table of docs/performance.rst: both brokers started here, every case in both modes, memory and start."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from barnabas.bench.brokers import BarnabasBroker
from barnabas.bench.cases import MODES, Mode, all_cases
from barnabas.bench.machine import describe
from barnabas.bench.produce import ProduceCase
from barnabas.bench.run_case import Report, run_case
from barnabas.bench.sample import Outcome
from barnabas.bench.small_requests import SmallRequestsCase
from barnabas.bench.target import Target
from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from barnabas.peers.broker_process import BrokerProcess
from barnabas.peers.kafka_broker import KafkaBroker
from barnabas.peers.kafka_install import VERSION, PeerUnavailable

REST_SECONDS = 3.0
JIT_SECONDS = 4.0


@attrs.frozen(slots=True, kw_only=True)
class Rest:
    """A broker without load: seconds from its start to its first answer, and its memory then and after all the load."""

    name: str
    ready_seconds: float
    memory: int
    memory_after_load: int


@attrs.frozen(slots=True, kw_only=True)
class Comparison:
    """Everything that one call found."""

    machine: dict[str, str]
    kafka_version: str
    rounds: int
    seconds: float
    outcomes: tuple[tuple[str, str, Outcome], ...]  # (mode, group, outcome)
    rest: tuple[Rest, ...]

    def as_json(self) -> dict[str, object]:
        """For the file beside the table."""
        return {
            "machine": self.machine,
            "kafka": self.kafka_version,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "cases": [{"mode": mode, "group": group, **one.as_json()} for mode, group, one in self.outcomes],
            "rest": [attrs.asdict(one) for one in self.rest],
        }


def compare(
    modes: Sequence[Mode] = tuple(MODES.values()),
    groups: Sequence[str] | None = None,
    *,
    rounds: int,
    seconds: float,
    warm_up: float,
    report: Report,
    say: Callable[[str], None],
) -> Comparison:
    """Runs it all in a temporary directory. Raises PeerUnavailable if a broker does not start."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as scratch, contextlib.ExitStack() as stack:
        root = Path(scratch)
        machine = describe(root)
        brokers = []
        for make in (_barnabas, _kafka):
            broker, ready = stack.enter_context(_started(make, root, rounds))
            say(f"{broker.name} is ready after {ready:.2f} s")
            brokers.append((broker, ready))
        time.sleep(REST_SECONDS)
        memory = [_target(broker, {}).resident_bytes() or 0 for broker, _ in brokers]
        _compile_hot_paths([_target(broker, {}) for broker, _ in brokers], say)
        outcomes = []
        for mode in modes:
            say(f"{mode.name}: {mode.text}")
            configs = (mode.barnabas, mode.kafka)
            targets = [_target(broker, config) for (broker, _), config in zip(brokers, configs, strict=True)]
            for group, _, case in all_cases(seconds, warm_up):
                if groups is None or group in groups:
                    outcomes.append((mode.name, group, run_case(case, targets, rounds, report)))
        rest = [
            Rest(
                name=broker.name,
                ready_seconds=ready,
                memory=resident,
                memory_after_load=_target(broker, {}).resident_bytes() or 0,
            )
            for (broker, ready), resident in zip(brokers, memory, strict=True)
        ]
        return Comparison(
            machine=machine,
            kafka_version=VERSION,
            rounds=rounds,
            seconds=seconds,
            outcomes=tuple(outcomes),
            rest=tuple(rest),
        )


def _barnabas(directory: Path, zookeeper: str) -> BrokerProcess:
    return BarnabasBroker(directory, free_port(), zookeeper)


def _kafka(directory: Path, zookeeper: str) -> BrokerProcess:
    return KafkaBroker(directory, free_port(), zookeeper)


@contextlib.contextmanager
def _started(
    make: Callable[[Path, str], BrokerProcess], root: Path, starts: int
) -> Iterator[tuple[BrokerProcess, float]]:
    """A broker that runs, and the median time of its starts (each time the same data directory, as after a stop)."""
    name = make.__name__.strip("_")
    with EmbeddedZooKeeper(root / f"zookeeper-{name}", free_port()) as zookeeper:
        broker, times = make(root / name, zookeeper.connect), []
        try:
            for _ in range(starts):
                broker.stop()
                began = time.monotonic()
                broker.start()
                broker.wait_ready()
                times.append(time.monotonic() - began)
            yield broker, statistics.median(times)
        finally:
            broker.stop()


def _target(broker: BrokerProcess, config: Mapping[str, str]) -> Target:
    if broker.pid is None or not broker.running():
        raise PeerUnavailable(f"{broker.name} is gone in the middle of the comparison")
    return Target(broker.name, broker.address, broker.pid, config)


def _compile_hot_paths(targets: Sequence[Target], say: Callable[[str], None]) -> None:
    """Load that is not counted: a JVM is slow until it has compiled what is hot."""
    say("warming up")
    for target in targets:
        run_case(ProduceCase(partitions=6, codec="snappy", seconds=JIT_SECONDS), [target], 1)
        run_case(SmallRequestsCase(connections=8, in_flight=16, seconds=JIT_SECONDS), [target], 1)
