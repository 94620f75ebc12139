"""Raw sockets: N connections, each with W copies of one request in flight; one epoll loop, no work per request.

Answers are counted by their size and checked for errors with strided slices, so the client costs a few microseconds
per wake-up however many answers it brings. Latency is from the send call to the answer's arrival.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque

import attrs

from barnabas.bench.frames import AnswerShape
from barnabas.bench.target import Target
from barnabas.bench.workers import Begin, Run, Tally, run_workers
from barnabas.errors import UserError

_RECEIVE_BYTES = 256 * 1024
_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 10.0
_SILENCE_SECONDS = 30.0


@attrs.frozen(slots=True, kw_only=True)
class PipelinePlan:
    """One process's share. `operations` and `payload` say what one request counts for."""

    address: tuple[str, int]
    request: bytes
    answer: AnswerShape
    connections: int
    in_flight: int
    seconds: float
    warm_up: float
    operations: int = 1
    payload: int = 0


def run_pipeline(target: Target, plan: PipelinePlan, processes: int) -> Run:
    """The plan's connections spread over so many processes (never more than there are connections)."""
    processes = max(1, min(processes, plan.connections))
    shares = [plan.connections // processes + (index < plan.connections % processes) for index in range(processes)]
    return run_workers(target, drive, [attrs.evolve(plan, connections=share) for share in shares])


def drive(plan: PipelinePlan, begin: Begin) -> Tally:
    """The worker: keeps every connection's window full for the warm-up and the run, then lets it run dry."""
    poll = select.epoll()
    connections = {}
    try:
        for _ in range(plan.connections):
            connection = PipelinedConnection(plan, poll)
            connections[connection.fileno()] = connection
        for connection in connections.values():
            connection.request(plan.in_flight)
        _turn_until(poll, connections, time.monotonic() + plan.warm_up)
        for connection in connections.values():
            connection.reset()
        begin()
        _turn_until(poll, connections, time.monotonic() + plan.seconds)
        for connection in connections.values():
            connection.refill = False
        _turn_until(poll, connections, time.monotonic() + _DRAIN_SECONDS)
        answers = sum(connection.answers for connection in connections.values())
        latencies = [pair for connection in connections.values() for pair in connection.latencies]
        return Tally(answers * plan.operations, answers * plan.payload, latencies)
    finally:
        for connection in connections.values():
            connection.close()
        poll.close()


def _turn_until(poll: select.epoll, connections: dict[int, PipelinedConnection], deadline: float) -> None:
    """Serves the sockets until `deadline`, or until nothing is in flight any more."""
    last_event = time.monotonic()
    unanswered = sum(connection.in_flight for connection in connections.values())
    while unanswered and (now := time.monotonic()) < deadline:
        events = poll.poll(min(deadline - now, 1.0))
        if events:
            last_event = now
        elif now - last_event > _SILENCE_SECONDS:
            raise UserError(f"the broker has not answered for {_SILENCE_SECONDS:g} s")
        for descriptor, _ in events:
            connection = connections[descriptor]
            before = connection.in_flight
            connection.turn()
            unanswered += connection.in_flight - before


class PipelinedConnection:
    """One socket, its unsent requests and its unanswered ones."""

    def __init__(self, plan: PipelinePlan, poll: select.epoll) -> None:
        self._shape = plan.answer
        self._request = memoryview(plan.request)
        self._poll = poll
        self._socket = socket.create_connection(plan.address, _CONNECT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._unsent: deque[memoryview] = deque()
        self._received = b""
        self._sent_at: deque[tuple[int, int]] = deque()  # (time, requests sent then)
        self._size_byte = (plan.answer.size - 4) & 0xFF
        self._waits_to_send = False
        self.refill = True
        self.in_flight = 0
        self.answers = 0
        self.latencies: list[tuple[int, int]] = []  # (nanoseconds, answers that took so long)
        poll.register(self.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """The descriptor, also the key in the loop's table."""
        return self._socket.fileno()

    def reset(self) -> None:
        """Forgets what was counted so far."""
        self.answers = 0
        self.latencies.clear()

    def request(self, count: int) -> None:
        """Sends `count` requests more."""
        self._unsent.extend([self._request] * count)
        self._sent_at.append((time.monotonic_ns(), count))
        self.in_flight += count
        self._send()

    def turn(self) -> None:
        """The socket can be read or written."""
        if self._waits_to_send:
            self._send()
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise UserError("the broker closed the connection in the middle of the run")
        if self._received:
            data = self._received + data
        size = self._shape.size
        count = len(data) // size
        end = count * size
        self._received = data[end:]
        if count:
            self._check(data, end, count)
            self._count(count)
            if self.refill:
                self.request(count)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _check(self, data: bytes, end: int, count: int) -> None:
        size = self._shape.size
        good = data[3:end:size].count(self._size_byte) == count
        for place in self._shape.error_bytes:
            good = good and not data[place:end:size].strip(b"\0")
        if not good:
            raise UserError(f"the broker answered with an error: {data[:size].hex()}")

    def _count(self, count: int) -> None:
        now = time.monotonic_ns()
        self.answers += count
        self.in_flight -= count
        sent_at = self._sent_at
        while count:
            sent, requests = sent_at[0]
            answered = min(requests, count)
            self.latencies.append((now - sent, answered))
            count -= answered
            if answered == requests:
                sent_at.popleft()
            else:
                sent_at[0] = (sent, requests - answered)

    def _send(self) -> None:
        unsent = self._unsent
        while unsent:
            try:
                sent = self._socket.sendmsg(list(unsent)[:64])
            except BlockingIOError:
                break
            while sent:
                first = unsent.popleft()
                if sent < len(first):
                    unsent.appendleft(first[sent:])
                    break
                sent -= len(first)
        if bool(unsent) != self._waits_to_send:
            self._waits_to_send = bool(unsent)
            self._poll.modify(self.fileno(), select.EPOLLIN | (select.EPOLLOUT if unsent else 0))
