"""Many idle sockets, slow readers and senders of single bytes leave a normal client alone and memory bounded."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from integration.admin import create_topic
from integration.conftest import BrokerFactory
from integration.normal_client import NormalClient
from integration.processes import Broker
from integration.raw import RawConnection
from kafka_wire.apis import Api
from kafka_wire.messages import encode_request
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.schema.metadata import MetadataRequest

IDLE = 10_000
SPARE_FILES = 500
MEGABYTE = 1 << 20


@pytest.fixture
def target(brokers: BrokerFactory) -> Iterator[Broker]:
    """A broker of its own with the normal client's topic."""
    broker = brokers()
    broker.start()
    create_topic(broker.bootstrap, NormalClient.topic)
    yield broker
    assert broker.running(), f"the broker died:\n{broker.log_end()}"


def _room_for_sockets() -> int:
    """How many sockets this process may open; the soft limit is raised to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(IDLE, hard - SPARE_FILES) if hard != resource.RLIM_INFINITY else IDLE


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_ten_thousand_idle_connections_do_not_disturb(brokers: BrokerFactory) -> None:
    """All stay open, cost little memory each, and are still answered afterwards."""
    count = _room_for_sockets()  # before the broker starts: it inherits the limit
    broker = brokers({"max.connections": "20000", "max.connections.per.ip": "6000"})
    broker.start()
    create_topic(broker.bootstrap, NormalClient.topic)
    before = broker.rss()
    with contextlib.ExitStack() as stack:
        idle = []
        for number in range(count):
            # Several source addresses, as the limit for one address wants it.
            source = (f"127.0.0.{2 + number // 5000}", 0)
            connection = socket.create_connection((broker.host, broker.port), 10, source)
            idle.append(stack.enter_context(connection))
        with NormalClient(broker.host, broker.port) as client:
            time.sleep(3)
        client.check(longest=2.0)
        per_connection = (broker.rss() - before) / count
        print(f"{count} connections, {per_connection:.0f} bytes each")
        assert per_connection < 20_000
        request = b"".join(map(bytes, encode_request(Api.METADATA, 1, 1, "idle", MetadataRequest(topics=()))))
        for connection in idle[:: count // 20]:
            connection.sendall(request)
            assert connection.recv(4)
    _wait_until(lambda: broker.open_files() < 200, "the sockets are not closed again")


def _wait_until(condition: Callable[[], bool], problem: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_slow_readers_do_not_fill_memory(target: Broker) -> None:
    """A hundred consumers ask for megabytes, again and again, and never read; others are served."""
    create_topic(target.bootstrap, "large")
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 20})
    for number in range(40):
        producer.produce("large", b"%d" % number * 100_000)
    assert producer.flush(30) == 0
    before = target.rss()
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10 * MEGABYTE)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic="large", partitions=(partition,)),))
    with contextlib.ExitStack() as stack, NormalClient(target.host, target.port) as client:
        for _ in range(100):
            reader = stack.enter_context(RawConnection(target.host, target.port))
            reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(20):
                reader.send(Api.FETCH, 12, fetch)
        time.sleep(3)
        grown = target.rss() - before
    client.check(longest=2.0)
    print(f"memory grew by {grown // MEGABYTE} MB")
    assert grown < 100 * MEGABYTE


@pytest.mark.timeout(120)
def test_flood_of_requests_without_reading_is_bounded(target: Broker) -> None:
    """A client that pipelines Metadata without end and never reads is held back, not buffered."""
    before = target.rss()
    request = b"".join(map(bytes, encode_request(Api.METADATA, 1, 1, "flood", MetadataRequest(topics=None))))
    with contextlib.ExitStack() as stack, NormalClient(target.host, target.port) as client:
        floods = [stack.enter_context(RawConnection(target.host, target.port, 0.1)) for _ in range(10)]
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for flood in floods:
                with contextlib.suppress(TimeoutError, ConnectionError):
                    flood.socket.sendall(request * 2000)
        grown = target.rss() - before
    client.check(longest=2.0)
    print(f"memory grew by {grown // MEGABYTE} MB")
    assert grown < 100 * MEGABYTE


@pytest.mark.timeout(120)
def test_senders_of_single_bytes_do_not_disturb(target: Broker) -> None:
    """Two hundred connections send a request byte by byte; every one is answered in the end."""
    request = b"".join(map(bytes, encode_request(Api.METADATA, 9, 77, "slow", MetadataRequest(topics=()))))
    with contextlib.ExitStack() as stack, NormalClient(target.host, target.port) as client:
        slow = [stack.enter_context(RawConnection(target.host, target.port)) for _ in range(200)]
        for byte in request:
            for connection in slow:
                connection.socket.sendall(bytes([byte]))
        for connection in slow:
            correlation_id, answer = connection.receive(Api.METADATA, 9)
            assert correlation_id == 77
            assert answer.brokers
    client.check(longest=2.0)


def test_large_frame_in_single_bytes_costs_no_more_than_its_size(target: Broker) -> None:
    """The start of a 50 MB frame in small pieces: the broker is not busy copying what it has."""
    with RawConnection(target.host, target.port) as sender, NormalClient(target.host, target.port) as client:
        sender.socket.sendall(struct.pack(">ihhih", 50 * MEGABYTE, 0, 9, 1, -1))
        sent, end = 0, time.monotonic() + 3
        while time.monotonic() < end and sent < 49 * MEGABYTE:
            sender.socket.sendall(b"x" * 500)
            sent += 500
    client.check(longest=2.0)


@pytest.mark.timeout(120)
def test_connections_above_the_limit_are_refused(brokers: BrokerFactory) -> None:
    """max.connections: those that are there are served, newer ones closed, and room comes back."""
    broker = brokers({"max.connections": "20"})
    broker.start()
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(broker.host, broker.port)) for _ in range(20)]
        for connection in kept:
            assert connection.ask(Api.METADATA, 1, MetadataRequest(topics=())).brokers
        with RawConnection(broker.host, broker.port, 3) as extra, contextlib.suppress(ConnectionError):
            extra.send(Api.METADATA, 1, MetadataRequest(topics=()))
            assert extra.closed_by_peer()
        assert kept[0].ask(Api.METADATA, 1, MetadataRequest(topics=())).brokers

    def served() -> bool:
        with contextlib.suppress(ConnectionError), RawConnection(broker.host, broker.port, 3) as later:
            return bool(later.ask(Api.METADATA, 1, MetadataRequest(topics=())).brokers)
        return False

    _wait_until(served, "no room came back")
