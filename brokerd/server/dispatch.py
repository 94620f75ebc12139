"""From frames to handlers and back: one protocol object per connection.

Answers leave in the order of the requests (Java and librdkafka count on it), whatever the order in which they
become ready. A malformed frame or a handler's unforeseen failure costs that connection, with one log line,
and nothing else.
"""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kafka_wire.messages import decode_request, encode_response, read_request_header
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from brokerd.handlers import REGISTRY, api_versions
from brokerd.handlers.types import LATER, Request
from kafka_wire import errors
from kafka_wire.apis import Api

if TYPE_CHECKING:
    from brokerd.broker import Broker

log = Logger()

MAX_PENDING = 1000
"""Requests of one connection that may be waiting for their answers before we stop reading from it."""


class KafkaProtocol:
    """Requests of one connection."""

    def __init__(self, broker: Broker, host: str, listener: str) -> None:
        self.broker = broker
        self.host = host
        self.listener = listener
        self.fetch_session: Any = None
        self.transport: Any = None
        self._slots: deque[Request] = deque()
        self._paused = False

    def makeConnection(self, transport: Any) -> None:
        """The transport is ready."""
        self.transport = transport

    def frameReceived(self, buffer: bytes, start: int, end: int) -> None:
        """One whole request."""
        try:
            self._receive(buffer, start, end)
        except errors.Malformed as problem:
            self._close(f"malformed request: {problem}")
        except errors.KafkaError as problem:
            self._close(f"{type(problem).__name__}: {problem}")
        except Exception:
            log.failure("a request from {host} failed unforeseen; its connection is closed", host=self.host)
            self.transport.loseConnection()

    def _receive(self, buffer: bytes, start: int, end: int) -> None:
        header, _ = read_request_header(buffer, start, end)
        handler: ModuleType | None = REGISTRY.get(header.api_key)
        if handler is None or not handler.VERSIONS[0] <= header.api_version <= handler.VERSIONS[1]:
            if header.api_key != Api.API_VERSIONS:
                raise errors.UnsupportedVersion(f"API {header.api_key} version {header.api_version} is not served")
            request = Request(header._replace(api_version=0), None, self, self._respond)
            self._slots.append(request)
            request.respond(api_versions.unsupported(self.broker))
            return
        header, body = decode_request(buffer, start, end)
        request = Request(header, body, self, self._respond)
        self._slots.append(request)
        self.broker.metrics.requests[header.api_key] += 1
        answer = handler.handle(self.broker, request)
        if answer is LATER:
            if len(self._slots) > MAX_PENDING and not self._paused:
                self._paused = True
                self.transport.pauseReading()
        elif answer is None:
            self._slots.remove(request)
        elif isinstance(answer, Deferred):
            answer.addCallbacks(request.respond, self._failed)
        else:
            request.respond(answer)

    def _failed(self, failure: Failure) -> None:
        log.failure("a request from {host} failed; its connection is closed", failure, host=self.host)
        self.transport.loseConnection()

    def _respond(self, request: Request, body: Any) -> None:
        if request.gone:
            return
        header = request.header
        request.parts = encode_response(header.api_key, header.api_version, header.correlation_id, body)
        slots = self._slots
        while slots and slots[0].parts is not None:
            parts = slots.popleft().parts
            assert parts is not None
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
