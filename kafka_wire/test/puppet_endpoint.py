"""A network in memory for tests of Twisted clients: whoever connects waits until the test lets it, or not."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.protocol import Factory
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from kafka_wire.test.fake_broker import FakeBroker


class Link:
    """A connection that was made: carries bytes between the client and a FakeBroker when told to."""

    def __init__(self, protocol: Any, broker: FakeBroker) -> None:
        self.broker = broker
        transport: Any = StringTransport
        self.transport = transport()
        self.transport.abortConnection = self._abort
        self.aborted = False
        self._protocol = protocol
        protocol.makeConnection(self.transport)

    def pump(self) -> None:
        """Bring requests to the broker and answers back until nothing moves."""
        while data := self.transport.value():
            self.transport.clear()
            answers = self.broker.feed(data)
            if answers:
                self._protocol.dataReceived(answers)

    def arrive(self, data: bytes) -> None:
        """Give the client bytes that no broker would send."""
        self._protocol.dataReceived(data)

    def hang_up(self) -> None:
        """End the connection from the broker's side."""
        self._protocol.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call]

    def _abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            self.hang_up()


class PuppetEndpoint:
    """Keeps the attempts to connect; `accept` and `refuse` settle the latest one."""

    def __init__(self) -> None:
        self.attempts: list[tuple[Factory, Deferred[Any]]] = []
        self.cancelled = 0

    def connect(self, protocolFactory: Factory) -> "Deferred[Any]":
        """What a client calls."""
        attempt: Deferred[Any] = Deferred(self._cancel)
        self.attempts.append((protocolFactory, attempt))
        return attempt

    def accept(self, broker: FakeBroker) -> Link:
        """Let the latest attempt succeed."""
        factory, attempt = self.attempts[-1]
        protocol = factory.buildProtocol(None)
        link = Link(protocol, broker)
        attempt.callback(protocol)
        return link

    def refuse(self) -> None:
        """Let the latest attempt fail."""
        self.attempts[-1][1].errback(Failure(ConnectionRefusedError()))  # type: ignore[no-untyped-call]

    def _cancel(self, _attempt: "Deferred[Any]") -> None:
        self.cancelled += 1
