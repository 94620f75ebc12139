"""From frames to handlers and back: one protocol object per connection.

Answers leave in the order of the requests (Java and librdkafka count on it), whatever the order in which they
become ready. A malformed frame or a handler's unforeseen failure costs that connection, with one log line,
and nothing else. Produce requests that repeat take a shorter way (`produce.Again`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from brokerd.handlers import REGISTRY, api_versions, produce
from brokerd.handlers.types import LATER, Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.messages import RequestHeader, decode_request_body, encode_response, read_request_header
from kafka_wire.repeats import Repeats

if TYPE_CHECKING:
    from brokerd.broker import Broker

log = Logger()

MAX_PENDING = 1000
"""Requests of one connection that may be waiting for their answers before we stop reading from it."""

_correlation_id = struct.Struct(">i").unpack_from
_SERVED: dict[tuple[int, int], Callable[[Broker, Request], Any]] = {
    (key, version): module.handle
    for key, module in REGISTRY.items()
    for version in range(module.VERSIONS[0], module.VERSIONS[1] + 1)
}


class KafkaProtocol:
    """Requests of one connection."""

    def __init__(self, broker: Broker, host: str, listener: str) -> None:
        self.broker = broker
        self.host = host
        self.listener = listener
        self.transport: Any = None
        self._slots: deque[Request | produce.Again] = deque()
        self._paused = False
        self._repeats = Repeats()
        self._metrics = broker.metrics

    def makeConnection(self, transport: Any) -> None:
        """The transport is ready."""
        self.transport = transport

    def frameReceived(self, buffer: bytes, start: int, end: int) -> None:
        """One whole request."""
        try:
            if buffer[start] == 0 == buffer[start + 1] and self._again(buffer, start, end):
                return
            header, position = read_request_header(buffer, start, end)
            handle = _SERVED.get((header.api_key, header.api_version))
            if handle is None:
                self._unsupported(header)
                return
            request = Request(
                header, decode_request_body(header, buffer, position, end), self, self._respond, perf_counter()
            )
            self._serve(handle, request)
            if header.api_key == Api.PRODUCE:
                self._repeats.learn(header, request.body, buffer, start, end)
        except errors.Malformed as problem:
            self._close(f"malformed request: {problem}")
        except errors.KafkaError as problem:
            self._close(f"{type(problem).__name__}: {problem}")
        except Exception:
            log.failure("a request from {host} failed unforeseen; its connection is closed", host=self.host)
            self.transport.loseConnection()

    def _again(self, buffer: bytes, start: int, end: int) -> bool:
        """Serves a Produce request that is recognised; False if it is to be read in full."""
        if type(buffer) is not bytes:
            return False
        found = self._repeats.find(buffer, start, end)
        if found is None:
            return False
        repeat, records = found
        (number,) = _correlation_id(buffer, start + 4)
        again = produce.Again(repeat, number, perf_counter(), self._answered_again)
        slots = self._slots
        slots.append(again)
        if not again.start(self.broker, records):
            slots.pop()
            return False
        self._metrics.received(0, repeat.version)
        self._check_pending()
        return True

    def _answered_again(self, again: produce.Again, parts: list[Any]) -> None:
        if not again.gone:
            self._metrics.answered(0, perf_counter() - again.received)
            self._answered(again, parts)

    def _serve(self, handle: Callable[[Broker, Request], Any], request: Request) -> None:
        header = request.header
        slots = self._slots
        slots.append(request)
        self._metrics.received(header.api_key, header.api_version)
        answer = handle(self.broker, request)
        if answer is LATER:
            self._check_pending()
        elif answer is None:
            slots.remove(request)
        elif isinstance(answer, Deferred):
            answer.addCallbacks(request.respond, self._failed)
            answer.addErrback(self._failed)
        else:
            self._respond(request, answer)

    def _check_pending(self) -> None:
        if len(self._slots) > MAX_PENDING and not self._paused:
            self._paused = True
            self.transport.pauseReading()

    def _unsupported(self, header: RequestHeader) -> None:
        """ApiVersions of any version gets an answer that an old client can read; all else ends the connection, as with
        Kafka: there is no answer that its sender could understand."""
        if header.api_key != Api.API_VERSIONS:
            raise errors.UnsupportedVersion(f"API {header.api_key} version {header.api_version} is not served")
        request = Request(header._replace(api_version=0), None, self, self._respond, perf_counter())
        self._slots.append(request)
        request.respond(api_versions.unsupported(self.broker))

    def _failed(self, failure: Failure) -> None:
        log.failure("a request from {host} failed; its connection is closed", failure, host=self.host)
        self.transport.loseConnection()

    def _respond(self, request: Request, body: Any) -> None:
        if request.gone:
            return
        api_key, version, correlation_id, _ = request.header
        parts = encode_response(api_key, version, correlation_id, body)
        self._metrics.answered(api_key, perf_counter() - request.received)
        self._answered(request, parts)

    def _answered(self, request: Request | produce.Again, parts: list[Any]) -> None:
        """Sends an answer, and those behind it that waited for it."""
        slots = self._slots
        if slots[0] is not request:
            request.parts = parts
            return
        slots.popleft()
        self._send(parts)
        while slots and slots[0].parts is not None:
            self._send(slots.popleft().parts or [])
        if self._paused and len(slots) <= MAX_PENDING // 2:
            self._paused = False
            self.transport.resumeReading()

    def _send(self, parts: list[Any]) -> None:
        self.transport.sendParts(parts, len(parts[0]) if len(parts) == 1 else sum(map(len, parts)))

    def _close(self, why: str) -> None:
        log.warn("connection from {host} closed: {why}", host=self.host, why=why)
        self.transport.loseConnection()

    def connectionLost(self, reason: Any) -> None:
        """Nobody waits for the answers any more."""
        for request in self._slots:
            request.gone = True
        self._slots.clear()
