"""Sockets of memory with brokers behind them, for tests of blocking clients."""

import os
import socket
from typing import Any, BinaryIO

from kafka_wire import errors
from kafka_wire.schema.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.test.fake_broker import Answer, FakeBroker


class FakeSocket:
    """Carries bytes to a FakeBroker and back, at most seven at a time; with nothing to read it times out."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.arrived = b""
        self.hung_up = self.closed = False
        self.timeout: float | None = None
        self._ready: BinaryIO | None = None

    def settimeout(self, timeout: float | None) -> None:
        """Kept for `recv`."""
        self.timeout = timeout

    def sendall(self, data: bytes) -> None:
        """The broker answers at once."""
        self.arrived += self.broker.feed(data)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """At most seven bytes; an error if there are none."""
        if not self.arrived and not self.hung_up:
            raise BlockingIOError if self.timeout == 0 else TimeoutError
        data = self.arrived[: min(size, 7)]
        if not flags & socket.MSG_PEEK:
            self.arrived = self.arrived[len(data) :]
        return data

    def fileno(self) -> int:
        """One that is always readable: nothing in these tests waits."""
        self._ready = self._ready or open(os.devnull, "rb")  # noqa: SIM115 (closed with this socket)
        return self._ready.fileno()

    def close(self) -> None:
        """Once is enough."""
        self.closed = True
        if self._ready is not None:
            self._ready.close()


class FakeNetwork:
    """Addresses and the brokers behind them; `made` keeps the sockets in order."""

    def __init__(self, **brokers: Answer) -> None:
        self.brokers = brokers
        self.made: list[tuple[str, FakeSocket]] = []

    def connect(self, host: str, _port: int, _timeout: float) -> Any:
        """Stands in for `connect_tcp`."""
        if host not in self.brokers:
            raise ConnectionRefusedError("refused")
        self.made.append((host, FakeSocket(FakeBroker(self.brokers[host]))))
        return self.made[-1][1]

    def hosts(self) -> list[str]:
        """Who was connected to, in order."""
        return [host for host, _ in self.made]


def metadata(leader: int = 2) -> Answer:
    """A cluster of the brokers one and two with a topic t."""

    def answer(_header: Any, body: Any) -> Any:
        brokers = (
            MetadataResponseBroker(node_id=1, host="one", port=9092),
            MetadataResponseBroker(node_id=2, host="two", port=9092),
        )
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=1)
        there = MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=(partition,))
        names = ["t"] if body.topics is None else [topic.name for topic in body.topics]
        gone = errors.UNKNOWN_TOPIC_OR_PARTITION
        topics = tuple(there if n == "t" else MetadataResponseTopic(error_code=gone, name=n) for n in names)
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)

    return answer
