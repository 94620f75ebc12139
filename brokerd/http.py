"""/metrics, /healthz and /readyz over HTTP, on the reactor of the broker and never in its way.

Twisted's HTTP channel parses and keeps connections alive; its resource tree is not needed for three pages and would
cost four times the memory. Answers that are made in slices let the reactor turn between two of them, and wait while the
asker does not read.
"""

# Twisted's HTTP classes have no types for these calls.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.task import Cooperator, TaskFinished, TaskStopped
from twisted.logger import Logger

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.config import BrokerConfig

log = Logger()

PLAIN = "text/plain; charset=utf-8"
IDLE_SECONDS = 60
MAX_CONNECTIONS = 100
LINES_OF_REQUEST = 100
"""Header lines that a request may have."""


class HttpError(Exception):
    """The listener cannot be opened; the text names the setting."""


def not_ready(broker: Broker) -> str | None:
    """Why clients cannot be served yet or any more; None if they can."""
    broker_id = broker.config.broker_id
    if broker_id not in broker.view.brokers:
        return f"broker {broker_id} is not registered in ZooKeeper"
    dirs = broker.logs.dirs
    if dirs and not any(place.online for place in dirs):
        return "every log dir is offline"
    return None


class HttpServer:
    """The three pages. `ready` says why the broker is not ready, or None; without it `not_ready` decides."""

    def __init__(
        self, reactor: Any, broker: Broker, config: BrokerConfig, ready: Callable[[], str | None] | None = None
    ) -> None:
        self.reactor = reactor
        self._broker = broker
        self._address = config.http_listener
        self._ready = ready or (lambda: not_ready(broker))
        self._port: Any = None
        self.channels: set[Any] = set()

    @property
    def port(self) -> int | None:
        """The port that is listened on (the one chosen by the system if 0 was asked for); None while there is none."""
        return None if self._port is None else int(self._port.getHost().port)

    def start(self) -> None:
        """Listens, unless http.listener is `off`. Raises HttpError if the address cannot be had."""
        if self._address is None or self._port is not None:
            return
        host, port = self._address
        try:
            self._port = self.reactor.listenTCP(port, _make_factory(self), interface=host)
        except CannotListenError as problem:
            raise HttpError(
                f"http.listener: cannot listen on {host}:{port}: {problem.socketError}; "
                "give another address, or `off` for none"
            ) from problem
        log.info("metrics on http://{host}:{port}/metrics", host=host, port=self.port)

    def stop(self) -> Deferred[None]:
        """Stops listening and closes what is open."""
        port, self._port = self._port, None
        for channel in list(self.channels):
            channel.transport.abortConnection()
        if port is None:
            return maybeDeferred(lambda: None)
        stopped: Deferred[Any] = maybeDeferred(port.stopListening)
        return stopped.addCallback(lambda _: None)

    def page(self, path: str) -> tuple[int, str, Iterator[str]]:
        """The answer to a GET of `path`: status, content type, body in slices."""
        if path == "/metrics":
            from brokerd.exposition import CONTENT_TYPE, slices

            return 200, CONTENT_TYPE, slices(self._broker, self._broker.metrics)
        if path == "/healthz":  # whoever gets this answer has seen the reactor turn
            return 200, PLAIN, iter(["ok\n"])
        if path == "/readyz":
            why = self._ready()
            return (200, PLAIN, iter(["ready\n"])) if why is None else (503, PLAIN, iter([f"not ready: {why}\n"]))
        return 404, PLAIN, iter(["there are /metrics, /healthz and /readyz\n"])


def _make_factory(server: HttpServer) -> Any:
    """Twisted's HTTP factory for our pages. Imports happen here, before clients are served: a broker without this
    listener does not pay for them, and no scrape waits for them."""
    from twisted.web import http

    import brokerd.exposition  # noqa: F401

    class Asked(http.Request):
        def gotLength(self, length: int | None) -> None:
            super().gotLength(0)

        def handleContentChunk(self, data: bytes) -> None:
            """No page takes a body; what a stranger sends is not stored."""

        def process(self) -> None:
            _answer(self, server)

    class Channel(http.HTTPChannel):
        maxHeaders = LINES_OF_REQUEST
        requestFactory: Any = Asked

        def connectionMade(self) -> None:
            server.channels.add(self)
            super().connectionMade()

        def connectionLost(self, reason: Any = None) -> None:
            server.channels.discard(self)
            super().connectionLost(reason)

    class Factory(http.HTTPFactory):
        protocol: Any = Channel
        noisy = False

        def log(self, request: Any) -> None:
            """Scrapes every few seconds are no news."""

        def buildProtocol(self, addr: Any) -> Any:
            if len(server.channels) >= MAX_CONNECTIONS:
                return None
            return super().buildProtocol(addr)

    return Factory(timeout=IDLE_SECONDS, reactor=server.reactor)


def _answer(request: Any, server: HttpServer) -> None:
    if request.method not in (b"GET", b"HEAD"):
        status, kind, body = 405, PLAIN, iter(["only GET\n"])
        request.setHeader("Allow", "GET, HEAD")
    else:
        try:
            path = request.path.decode("ascii")
        except UnicodeDecodeError:
            path = ""
        status, kind, body = server.page(path)
    request.setResponseCode(status)
    request.setHeader("Content-Type", kind)
    request.setHeader("Cache-Control", "no-store")
    if request.method == b"HEAD":
        request.finish()
        return
    _Sender(request, body, server.reactor).start()


class _Sender:
    """Makes one slice per turn of the reactor while the asker reads. An IPushProducer."""

    def __init__(self, request: Any, body: Iterator[str], reactor: Any) -> None:
        self._request = request
        turn_by_turn = Cooperator(
            terminationPredicateFactory=lambda: lambda: True, scheduler=lambda step: reactor.callLater(0, step)
        )
        self._task = turn_by_turn.cooperate(self._write(body))
        self._paused = False

    def start(self) -> None:
        """Begins to send; ends the request when all is sent."""
        self._request.registerProducer(self, True)
        self._request.notifyFinish().addErrback(lambda _: self.stopProducing())
        self._task.whenDone().addCallbacks(self._sent, self._failed)

    def _write(self, body: Iterator[str]) -> Iterator[None]:
        for text in body:
            if text:
                self._request.write(text.encode())
            yield

    def _sent(self, _: Any) -> None:
        self._request.unregisterProducer()
        self._request.finish()

    def _failed(self, failure: Any) -> None:
        if failure.check(TaskStopped):
            return  # the asker is gone
        log.failure("a page of the HTTP listener failed", failure)
        self._request.unregisterProducer()
        self._request.loseConnection()

    def pauseProducing(self) -> None:
        """The asker does not read fast enough."""
        if not self._paused:
            self._paused = True
            self._task.pause()

    def resumeProducing(self) -> None:
        """The asker has read."""
        if self._paused:
            self._paused = False
            self._task.resume()

    def stopProducing(self) -> None:
        """The asker is gone."""
        with contextlib.suppress(TaskFinished):
            self._task.stop()
