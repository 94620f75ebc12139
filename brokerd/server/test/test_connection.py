"""Connections over real loopback sockets, on the lean reactor and on Twisted's own."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.logger import LogEvent, globalLogPublisher

from brokerd.reactor import LeanReactor
from brokerd.server import connection
from brokerd.server.limits import Limits
from brokerd.server.port import IDLE_ROUNDS, BrokerPort

PATIENCE = 10.0


class Range:
    """A file range as the log hands it out."""

    def __init__(self, fd: int, offset: int, count: int) -> None:
        self.fd = fd
        self.offset = offset
        self.count = count

    def read(self) -> bytes:
        return os.pread(self.fd, self.count, self.offset)

    def __len__(self) -> int:
        return self.count


class Recorder:
    """A protocol that keeps what it gets, and can do something at each frame."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.transport: Any = None
        self.lost = 0
        self.on_frame: Callable[[bytes], None] = lambda frame: None

    def makeConnection(self, transport: Any) -> None:
        self.transport = transport

    def frameReceived(self, buffer: bytes, start: int, end: int) -> None:
        frame = bytes(buffer[start:end])
        self.frames.append(frame)
        self.on_frame(frame)

    def connectionLost(self, reason: Any) -> None:
        self.lost += 1


def _has(protocol: Recorder, count: int) -> bool:
    return len(protocol.frames) == count


class Factory:
    """Makes recorders."""

    def __init__(self) -> None:
        self.made: list[Recorder] = []

    def doStart(self) -> None: ...

    def doStop(self) -> None: ...

    def buildProtocol(self, address: Any) -> Recorder:
        self.made.append(Recorder())
        return self.made[-1]


class Bench:
    """A port, its reactor, and clients that are plain sockets."""

    def __init__(self, reactor: Any, **options: Any) -> None:
        self.reactor = reactor
        reactor.running = True
        self.factory = Factory()
        self.port = BrokerPort(0, self.factory, 50, "127.0.0.1", reactor, **options)
        self.port.startListening()
        self.clients: list[socket.socket] = []

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.port.socket.getsockname(), timeout=PATIENCE)
        client.setblocking(False)
        self.clients.append(client)
        return client

    def turn(self) -> None:
        self.reactor.runUntilCurrent()
        self.reactor.doIteration(0.005)

    def until(self, condition: Callable[[], object]) -> None:
        """Turns the reactor until the condition holds."""
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, "it did not happen in time"
            self.turn()

    def accepted(self) -> tuple[socket.socket, Recorder]:
        """A client and its protocol."""
        count = len(self.factory.made)
        client = self.connect()
        self.until(lambda: len(self.factory.made) > count and self.factory.made[-1].transport is not None)
        return client, self.factory.made[-1]

    def receive(self, client: socket.socket, size: int) -> bytes:
        """What the client gets, until `size` bytes came."""
        got = bytearray()

        def enough() -> bool:
            try:
                while len(got) < size:
                    chunk = client.recv(1 << 20)
                    if not chunk:
                        break
                    got.extend(chunk)
            except BlockingIOError:
                pass
            return len(got) >= size

        self.until(enough)
        return bytes(got)

    def send(self, client: socket.socket, data: bytes) -> None:
        """Sends all of it, turning the reactor while the socket is full."""
        view = memoryview(data)

        def done() -> bool:
            nonlocal view
            try:
                while view:
                    view = view[client.send(view) :]
            except BlockingIOError:
                return False
            return True

        self.until(done)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        transport: Any
        for transport in list(self.port.connections):
            transport.abortConnection()
        port: Any = self.port
        port.stopListening()
        for _ in range(3):
            self.turn()
        for call in self.reactor.getDelayedCalls():
            call.cancel()
        self.reactor.removeAll()


@pytest.fixture(params=[LeanReactor, EPollReactor])
def reactor(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def bench(reactor: Any) -> Iterator[Bench]:
    made = Bench(reactor)
    yield made
    made.close()


@pytest.fixture
def logged() -> Iterator[list[LogEvent]]:
    events: list[LogEvent] = []
    observer: Any = events.append
    globalLogPublisher.addObserver(observer)
    yield events
    globalLogPublisher.removeObserver(observer)


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def warnings(events: list[LogEvent]) -> list[str]:
    return [str(event.get("why")) for event in events if "why" in event]


def test_many_frames_in_one_chunk_arrive_in_order(bench: Bench) -> None:
    """Pipelined requests are all handed over, in order."""
    client, protocol = bench.accepted()
    sent = [b"request-%d" % n for n in range(500)]
    bench.send(client, b"".join(map(frame, sent)))
    bench.until(lambda: len(protocol.frames) == 500)
    assert protocol.frames == sent


@pytest.mark.parametrize("size", [8, 65_532, 65_536, 300_000, 3_000_000])
def test_a_frame_of_any_size_arrives_whole_and_the_next_one_too(bench: Bench, size: int) -> None:
    """The buffer of a large frame ends where the frame ends."""
    client, protocol = bench.accepted()
    content = os.urandom(size)
    bench.send(client, frame(content) + frame(b"after it"))
    bench.until(lambda: len(protocol.frames) == 2)
    assert protocol.frames == [content, b"after it"]
    assert bench.port.limits.buffered_bytes == 0


def test_single_bytes_make_a_frame(bench: Bench) -> None:
    """A peer that sends byte by byte is served."""
    client, protocol = bench.accepted()
    for byte in frame(b"slow and steady"):
        client.send(bytes([byte]))
        bench.turn()
    bench.until(lambda: protocol.frames)
    assert protocol.frames == [b"slow and steady"]


def test_an_announced_but_unsent_frame_holds_little_memory(bench: Bench) -> None:
    """Announcing 100 MB costs one small buffer, not 100 MB."""
    client, _ = bench.accepted()
    client.send(struct.pack(">i", 100 << 20) + b"x")
    bench.until(lambda: bench.port.limits.buffered_bytes)
    assert bench.port.limits.buffered_bytes <= connection.CHUNK


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (struct.pack(">i", 200 << 20) + b"\0\0\0\0", "socket.request.max.bytes"),
        (struct.pack(">i", -1) + b"\0\0\0\0", "cannot be the length"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
    ],
)
def test_what_is_no_request_closes_the_connection_with_one_line(
    bench: Bench, logged: list[LogEvent], start: bytes, words: str
) -> None:
    """The log says once what came instead of a request."""
    client, protocol = bench.accepted()
    client.send(start)
    bench.until(lambda: protocol.lost)
    lines = warnings(logged)
    assert len(lines) == 1
    assert words in lines[0]
    assert bench.port.limits.connections == 0


def test_bytes_and_file_ranges_leave_in_order(bench: Bench, tmp_path: Path) -> None:
    """Bytes, views and ranges arrive as their concatenation, also when the socket takes less than that."""
    content = os.urandom(9_000_000)
    path = tmp_path / "log"
    path.write_bytes(content)
    client, protocol = bench.accepted()
    with path.open("rb") as file:
        parts = [
            b"head",
            memoryview(b"-view-"),
            Range(file.fileno(), 100, 8_500_000),
            b"",
            Range(file.fileno(), 0, 0),
            b"tail",
        ]
        expected = b"head-view-" + content[100:8_500_100] + b"tail"
        protocol.transport.sendParts(parts, len(expected))
        assert bench.receive(client, len(expected)) == expected
    assert bench.port.traffic.bytes_sent == len(expected)


def test_many_large_parts_leave_in_order(bench: Bench) -> None:
    """More parts than one vector holds, cut anywhere by short writes, arrive complete."""
    parts = [os.urandom(5_000) for _ in range(1_500)]
    client, protocol = bench.accepted()
    protocol.transport.sendParts(list(parts), 7_500_000)
    assert bench.receive(client, 7_500_000) == b"".join(parts)
    assert bench.port.limits.buffered_bytes == 0


def test_answers_of_one_turn_leave_in_one_send(bench: Bench) -> None:
    """Nothing is sent while the turn is still queueing."""
    client, protocol = bench.accepted()
    protocol.transport.sendParts([b"one"], 3)
    protocol.transport.sendParts([b"two"], 3)
    with pytest.raises(BlockingIOError):
        client.recv(10)
    assert bench.receive(client, 6) == b"onetwo"


def test_a_peer_that_does_not_read_is_not_read_from(bench: Bench) -> None:
    """Above the high-water mark requests wait; they are served when the peer has taken its answers."""
    client, protocol = bench.accepted()
    answer = bytes(connection.HIGH_WATER * 3)
    protocol.transport.sendParts([answer], len(answer))
    bench.turn()
    client.send(frame(b"a request"))
    for _ in range(10):
        bench.turn()
    assert protocol.frames == []
    assert bench.receive(client, len(answer)) == answer
    bench.until(lambda: protocol.frames)


def test_a_pause_inside_a_chunk_keeps_the_other_frames_for_later(bench: Bench) -> None:
    """pauseReading holds even for frames that were already received, and nothing is lost by it."""
    client, protocol = bench.accepted()
    protocol.on_frame = lambda content: protocol.transport.pauseReading()
    sent = [b"request-%d" % n for n in range(5)]
    bench.send(client, b"".join(map(frame, sent)))
    for count in range(1, 6):
        bench.until(partial(_has, protocol, count))
        for _ in range(3):
            bench.turn()
        assert len(protocol.frames) == count
        protocol.transport.resumeReading()
    assert protocol.frames == sent


def test_losing_the_connection_sends_what_is_queued_first(bench: Bench) -> None:
    """loseConnection is polite."""
    client, protocol = bench.accepted()
    protocol.transport.sendParts([b"goodbye"], 7)
    protocol.transport.loseConnection()
    assert bench.receive(client, 7) == b"goodbye"
    bench.until(lambda: protocol.lost)
    assert protocol.lost == 1


def test_a_file_that_was_cut_closes_the_connection(bench: Bench, tmp_path: Path) -> None:
    """A range beyond the end of its file cannot be answered, and must not spin."""
    path = tmp_path / "log"
    path.write_bytes(b"short")
    _, protocol = bench.accepted()
    with path.open("rb") as file:
        protocol.transport.sendParts([Range(file.fileno(), 0, 100)], 100)
        bench.until(lambda: protocol.lost)


def test_connections_beyond_the_limit_of_one_address_are_refused(reactor: Any) -> None:
    """One address cannot take all places; a place that is given back can be taken again."""
    bench = Bench(reactor, limits=Limits(10, 1, 1 << 20))
    client, protocol = bench.accepted()
    bench.connect()
    bench.until(lambda: bench.port.limits.refused == 1)
    client.close()
    bench.until(lambda: protocol.lost)
    bench.accepted()
    bench.close()


def test_frames_beyond_the_memory_limit_close_their_connection(reactor: Any) -> None:
    """Unfinished requests of all connections together stay within max.buffered.bytes."""
    bench = Bench(reactor, limits=Limits(10, 10, connection.CHUNK))
    client, protocol = bench.accepted()
    bench.send(client, struct.pack(">i", 1 << 20) + bytes(10))
    bench.until(lambda: bench.port.limits.buffered_bytes)
    other, second = bench.accepted()
    other.send(struct.pack(">i", 1 << 20) + bytes(10))
    bench.until(lambda: second.lost)
    assert not protocol.lost
    bench.close()


def test_limits_and_idle_time_change_while_connections_are_open(reactor: Any) -> None:
    """What is open stays; the next one is counted anew, and silence is measured anew."""
    bench = Bench(reactor, limits=Limits(10, 10, 1 << 20))
    _, protocol = bench.accepted()
    bench.port.limits.set(1, 10, 1 << 20)
    bench.connect()
    bench.until(lambda: bench.port.limits.refused == 1)
    assert not protocol.lost

    bench.port.set_idle_time(0.02)
    bench.until(lambda: protocol.lost)
    bench.close()


def test_an_idle_connection_is_closed_and_an_active_one_is_not(bench: Bench) -> None:
    """Only silence for the whole idle time ends a connection."""
    _, silent = bench.accepted()
    client, talking = bench.accepted()
    for _ in range(IDLE_ROUNDS + 1):
        count = len(talking.frames)
        client.send(frame(b"still here"))
        bench.until(partial(_has, talking, count + 1))
        bench.port.close_idle()
    bench.until(lambda: silent.lost)
    assert not talking.lost


def test_one_talkative_connection_leaves_turns_to_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests in one chunk are served a slice at a time, in order, and none is lost."""
    monkeypatch.setattr(connection, "TURN_SECONDS", 0.0)  # one request a turn
    flood, flooded = bench.accepted()
    modest, served = bench.accepted()
    sent = [b"request-%03d" % n for n in range(50)]
    bench.send(flood, b"".join(map(frame, sent)))
    bench.until(lambda: bool(flooded.frames))
    bench.send(modest, frame(b"only one"))
    bench.until(lambda: bool(served.frames))
    assert len(flooded.frames) < len(sent)
    bench.until(partial(_has, flooded, len(sent)))
    assert flooded.frames == sent


def test_small_answer_with_a_range_is_sent_in_one_piece(bench: Bench, tmp_path: Path) -> None:
    """Small ranges are read; larger ones are left to sendfile. The peer sees the same bytes."""
    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)) * 400)
    client, protocol = bench.accepted()
    with path.open("rb") as file:
        for count in (100, connection.INLINE_BELOW, connection.INLINE_BELOW + 1):
            parts = [b"head", Range(file.fileno(), 7, count), b"tail"]
            protocol.transport.sendParts(parts, count + 8)
            expected = b"head" + path.read_bytes()[7 : 7 + count] + b"tail"
            assert bench.receive(client, len(expected)) == expected
