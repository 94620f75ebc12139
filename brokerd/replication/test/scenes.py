"""Brokers with real logs, connected by hand: a leader's handler answers what a follower's loop asks, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from brokerd.broker import Broker
from brokerd.config import load
from brokerd.handlers import fetch
from brokerd.handlers.test.fakes import topic_id
from brokerd.handlers.types import Request
from brokerd.metadata import BrokerInfo, ClusterView, PartitionInfo, TopicInfo
from brokerd.metrics import Metrics
from brokerd.partition import Partition
from brokerd.reactor import StockTurns
from brokerd.replication.fetcher import Fetcher
from brokerd.replication.surroundings import Surroundings
from brokerd.storage.log_manager import LogManager
from brokerd.topic_config import TopicConfig
from kafka_wire import errors
from kafka_wire.ids import TopicPartition
from kafka_wire.messages import RequestHeader
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

TOPIC_ID = topic_id(5)
LEADER_EPOCH = 3
EPOCHS = {1: 11, 2: 12, 3: 13}
VERSION = fetch.VERSIONS[1]


class Connection:
    """Where a request came from."""

    host = "other"
    listener = "PLAINTEXT"


class SceneBroker(Broker):
    """A broker with the topic `logs` (id 5) on its disk; `propose`d and held partitions are listed."""

    def __init__(self, clock: Clock, path: Path, number: int, durability: str, partitions: int, **given: str) -> None:
        settings = {"broker.id": str(number), "log.dirs": str(path), "durability": durability}
        config, _ = load({**settings, **{name.replace("_", "."): value for name, value in given.items()}}, {})
        logs = LogManager(config)
        logs.load(lambda text: None)
        self.to_flush: list[Partition] = []
        super().__init__(clock, config, logs, Metrics(), self.to_flush.append, StockTurns(clock))
        self.proposed: list[Partition] = []
        self.held: list[Partition] = []
        self.lease = True
        self.surroundings = Surroundings(
            now=clock.seconds,
            lease_valid=lambda: self.lease,
            lag_seconds=10.0,
            horizon_seconds=1.0,
            registered=dict(EPOCHS),
            fit=dict(EPOCHS),
            propose=self.proposed.append,
            hold=self.held.append,
        )
        places = tuple(PartitionInfo(index, 1, LEADER_EPOCH, (1, 2, 3), (1, 2, 3)) for index in range(partitions))
        self.view = ClusterView(
            "c",
            brokers={one: BrokerInfo(one, "host", one) for one in EPOCHS},
            topics={"logs": TopicInfo("logs", TOPIC_ID, places)},
        )
        for index in range(partitions):
            tp = TopicPartition("logs", index)
            log = self.logs.create(tp, TOPIC_ID, TopicConfig.of(self.config, {}))
            self.partitions[tp] = Partition(tp, log, number, self.surroundings)

    def flush(self) -> None:
        """What the flusher's thread and its message to the reactor would do."""
        waiting, self.to_flush[:] = list(self.to_flush), []
        for partition in waiting:
            partition.log.flush_done(partition.log.flush_target())
            partition.advance()

    def of(self, index: int = 0) -> Partition:
        """A partition of `logs`."""
        return self.partitions[TopicPartition("logs", index)]


class Scene:
    """Broker 1 leads all partitions of `logs`; 2 and 3 are its followers."""

    def __init__(self, path: Path, *, durability: str = "replicated", partitions: int = 1, **settings: str) -> None:
        self.clock = Clock()
        self.leader = SceneBroker(self.clock, path / "1", 1, durability, partitions, **settings)
        self.follower = SceneBroker(self.clock, path / "2", 2, durability, partitions, **settings)
        self.brokers = (self.leader, self.follower)
        for partition in self.leader.partitions.values():
            partition.lead(LEADER_EPOCH, (1, 2, 3), (1, 2, 3), 0)
        for partition in self.follower.partitions.values():
            partition.follow(LEADER_EPOCH, (1, 2, 3), (1, 2, 3))

    def turn(self, seconds: float = 0.0, turns: int = 6) -> None:
        """Time passes; then everybody does what is to be done."""
        self.clock.advance(seconds)
        for _ in range(turns):
            self.clock.advance(0)

    def produce(self, records: memoryview, index: int = 0) -> list[errors.KafkaError | None]:
        """Appends at the leader; the list gets what a producer with acks=all would be told."""
        partition = self.leader.of(index)
        told: list[errors.KafkaError | None] = []
        last = partition.append(records, 0).last_offset
        self.leader.mark_dirty(partition)
        partition.when_committed(last + 1, told.append)
        return told


class Asked:
    """One replica fetch, sent by hand; `answer` is None until it is given."""

    def __init__(self, broker: SceneBroker, body: FetchRequest, version: int = VERSION) -> None:
        self.answer: Any = None
        self.request = Request(RequestHeader(1, version, 1, "test"), body, Connection(), self._take)
        given = fetch.handle(broker, self.request)
        if hasattr(given, "_fields"):
            self.answer = given

    def _take(self, request: Request, body: Any) -> None:
        assert self.answer is None, "answered twice"
        self.answer = body

    @property
    def parts(self) -> list[Any]:
        """The partitions of the answer."""
        return [part for topic in self.answer.responses for part in topic.partitions]


def replica_fetch(
    broker: SceneBroker,
    *places: tuple[int, int],
    replica: int = 2,
    epoch: int | None = None,
    leader_epoch: int = LEADER_EPOCH,
    last_epoch: int = -1,
    version: int = VERSION,
    **fields: Any,
) -> Asked:
    """A fetch of broker 2 (or another) for (partition, offset)s."""
    asked = [FetchPartition(index, leader_epoch, offset, last_epoch, 0, 1 << 20) for index, offset in places]
    given = {
        "replica_state": ReplicaState(replica, EPOCHS[replica] if epoch is None else epoch),
        "max_wait_ms": 500,
        "min_bytes": 1,
        "topics": [FetchTopic(TOPIC_ID, asked)] if asked else [],
        **fields,
    }
    return Asked(broker, FetchRequest(**given), version)


class Wire:
    """A connection of a follower to its leader: what is asked is answered by the leader's handler, in order. Broken, it
    answers nothing until it is mended, as a lost connection does."""

    def __init__(self, leader: SceneBroker) -> None:
        self.leader = leader
        self.broken = False
        self.sent: list[FetchRequest] = []
        self.closed = False
        self._waiting: list[tuple[Asked, Deferred[Any]]] = []

    def request(self, api: Any, body: FetchRequest) -> Deferred[Any]:
        """As Peer's."""
        answer: Deferred[Any] = Deferred()
        self.sent.append(body)
        if self.broken:
            answer.errback(errors.NetworkException("broken"))
            return answer
        self._waiting.append((Asked(self.leader, body), answer))
        return answer

    def close(self) -> None:
        """As Peer's."""
        self.closed = True

    def deliver(self) -> bool:
        """Brings the answers that are there; says whether there were any."""
        found = False
        while self._waiting and self._waiting[0][0].answer is not None:
            asked, waiting = self._waiting.pop(0)
            found = True
            waiting.callback(_received(asked.answer))
        return found

    def lose(self) -> None:
        """The connection is gone with everything on it."""
        waiting, self._waiting = self._waiting, []
        for asked, answer in waiting:
            asked.request.gone = True
            answer.errback(errors.NetworkException("lost"))


def _received(answer: Any) -> Any:
    """Ranges of files as the bytes that arrive."""
    topics = []
    for topic in answer.responses:
        parts = [
            part._replace(records=part.records.read() if hasattr(part.records, "read") else part.records)
            for part in topic.partitions
        ]
        topics.append(topic._replace(partitions=parts))
    return answer._replace(responses=topics)


class Following(Scene):
    """The same with a loop that runs."""

    def __init__(self, path: Path, *, durability: str = "replicated", partitions: int = 1, **settings: str) -> None:
        super().__init__(path, durability=durability, partitions=partitions, **settings)
        self.wire = Wire(self.leader)
        self.copied = 0
        self.fetcher = Fetcher(
            self.clock,
            self.follower,
            1,
            ("host", 1),
            waits_for_flush=durability == "flushed",
            replica_epoch=lambda: EPOCHS[2],
            took=self._took,
            uniform=lambda low, high: 1.0,
            peer=self.wire,
        )
        for partition in self.follower.partitions.values():
            self.fetcher.add(partition)
        self.run()

    def _took(self, size: int) -> None:
        self.copied += size

    def run(self, seconds: float = 0.0) -> None:
        """Until nothing more happens by itself."""
        self.turn(seconds)
        while self.wire.deliver():
            self.turn()
