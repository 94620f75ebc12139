"""Several brokers with one ZooKeeper, a producer that goes on through their deaths, and the check of what it was told.

The record's value names its place: partition, number, and filling. The writer is librdkafka's idempotent producer with
acks=all; what it was told is compared with a full read, and with the files of every replica (S1-S3, S7, S11).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper
from integration.processes import Broker
from kafka_wire.batches import walk

SESSION_MS = 3000
MAX_UNACKED = 5_000
T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """The condition's value as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return value


class Cluster:
    """Brokers 0, 1, ... in a chroot of their own."""

    def __init__(self, server: EmbeddedZooKeeper, root: Path, size: int = 3, **settings: str) -> None:
        self.server = server
        name = root.name
        outside = KazooClient(server.connect)
        outside.start(timeout=30)
        outside.ensure_path(f"/{name}")
        outside.stop()
        outside.close()
        self.client = KazooClient(f"{server.connect}/{name}", timeout=10)
        self.client.start(timeout=30)
        common = {
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "replica.lag.time.max.ms": "5000",
            "min.insync.replicas": "2",
            "default.replication.factor": str(min(size, 3)),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self.brokers = [
            Broker(root / f"broker-{number}", f"{server.connect}/{name}", broker_id=number, settings=common)
            for number in range(size)
        ]

    @property
    def bootstrap(self) -> str:
        """All of them."""
        return ",".join(one.bootstrap for one in self.brokers)

    def start(self) -> Cluster:
        """Starts all and waits until they know each other."""
        for one in self.brokers:
            one.launch()
        for one in self.brokers:
            one.wait_ready()
        for one in self.brokers:
            wait_for(lambda one=one: len(self.known_to(one)) == len(self.brokers), "the brokers to know each other")  # type: ignore[misc]
        return self

    def known_to(self, broker: Broker) -> set[int]:
        """The ids of the brokers that one of them names."""
        return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).brokers)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """A topic with three replicas (or as many as there are brokers)."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(topic, num_partitions=partitions, replication_factor=min(3, len(self.brokers)), config=settings)
        admin.create_topics([new], operation_timeout=30)[topic].result(30)
        self.wait_in_sync(topic)

    def json(self, path: str) -> dict[str, Any]:
        """The data of a node."""
        found: dict[str, Any] = json.loads(self.client.retry(self.client.get, path)[0])
        return found

    def state(self, topic: str, index: int) -> dict[str, Any]:
        """A partition's state."""
        return self.json(f"/brokers/topics/{topic}/partitions/{index}/state")

    def states(self, topic: str) -> list[dict[str, Any]]:
        """The states of all partitions of a topic."""
        count = len(self.client.retry(self.client.get_children, f"/brokers/topics/{topic}/partitions"))
        return [self.state(topic, index) for index in range(count)]

    def leader(self, topic: str, index: int = 0) -> Broker:
        """Who leads, as ZooKeeper says; waits until somebody does."""
        wait_for(lambda: self.state(topic, index)["leader"] >= 0, "a leader")
        return self.brokers[max(int(self.state(topic, index)["leader"]), 0)]

    def controller(self) -> Broker:
        """Who is controller; waits until somebody is."""
        wait_for(lambda: self.client.retry(self.client.exists, "/controller"), "a controller")
        return self.brokers[int(self.json("/controller")["brokerid"])]

    def wait_in_sync(self, topic: str, seconds: float = 40.0) -> None:
        """Until every replica of every partition is in sync and led."""
        size = min(3, len(self.brokers))

        def whole() -> bool:
            return all(len(one["isr"]) == size and one["leader"] >= 0 for one in self.states(topic))

        try:
            wait_for(whole, f"all replicas of {topic} to be in sync", seconds)
        except AssertionError:
            ends = "\n\n".join(f"broker {n}\n{one.log_end(15)}" for n, one in enumerate(self.brokers))
            raise AssertionError(f"{self.states(topic)}\n{ends}") from None

    def tracebacks(self) -> list[str]:
        """The brokers whose log has one, with its end."""
        return [
            f"broker {number}: {one.log_file.read_text(errors='replace').partition('Traceback')[2][:2000]}"
            for number, one in enumerate(self.brokers)
            if one.log_file.exists() and "Traceback" in one.log_file.read_text(errors="replace")
        ]

    def close(self) -> None:
        """Ends everything."""
        for one in self.brokers:
            one.kill()
        self.client.stop()
        self.client.close()


class Writer:
    """One idempotent producer in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, pause: float = 0.0, **settings: Any) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acked: dict[tuple[int, int], bytes] = {}
        self.sent: list[list[bytes]] = [[] for _ in range(partitions)]
        self.problems: list[str] = []
        self.longest_gap = 0.0
        """Seconds between two acknowledgements, at most."""
        self._last_ack = time.monotonic()
        self._pause = pause
        self._stop = threading.Event()
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "message.timeout.ms": 120_000,
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
            **settings,
        }
        self._producer: Any = Producer(options)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Writer:
        """Begins to produce."""
        self._last_ack = time.monotonic()
        self._thread.start()
        return self

    def finish(self, seconds: float = 100.0) -> None:
        """Waits for the last acknowledgement."""
        self._stop.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the producer hangs"

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number % self.partitions
            value = b"%d %d %s" % (partition, number, b"x" * (number % 200))
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self.sent[partition].append(value)
            number += 1
            self._producer.poll(0)
            if self._pause and number % self.partitions == 0:
                time.sleep(self._pause)
            while len(self._producer) > MAX_UNACKED and not self._stop.is_set():
                self._producer.poll(0.05)
        left = self._producer.flush(90)
        if left:
            self.problems.append(f"{left} records were never acknowledged")

    def _delivered(self, error: Any, message: Any) -> None:
        now = time.monotonic()
        if error is not None:
            self.problems.append(str(error))
            return
        self.longest_gap = max(self.longest_gap, now - self._last_ack)
        self._last_ack = now
        self.acked[message.partition(), message.offset()] = message.value()


def read_all(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    """The values of every partition from the earliest offset to the end, offsets without a hole."""
    options: dict[str, Any] = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, **options})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        values: list[list[bytes]] = [[] for _ in range(partitions)]
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < partitions and time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                if message.error() is not None:
                    if message.partition() is not None and message.partition() >= 0:
                        ended.add(message.partition())
                    continue
                assert message.offset() == len(values[message.partition()]), "a hole or a step back"
                values[message.partition()].append(message.value())
        assert len(ended) == partitions, "the log could not be read to its end"
        return values
    finally:
        consumer.close()


def check(writer: Writer, found: list[list[bytes]]) -> None:
    """Acknowledged means there, at that offset; idempotent means once and in order; nothing that was never sent."""
    assert not writer.problems, writer.problems[:3]
    assert writer.acked, "nothing was acknowledged"
    lost = [key for key, value in writer.acked.items() if found[key[0]][key[1] : key[1] + 1] != [value]]
    assert not lost, f"{len(lost)} of {len(writer.acked)} acknowledged records are not where they were: {lost[:5]}"
    for values, sent in zip(found, writer.sent, strict=True):
        place = next((n for n, pair in enumerate(zip(values, sent, strict=False)) if pair[0] != pair[1]), None)
        assert values == sent, f"{len(values)} found, {len(sent)} sent, the first difference is at {place}"


def batches(broker: Broker, topic: str, index: int) -> list[tuple[int, int, int, int]]:
    """(base offset, last offset, epoch, CRC) of every batch in the files of a replica."""
    found = []
    for segment in sorted(broker.partition_dir(topic, index).glob("*.log")):
        data = segment.read_bytes()
        for _, header in walk(data, 0, len(data)):
            found.append((header.base_offset, header.last_offset, header.leader_epoch, header.crc))
    return found


def check_replicas_equal(cluster: Cluster, topic: str, partitions: int) -> None:
    """S11: the files of all replicas hold the same batches."""
    for index in range(partitions):
        first = batches(cluster.brokers[0], topic, index)
        for other in cluster.brokers[1:]:
            number = other.settings["broker.id"]
            assert batches(other, topic, index) == first, f"{topic}-{index} differs on broker {number}"
