"""A broker with real logs on disk, without sockets and ZooKeeper: for the tests of Produce and Fetch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from brokerd.broker import Broker
from brokerd.config import load
from brokerd.handlers import fetch, produce
from brokerd.handlers.test.fakes import topic, topic_id
from brokerd.handlers.types import Request
from brokerd.metadata import BrokerInfo, ClusterView, TopicInfo
from brokerd.metrics import Metrics
from brokerd.partition import Partition
from brokerd.reactor import StockTurns
from brokerd.storage.log_manager import LogManager
from brokerd.topic_config import TopicConfig
from kafka_wire.ids import TopicPartition
from kafka_wire.messages import RequestHeader
from kafka_wire.records import Record, encode_batch
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.schema.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData


class RealBroker(Broker):
    """Broker 1, which leads topic `logs` (id 5, two partitions). A turn ends when the test says `turn()`."""

    def __init__(
        self, path: Path, *, durability: str = "replicated", overrides: Mapping[str, str] | None = None
    ) -> None:
        settings = {"broker.id": "1", "log.dirs": str(path), "durability": durability}
        config, _ = load({**settings, **(overrides or {})}, {})
        self.clock = Clock()
        self.logs_to_flush: list[Partition] = []
        logs = LogManager(config)
        logs.load(lambda text: None)
        super().__init__(self.clock, config, logs, Metrics(), self.logs_to_flush.append, StockTurns(self.clock))
        self.view = ClusterView(cluster_id="c", brokers={1: BrokerInfo(1, "one", 9092)})
        self.add_topic(topic("logs", 5, 2))

    def add_topic(self, info: TopicInfo) -> None:
        """Leads every partition of a topic at epoch 3, alone in the ISR."""
        self.view = self.view.with_topic(info)
        for index in range(len(info.partitions)):
            tp = TopicPartition(info.name, index)
            log = self.logs.create(tp, info.topic_id, TopicConfig.of(self.config, {}))
            partition = Partition(tp, log, 1)
            partition.lead(3, (1, 2), (1,), log.log_end)
            self.partitions[tp] = partition

    def turn(self) -> None:
        """Ends the turn."""
        self.clock.advance(0)

    def flush(self) -> None:
        """What the flusher's thread and its message to the reactor would do."""
        partitions, self.logs_to_flush[:] = list(self.logs_to_flush), []
        for partition in partitions:
            target = partition.log.flush_target()
            partition.log.flush_done(target)
            partition.advance()
        self.turn()


class Asked:
    """A request on its way; `answer` is None until it is given."""

    def __init__(self, broker: Broker, module: Any, body: Any) -> None:
        self.answer: Any = None
        header = RequestHeader(int(module.API), module.VERSIONS[1], 1, "test")
        self.request = Request(header, body, None, self._take)  # type: ignore[arg-type]
        given = module.handle(broker, self.request)
        if type(given) is tuple or hasattr(given, "_fields"):
            self.answer = given

    def _take(self, request: Request, body: Any) -> None:
        assert self.answer is None, "answered twice"
        self.answer = body


def batch(*values: bytes, **fields: Any) -> memoryview:
    """A batch as a producer sends it."""
    return memoryview(
        encode_batch([Record(number, 1000, None, value) for number, value in enumerate(values)], **fields)
    )


def send(broker: Broker, records: Any, *, index: int = 0, acks: int = -1, name: str = "logs", **fields: Any) -> Asked:
    """A Produce request for one partition."""
    data = [TopicProduceData(name, [PartitionProduceData(index, records)])]
    return Asked(broker, produce, ProduceRequest(acks=acks, timeout_ms=1500, topic_data=data, **fields))


def result(asked: Asked) -> PartitionProduceResponse:
    """The answer for the only partition of a Produce request."""
    assert asked.answer is not None, "there is no answer yet"
    found: PartitionProduceResponse = asked.answer.responses[0].partition_responses[0]
    return found


def poll(broker: Broker, *offsets: int, by_id: bool = False, **fields: Any) -> Asked:
    """A Fetch request for partitions 0, 1, ... of `logs` at these offsets; waits up to 500 ms unless told otherwise."""
    partitions = [FetchPartition(index, -1, offset, -1, -1, 1 << 20) for index, offset in enumerate(offsets)]
    asked = FetchTopic(topic_id(5) if by_id else bytes(16), partitions, "" if by_id else "logs")
    settings = {"max_wait_ms": 500, "min_bytes": 1, "topics": [asked] if offsets else []}
    return Asked(broker, fetch, FetchRequest(**{**settings, **fields}))


def records_of(response: Any, index: int = 0) -> bytes:
    """The bytes that a Fetch answer would send for one partition; none if the partition is not in it."""
    for answered in response.responses:
        for partition in answered.partitions:
            if partition.partition_index == index:
                records = partition.records
                return bytes(records.read() if hasattr(records, "read") else records)
    return b""
