"""From frames to handlers and back: one protocol object per connection.

Answers leave in the order of the requests (Java and librdkafka count on it), whatever the order in which they
become ready. A malformed frame or a handler's unforeseen failure costs that connection, with one log line,
and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from brokerd.handlers import REGISTRY, api_versions
from brokerd.handlers.types import LATER, Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.messages import RequestHeader, decode_request_body, encode_response, read_request_header

if TYPE_CHECKING:
    from brokerd.broker import Broker

log = Logger()

MAX_PENDING = 1000
"""Requests of one connection that may be waiting for their answers before we stop reading from it."""

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
        self._slots: deque[Request] = deque()
        self._paused = False
        self._metrics = broker.metrics

    def makeConnection(self, transport: Any) -> None:
        """The transport is ready."""
        self.transport = transport

    def frameReceived(self, buffer: bytes, start: int, end: int) -> None:
        """One whole request."""
        try:
            header, position = read_request_header(buffer, start, end)
            handle = _SERVED.get((header.api_key, header.api_version))
            if handle is None:
                self._unsupported(header)
                return
            request = Request(
                header, decode_request_body(header, buffer, position, end), self, self._respond, perf_counter()
            )
            self._serve(handle, request)
        except errors.Malformed as problem:
            self._close(f"malformed request: {problem}")
        except errors.KafkaError as problem:
            self._close(f"{type(problem).__name__}: {problem}")
        except Exception:
            log.failure("a request from {host} failed unforeseen; its connection is closed", host=self.host)
            self.transport.loseConnection()

    def _serve(self, handle: Callable[[Broker, Request], Any], request: Request) -> None:
        header = request.header
        slots = self._slots
        slots.append(request)
        self._metrics.received(header.api_key, header.api_version)
        answer = handle(self.broker, request)
        if answer is LATER:
            if len(slots) > MAX_PENDING and not self._paused:
                self._paused = True
                self.transport.pauseReading()
        elif answer is None:
            slots.remove(request)
        elif isinstance(answer, Deferred):
            answer.addCallbacks(request.respond, self._failed)
            answer.addErrback(self._failed)
        else:
            self._respond(request, answer)

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
        slots = self._slots
        if slots[0] is not request:
            request.parts = parts
            return
        slots.popleft()
        self.transport.sendParts(parts, sum(map(len, parts)))
        while slots and slots[0].parts is not None:
            parts = slots.popleft().parts or []
            self.transport.sendParts(parts, sum(map(len, parts)))
        if self._paused and len(slots) <= MAX_PENDING // 2:
            self._paused = False
            self.transport.resumeReading()

    def _close(self, why: str) -> None:
        log.warn("connection from {host} closed: {why}", host=self.host, why=why)
        self.transport.loseConnection()

    def connectionLost(self, reason: Any) -> None:
        """Nobody waits for the answers any more."""
        for request in self._slots:
            request.gone = True
        self._slots.clear()
