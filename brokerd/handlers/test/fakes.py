"""A broker without files, sockets or ZooKeeper, for the tests of handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from brokerd.broker import Broker
from brokerd.config import load
from brokerd.handlers.types import Request
from brokerd.metadata import BrokerInfo, ClusterView, PartitionInfo, TopicInfo
from brokerd.metrics import Metrics
from brokerd.partition import Partition
from brokerd.reactor import StockTurns
from brokerd.topic_config import TopicConfig
from kafka_wire.ids import TopicPartition

LOG_DIR = Path("logs")


def topic_id(number: int) -> bytes:
    """A topic id that a test can tell."""
    return number.to_bytes(16, "big")


class FakeLog:
    """A log that knows where it starts and ends; `by_time` has (timestamp, offset, epoch) in the order of offsets."""

    def __init__(self, tp: TopicPartition, start: int = 0, end: int = 0) -> None:
        self.topic, self.partition = tp
        self.directory = LOG_DIR / f"{tp.topic}-{tp.partition}"
        self.config = TopicConfig()
        self.log_start = start
        self.log_end = self.written_end = self.flushed = end
        self.size = 100 * (end - start)
        self.latest_epoch = -1
        self.by_time: list[tuple[int, int, int]] = []
        self.advance_problem: Exception | None = None

    def start_epoch(self, epoch: int) -> None:
        """Nothing to store."""

    def offset_for_timestamp(self, ms: int, end_offset: int) -> tuple[int, int, int] | None:
        """The first that is late enough."""
        return next((found for found in self.by_time if found[0] >= ms and found[1] < end_offset), None)

    def max_timestamp(self, end_offset: int) -> tuple[int, int, int] | None:
        """The latest."""
        return max((found for found in self.by_time if found[1] < end_offset), default=None)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """R23 for a log with one epoch, 3."""
        return (3, self.log_end) if epoch == 3 else (-1, -1)

    def advance_log_start(self, offset: int) -> None:
        """Moves the start."""
        if self.advance_problem is not None:
            raise self.advance_problem
        self.log_start = offset


class FakeLogDir:
    """A log directory."""

    def __init__(self, path: Path, *, online: bool = True) -> None:
        self.path = path
        self.online = online


class FakeLogs:
    """The log manager."""

    def __init__(self) -> None:
        self.dirs = [FakeLogDir(LOG_DIR)]
        self.offline: dict[TopicPartition, str] = {}


class FakeTopics:
    """Topic administration that succeeds at once, or as `problem` and `waiting` say; `calls` is what was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.problem: Exception | None = None
        self.waiting: Deferred[Any] | None = None
        self.overrides: dict[str, str] = {}

    def _answer(self, value: Any) -> Deferred[Any]:
        if self.waiting is not None:
            return self.waiting
        return succeed(value) if self.problem is None else fail(self.problem)

    def create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        assignment: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
    ) -> Deferred[TopicInfo]:
        """A topic led by broker 1."""
        self.calls.append(("create", name, partitions, replication_factor, assignment, dict(overrides)))
        return self._answer(topic(name, 77, partitions))

    def delete(self, name: str) -> Deferred[None]:
        """Records the call."""
        self.calls.append(("delete", name))
        return self._answer(None)

    def add_partitions(self, name: str, total: int, assignment: Sequence[Sequence[int]] | None) -> Deferred[TopicInfo]:
        """Records the call."""
        self.calls.append(("add_partitions", name, total, assignment))
        return self._answer(topic(name, 77, total))

    def alter_overrides(self, name: str, change: Callable[[Mapping[str, str]], dict[str, str]]) -> Deferred[None]:
        """Records what the change makes of `overrides`."""
        self.calls.append(("alter_overrides", name, change(self.overrides)))
        return self._answer(None)

    def next_producer_id(self) -> Deferred[int]:
        """Always 4000."""
        self.calls.append(("next_producer_id",))
        return self._answer(4000)


class FakeSettings:
    """Settings of brokers as they would be stored, by name."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, str]] = {}

    def alter(self, name: str, change: Callable[[Mapping[str, str]], dict[str, str]]) -> Deferred[None]:
        """Stores what the change makes of what is stored."""
        self.stored[name] = change(self.stored.get(name, {}))
        return succeed(None)


def topic(name: str, number: int, partitions: int = 1, overrides: Mapping[str, str] | None = None) -> TopicInfo:
    """A topic whose partitions are led by broker 1 at epoch 3, with replicas on 1 and 2."""
    return TopicInfo(
        name=name,
        topic_id=topic_id(number),
        partitions=tuple(PartitionInfo(index, 1, 3, (1, 2), (1,)) for index in range(partitions)),
        overrides=overrides or {},
    )


class FakeBroker(Broker):
    """Broker 1 of two, controller, with the topic `logs` (id 5, two partitions) of which it leads partition 0."""

    def __init__(self, **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config, _ = load({"broker.id": "1", **given}, {})
        self.fake_logs = FakeLogs()
        self.fake_topics = FakeTopics()
        clock = Clock()
        super().__init__(clock, config, self.fake_logs, Metrics(), lambda partition: None, StockTurns(clock))  # type: ignore[arg-type]
        self.topics = self.fake_topics  # type: ignore[assignment]
        self.fake_settings = FakeSettings()
        self.settings = self.fake_settings  # type: ignore[assignment]
        self.view = ClusterView(
            cluster_id="cluster",
            controller_id=1,
            brokers={2: BrokerInfo(2, "two", 9093), 1: BrokerInfo(1, "one", 9092, "rack")},
            topics={"logs": topic("logs", 5, 2)},
        )
        self.fake_log = FakeLog(TopicPartition("logs", 0), start=10, end=20)
        self.led = self.lead(self.fake_log)

    def lead(self, log: FakeLog) -> Partition:
        """Makes this broker lead the partition of a log at epoch 3."""
        tp = TopicPartition(log.topic, log.partition)
        partition = Partition(tp, log, self.config.broker_id)  # type: ignore[arg-type]
        partition.lead(3, (1, 2), (1,), log.log_end)
        self.partitions[tp] = partition
        return partition


class _Header:
    def __init__(self, version: int) -> None:
        self.api_version = version
        self.client_id = "test"


class FakeClient:
    """A connection."""

    def __init__(self, listener: str) -> None:
        self.host = "127.0.0.1"
        self.listener = listener


def request(body: Any, version: int = 99, listener: str = "PLAINTEXT") -> Request:
    """A request as the dispatcher would hand it on."""
    return Request(_Header(version), body, FakeClient(listener), lambda request, body: None)  # type: ignore[arg-type]


def result_of(answer: Any) -> Any:
    """The response, which must be there by now."""
    if not isinstance(answer, Deferred):
        return answer
    found: list[Any] = []
    answer.addCallback(found.append)
    assert found, "there is no answer yet"
    return found[0]
