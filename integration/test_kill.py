"""kill -9 in the middle of heavy producing, several rounds: every acknowledged record is there, in order, once.

After kill -9 the page cache survives, so this holds for both durabilities. Seeds are printed; BARNABAS_KILL_ROUNDS=20
makes it longer (CI: 3 rounds, about half a minute for each durability).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaProducer

from integration.admin import create_topic
from integration.conftest import BrokerFactory
from integration.processes import Broker

ROUNDS = int(os.environ.get("BARNABAS_KILL_ROUNDS", "3"))
PARTITIONS = 3
MAX_UNACKED = 20_000

Acks = dict[tuple[int, int], bytes]
"""(partition, offset) that the broker acknowledged, and the value that is to be there."""


class Writer(Protocol):
    """A producer in a thread of its own that goes on through the broker's deaths."""

    topic: str
    acked: Acks
    sent: list[list[bytes]]
    problems: list[str]

    def run(self, stop: threading.Event) -> None:
        """Produces until told to stop, then waits for the last acknowledgement."""


class ConfluentWriter:
    """librdkafka's idempotent producer with its five requests in flight."""

    topic = "by-confluent"

    def __init__(self, bootstrap: str) -> None:
        self.acked: Acks = {}
        self.sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.problems: list[str] = []
        settings: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 2, "compression.type": "snappy"}
        settings |= {"message.timeout.ms": 120_000, "reconnect.backoff.max.ms": 500, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings})

    def run(self, stop: threading.Event) -> None:
        """See Writer."""
        number = 0
        while not stop.is_set():
            partition = number % PARTITIONS
            value = b"%d %s" % (number, b"x" * (number % 300))
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self.sent[partition].append(value)
            number += 1
            self._producer.poll(0)
            while len(self._producer) > MAX_UNACKED and not stop.is_set():
                self._producer.poll(0.05)
        left = self._producer.flush(60)
        if left:
            self.problems.append(f"{left} records were never acknowledged")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.problems.append(str(error))
        else:
            self.acked[message.partition(), message.offset()] = message.value()


class KafkaPythonWriter:
    """kafka-python with acks=all and idempotence, its default."""

    topic = "by-kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self.acked: Acks = {}
        self.sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.problems: list[str] = []
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=2,
            compression_type="gzip",
            delivery_timeout_ms=120_000,
            request_timeout_ms=5_000,
            reconnect_backoff_max_ms=500,
            max_block_ms=60_000,
        )

    def run(self, stop: threading.Event) -> None:
        """See Writer."""
        futures, number = [], 0
        while not stop.is_set():
            partition = number % PARTITIONS
            value = b"%d" % number
            futures.append((value, self._producer.send(self.topic, value, partition=partition)))
            self.sent[partition].append(value)
            number += 1
        for value, future in futures:
            try:
                metadata = future.get(60)
                self.acked[metadata.partition, metadata.offset] = value
            except Exception as problem:
                self.problems.append(repr(problem))
        self._producer.close()


def read_all(bootstrap: str, topic: str) -> list[list[bytes]]:
    """The values of every partition from the earliest offset to the end, offsets without a hole."""
    settings: dict[str, Any] = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                if message.error() is not None:
                    ended.add(message.partition())
                    continue
                assert message.offset() == len(values[message.partition()]), "a hole or a step back"
                values[message.partition()].append(message.value())
        assert len(ended) == PARTITIONS, "the log could not be read to its end"
        return values
    finally:
        consumer.close()


def check(writer: Writer, log: list[list[bytes]]) -> None:
    """Acknowledged means there, at that offset; idempotent means once and in order; nothing that was never sent."""
    assert not writer.problems, writer.problems[:3]
    lost = [key for key, value in writer.acked.items() if log[key[0]][key[1] : key[1] + 1] != [value]]
    assert not lost, f"{len(lost)} of {len(writer.acked)} acknowledged records are not where they were: {lost[:5]}"
    for partition, values in enumerate(log):
        assert values == writer.sent[partition], _first_difference(values, writer.sent[partition])


def _first_difference(found: list[bytes], sent: list[bytes]) -> str:
    position = next((n for n, pair in enumerate(zip(found, sent, strict=False)) if pair[0] != pair[1]), None)
    return f"{len(found)} records found, {len(sent)} sent, the first difference is at {position}"


def _through(broker: Broker, disturb: Callable[[int], None]) -> list[Writer]:
    """Both writers at once, with `disturb` ROUNDS times in between; the writers once all is acknowledged."""
    writers: list[Writer] = [ConfluentWriter(broker.bootstrap), KafkaPythonWriter(broker.bootstrap)]
    for writer in writers:
        create_topic(broker.bootstrap, writer.topic, PARTITIONS)
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,), daemon=True) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        for number in range(ROUNDS):
            disturb(number)
    finally:
        stop.set()
        for thread in threads:
            thread.join(90)
    assert not any(thread.is_alive() for thread in threads), "a producer hangs"
    return writers


class _Finished:
    """A writer that sent and got acknowledged three records to the first partition."""

    topic = ""

    def __init__(self) -> None:
        self.acked: Acks = {(0, number): b"%d" % number for number in range(3)}
        self.sent: list[list[bytes]] = [[b"0", b"1", b"2"], [], []]
        self.problems: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Not needed."""


@pytest.mark.parametrize(
    "first",
    [[b"0", b"1"], [b"0", b"1", b"1", b"2"], [b"1", b"0", b"2"], [b"0", b"1", b"2", b"3"], []],
    ids=["lost", "twice", "order", "phantom", "empty"],
)
def test_check_notices(first: list[bytes]) -> None:
    """The checker itself bites."""
    check(_Finished(), [[b"0", b"1", b"2"], [], []])
    with pytest.raises(AssertionError):
        check(_Finished(), [first, [], []])


@pytest.mark.slow
@pytest.mark.timeout(120 + 40 * ROUNDS)
@pytest.mark.parametrize("durability", ["flushed", "replicated"])
def test_acknowledged_records_survive_kill_9(brokers: BrokerFactory, durability: str) -> None:
    """Killed at random moments of heavy producing; the log rolls often, so that recovery has segments to look at."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    broker = brokers({"durability": durability, "log.segment.bytes": "1000000", "log.index.interval.bytes": "1000"})
    broker.start()
    starts: dict[int, float] = defaultdict(float)

    def kill(number: int) -> None:
        time.sleep(chance.uniform(0.8, 2.5))
        broker.kill()
        time.sleep(chance.uniform(0.0, 1.0))
        began = time.monotonic()
        broker.start()
        starts[number] = time.monotonic() - began

    writers = _through(broker, kill)

    print({f"start {number}": round(seconds, 2) for number, seconds in starts.items()})
    for writer in writers:
        assert len(writer.acked) > 1000
        check(writer, read_all(broker.bootstrap, writer.topic))
    broker.restart()
    for writer in writers:
        check(writer, read_all(broker.bootstrap, writer.topic))


@pytest.mark.slow
@pytest.mark.timeout(120 + 40 * ROUNDS)
def test_clean_stops_lose_nothing_and_are_quick(brokers: BrokerFactory) -> None:
    """SIGTERM under load: exit code 0 in less than ten seconds, and no log is scanned at the next start."""
    broker = brokers()
    broker.start()

    def stop(_number: int) -> None:
        time.sleep(1.0)
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 10
        broker.start()

    for writer in _through(broker, stop):
        check(writer, read_all(broker.bootstrap, writer.topic))
