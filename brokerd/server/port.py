"""A listening port whose connections are BrokerConnections: admits them within limits, and closes idle ones."""

# Twisted's transports have no types for these calls.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import tcp
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from brokerd.reactor import turns_of
from brokerd.server.connection import BrokerConnection, Outbox
from brokerd.server.limits import Limits

log = Logger()

IDLE_ROUNDS = 4
"""The idle time is cut into so many rounds; a connection silent for all of them is closed (at most one round late)."""
REPORT_EVERY = 10.0
"""Seconds between two log lines about refused connections: a flood must not fill the log."""


class Traffic:
    """Bytes over all connections that share it, for the metrics."""

    __slots__ = ("bytes_received", "bytes_sent")

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0


class BrokerPort(tcp.Port):
    """Listens for clients. `factory.buildProtocol(address)` makes the protocol of an admitted connection.

    Listeners of one broker share `limits`, `outbox` and `traffic`; a port that is given none makes its own."""

    transport: Any = BrokerConnection

    def __init__(
        self,
        port: int,
        factory: Any,
        backlog: int = 1024,
        interface: str = "127.0.0.1",
        reactor: Any = None,
        *,
        limits: Limits | None = None,
        outbox: Outbox | None = None,
        traffic: Traffic | None = None,
        max_frame: int = 100 << 20,
        idle_seconds: float = 600.0,
    ) -> None:
        self.limits = limits or Limits(10_000, 2_000, 1 << 29)
        self.outbox = outbox or Outbox(turns_of(reactor))
        self.traffic = traffic or Traffic()
        self.max_frame = max_frame
        self.connections: dict[BrokerConnection, str] = {}
        self._idle_round = idle_seconds / IDLE_ROUNDS
        self._sweeper = LoopingCall(self.close_idle)
        self._sweeper.clock = reactor
        admission: Any = _Admission(factory, self.limits, reactor.seconds)
        super().__init__(port, admission, backlog, interface, reactor)

    def startListening(self) -> None:
        """Binds, and begins to look for idle connections."""
        super().startListening()
        self._sweep()

    def set_idle_time(self, seconds: float) -> None:
        """From now on connections that are silent for this long are closed."""
        self._idle_round = seconds / IDLE_ROUNDS
        if self._sweeper.running and self._sweeper.interval != self._idle_round:
            self._sweeper.stop()
            self._sweep()

    def _sweep(self) -> None:
        self._sweeper.start(self._idle_round, now=False).addErrback(
            lambda failure: log.failure("idle connections are no longer looked for", failure)
        )

    def connectionLost(self, reason: Any) -> None:
        """No longer listening; the connections go on until `close_all`."""
        if self._sweeper.running:
            self._sweeper.stop()
        super().connectionLost(reason)

    def close_idle(self) -> None:
        """One round: closes the connections that were silent for IDLE_ROUNDS of them."""
        for connection in list(self.connections):
            if connection.active or not connection.may_idle:
                connection.active = False
                connection.idle_rounds = 0
                continue
            connection.idle_rounds += 1
            if connection.idle_rounds >= IDLE_ROUNDS:
                connection.abortConnection()

    def close_all(self) -> None:
        """Sends what is queued and closes every connection."""
        for connection in list(self.connections):
            connection.loseConnection()

    def remember(self, connection: BrokerConnection, host: str) -> None:
        """A connection begins."""
        self.connections[connection] = host

    def forget(self, connection: BrokerConnection) -> None:
        """A connection is over."""
        host = self.connections.pop(connection, None)
        if host is not None:
            self.limits.release(host)


class _Admission:
    """The factory between the port and the dispatcher's: refuses what is beyond the limits."""

    def __init__(self, factory: Any, limits: Limits, seconds: Callable[[], float]) -> None:
        self._factory = factory
        self._limits = limits
        self._seconds = seconds
        self._silent_until = 0.0

    def doStart(self) -> None:
        self._factory.doStart()

    def doStop(self) -> None:
        self._factory.doStop()

    def buildProtocol(self, address: Any) -> Any:
        why = self._limits.admit(address.host)
        if why is not None:
            self._report(address.host, why)
            return None
        try:
            protocol = self._factory.buildProtocol(address)
        except BaseException:
            self._limits.release(address.host)
            raise
        if protocol is None:
            self._limits.release(address.host)
        return protocol

    def _report(self, host: str, why: str) -> None:
        if self._seconds() >= self._silent_until:
            self._silent_until = self._seconds() + REPORT_EVERY
            log.warn("connection from {host} refused: {why} ({n} so far)", host=host, why=why, n=self._limits.refused)
