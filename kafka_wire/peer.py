"""One broker as a Twisted client sees it: requests in, Deferreds of responses out.

The connection is made when the first request needs it and made again when the next one does. A failed attempt fails
the requests that waited for it, so that their senders can turn to another broker; the attempt after it waits for a
jittered back-off, and requests that come meanwhile wait with it. A request that is not answered in time takes the
connection with it: answers come in order, so everything behind it would be late as well. Nothing is sent twice.
"""

import random
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from kafka_wire.apis import Api
from kafka_wire.errors import KafkaError, Malformed, NetworkException, RequestTimedOut
from kafka_wire.exchange import Exchange, State, back_off

FIRST_BACK_OFF = 0.05
LONGEST_BACK_OFF = 1.0
RECEIVE_SIZE = 512 * 1024
"""How much is read at once. Fetch answers are large, and each read costs a wait for the interpreter's lock: with
Twisted's 64 KiB a consumer needs a sixth more CPU."""


class PeerState(Enum):
    """Where the connection stands."""

    IDLE = "no connection, none wanted"
    BACKING_OFF = "a connection is wanted, but not yet"
    CONNECTING = "being made, or negotiating versions"
    READY = "requests go out at once"
    CLOSED = "for good"


def _failure(error: Exception | None = None) -> Failure:
    return Failure(error)  # type: ignore[no-untyped-call]


def _stop(timer: Any) -> None:
    if timer is not None and timer.active():
        timer.cancel()


@attrs.define(eq=False)
class _Asked:
    """A request and who waits for it."""

    api: Api
    body: Any
    max_version: int | None
    deferred: "Deferred[Any]"
    timer: Any = None

    def settle(self, result: Any) -> None:
        """Give the answer or a Failure, once; later ones and those of a cancelled request are dropped."""
        _stop(self.timer)
        if not self.deferred.called:
            self.deferred.callback(result)


class _Connection(Protocol):
    """Bytes between a transport and an Exchange; tells its Peer what happens."""

    def __init__(self, peer: "Peer", exchange: Exchange) -> None:
        self.peer = peer
        self.exchange = exchange

    def connectionMade(self) -> None:
        transport: Any = self.transport
        set_no_delay = getattr(transport, "setTcpNoDelay", None)
        if set_no_delay is not None:
            set_no_delay(True)
            transport.bufferSize = RECEIVE_SIZE
        self.write(self.exchange.start())

    def write(self, parts: list[Any]) -> None:
        transport: Any = self.transport  # zope's interfaces say nothing to a type checker
        transport.write(b"".join(parts))

    def dataReceived(self, data: bytes) -> None:
        negotiating = self.exchange.state is not State.READY
        try:
            answers, to_send = self.exchange.receive(data)
        except (Malformed, KafkaError) as error:
            self.peer._connection_failed(self, NetworkException(f"{self.peer.name}: {error}"))
            return
        if to_send:
            self.write(to_send)
        if negotiating and self.exchange.state is State.READY:
            self.peer._connection_ready(self)
        for answer in answers:
            self.peer._answered(self, answer.correlation_id, answer.body)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.peer._connection_failed(self, NetworkException(f"{self.peer.name}: {reason.getErrorMessage()}"))


class Peer:
    """A broker's address and the one connection to it; see the rules on top."""

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        client_id: str | None = "barnabas",
        *,
        timeout: float = 30.0,
        endpoint: Any = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.name = f"{host}:{port}"
        self.state = PeerState.IDLE
        self._reactor = reactor
        self._client_id = client_id
        self._timeout = timeout
        self._endpoint: Any = endpoint if endpoint is not None else HostnameEndpoint(reactor, host, port)
        self._uniform = uniform
        self._failures = 0
        self._not_before = 0.0
        self._retry: Any = None
        self._set_up: Any = None
        self._attempt: Deferred[Any] | None = None
        self._connection: _Connection | None = None
        self._queued: deque[_Asked] = deque()
        self._sent: dict[int, _Asked] = {}

    def request(
        self, api: Api, body: Any, *, timeout: float | None = None, max_version: int | None = None
    ) -> "Deferred[Any]":
        """The response body, or None at once after sending a Produce with acks 0.

        Ends with RequestTimedOut (which closes the connection, if the request was sent), NetworkException (connection
        refused, lost, or closed by us), UnsupportedVersion, or CancelledError. After a cancel the answer is dropped.
        """
        if self.state is PeerState.CLOSED:
            return fail(NetworkException(f"{self.name}: closed"))
        asked = _Asked(api, body, max_version, Deferred(lambda _: self._give_up(asked)))
        asked.timer = self._reactor.callLater(self._timeout if timeout is None else timeout, self._late, asked)
        if self.state is PeerState.READY:
            self._send(asked)
        else:
            self._queued.append(asked)
            if self.state is PeerState.IDLE:
                self._connect_when_due()
        return asked.deferred

    def close(self) -> None:
        """Hang up and fail everything that waits; no request is taken any more."""
        self.state = PeerState.CLOSED
        _stop(self._retry)
        self._drop(NetworkException(f"{self.name}: closed"))

    # --- connecting ---

    def _connect_when_due(self) -> None:
        wait = self._not_before - self._reactor.seconds()
        if wait > 0:
            self.state = PeerState.BACKING_OFF
            self._retry = self._reactor.callLater(wait, self._connect)
        else:
            self._connect()

    def _connect(self) -> None:
        if not self._queued:  # all were given up while we backed off
            self.state = PeerState.IDLE
            return
        self.state = PeerState.CONNECTING
        connection = self._connection = _Connection(self, Exchange(self._client_id))
        factory = Factory.forProtocol(lambda: connection)
        factory.noisy = False
        self._set_up = self._reactor.callLater(self._timeout, self._set_up_late)
        self._attempt = self._endpoint.connect(factory)
        self._attempt.addErrback(self._not_connected, connection)

    def _not_connected(self, failure: Failure, connection: _Connection) -> None:
        reason = f"cannot connect to {self.name}: {failure.getErrorMessage()}"
        self._connection_failed(connection, NetworkException(reason))

    def _set_up_late(self) -> None:
        self._failed(NetworkException(f"{self.name}: no connection in time"))

    def _connection_ready(self, connection: _Connection) -> None:
        if connection is not self._connection:
            return
        self.state = PeerState.READY
        self._failures = 0
        _stop(self._set_up)
        queued, self._queued = self._queued, deque()
        for asked in queued:
            self._send(asked)

    def _connection_failed(self, connection: _Connection, error: NetworkException) -> None:
        if connection is self._connection:  # else it is one that we have dropped ourselves
            self._failed(error)

    def _failed(self, error: NetworkException) -> None:
        self._failures += 1
        wait = back_off(self._failures, FIRST_BACK_OFF, LONGEST_BACK_OFF, self._uniform)
        self._not_before = self._reactor.seconds() + wait
        self.state = PeerState.IDLE
        self._drop(error)

    def _drop(self, error: NetworkException) -> None:
        """Forget the connection and fail all requests. Their senders may call us again at once: our state is right."""
        connection, self._connection = self._connection, None
        attempt, self._attempt = self._attempt, None
        waiting = [*self._sent.values(), *self._queued]
        self._sent, self._queued = {}, deque()
        _stop(self._set_up)
        if attempt is not None:
            attempt.cancel()  # does nothing if it is over
        transport: Any = None if connection is None else connection.transport
        if transport is not None:
            transport.abortConnection()
        for asked in waiting:
            asked.settle(_failure(error))

    # --- requests ---

    def _send(self, asked: _Asked) -> None:
        if asked.deferred.called:
            return
        connection = self._connection
        if connection is None:  # lost while the queue was being sent: by a callback of an earlier one
            asked.settle(_failure(NetworkException(f"{self.name}: connection lost")))
            return
        before = connection.exchange.pending_count
        try:
            correlation_id, parts = connection.exchange.request(asked.api, asked.body, max_version=asked.max_version)
        except Exception:
            asked.settle(_failure())
            return
        if connection.exchange.pending_count > before:
            self._sent[correlation_id] = asked
        connection.write(parts)
        if connection.exchange.pending_count == before:
            asked.settle(None)

    def _answered(self, connection: _Connection, correlation_id: int, body: Any) -> None:
        if connection is self._connection:
            asked = self._sent.pop(correlation_id, None)
            if asked is not None:
                asked.settle(body)

    def _late(self, asked: _Asked) -> None:
        error = RequestTimedOut(f"{self.name}: no answer to {asked.api.name} in time")
        if asked in self._queued:
            self._queued.remove(asked)
            asked.settle(_failure(error))
            return
        for correlation_id, sent in self._sent.items():
            if sent is asked:
                del self._sent[correlation_id]
                break
        self._failed(NetworkException(f"{self.name}: closed after an unanswered {asked.api.name}"))
        asked.settle(_failure(error))

    def _give_up(self, asked: _Asked) -> None:
        """The sender cancelled: the answer is still read, in its turn, and dropped."""
        if asked in self._queued:
            self._queued.remove(asked)
            _stop(asked.timer)
