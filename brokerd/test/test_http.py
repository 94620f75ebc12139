"""The three pages, over a transport in memory and with a clock of the test's own."""

# Twisted's test transports have no types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from brokerd import http
from brokerd.http import HttpError, HttpServer, not_ready

TURN = 0.001


class _Reactor(Clock):
    """A clock that remembers what listens."""

    def __init__(self, problem: Exception | None = None) -> None:
        super().__init__()
        self.problem = problem
        self.factory: Any = None
        self.stopped = 0

    def callLater(self, delay: float, callable: Callable[..., object], *args: object, **kw: object) -> Any:
        """As a real reactor: a call for now is made in the next turn."""
        return super().callLater(max(delay, TURN), callable, *args, **kw)

    def listenTCP(self, port: int, factory: Any, interface: str) -> Any:
        if self.problem is not None:
            raise self.problem
        self.factory = factory
        return SimpleNamespace(getHost=lambda: SimpleNamespace(port=port or 40000), stopListening=self._stop)

    def _stop(self) -> None:
        self.stopped += 1


def _server(reactor: Any, ready: Callable[[], str | None] = lambda: None) -> HttpServer:
    config: Any = SimpleNamespace(http_listener=("127.0.0.1", 9464))
    broker: Any = SimpleNamespace(metrics=None)
    server = HttpServer(reactor, broker, config, ready)
    server.start()
    return server


class _Transport(StringTransport):
    def abortConnection(self) -> None:
        self.aborting = True

    aborting = False


def _ask(reactor: _Reactor, request: bytes) -> str:
    """What a client gets for one request."""
    channel = reactor.factory.buildProtocol(None)
    transport: Any = _Transport()
    channel.makeConnection(transport)
    channel.dataReceived(request)
    for _ in range(10):
        reactor.advance(TURN)
    answer: bytes = transport.value()
    return answer.decode()


def _get(reactor: _Reactor, path: str) -> str:
    return _ask(reactor, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def test_healthz_answers_while_the_reactor_turns() -> None:
    reactor = _Reactor()
    _server(reactor)
    answer = _get(reactor, "/healthz")
    assert answer.startswith("HTTP/1.1 200 ")
    assert "ok\n" in answer


def test_readyz_says_why_not_and_later_that_it_is() -> None:
    reactor, reason = _Reactor(), ["broker 0 is not registered in ZooKeeper"]
    _server(reactor, lambda: reason[0] if reason else None)
    answer = _get(reactor, "/readyz")
    assert answer.startswith("HTTP/1.1 503 ")
    assert "not registered in ZooKeeper" in answer
    reason.clear()
    assert _get(reactor, "/readyz").startswith("HTTP/1.1 200 ")


def test_other_paths_are_not_found_and_name_those_that_are() -> None:
    reactor = _Reactor()
    _server(reactor)
    answer = _get(reactor, "/%ff")
    assert answer.startswith("HTTP/1.1 404 ")
    assert "/metrics" in answer


def test_a_post_is_refused_and_its_body_not_kept() -> None:
    reactor = _Reactor()
    _server(reactor)
    answer = _ask(reactor, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
    assert answer.startswith("HTTP/1.1 405 ")


def test_head_sends_no_body() -> None:
    reactor = _Reactor()
    _server(reactor)
    answer = _ask(reactor, b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200 ")
    assert answer.endswith("\r\n\r\n")


def test_metrics_come_slice_by_slice_and_stop_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    reactor, made = _Reactor(), []

    def body() -> Any:
        for number in range(5):
            made.append(number)
            yield f"line {number}\n"

    server = _server(reactor)
    monkeypatch.setattr(server, "page", lambda path: (200, http.PLAIN, body()))
    channel = reactor.factory.buildProtocol(None)
    transport: Any = _Transport()
    channel.makeConnection(transport)
    channel.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    reactor.advance(TURN)
    assert made == [0]
    transport.producer.pauseProducing()
    for _ in range(5):
        reactor.advance(TURN)
    assert made == [0]
    transport.producer.resumeProducing()
    for _ in range(10):
        reactor.advance(TURN)
    assert made == [0, 1, 2, 3, 4]
    assert transport.value().endswith(b"0\r\n\r\n")  # the last chunk


def test_a_client_that_leaves_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reactor, made = _Reactor(), []

    def body() -> Any:
        while True:
            made.append(1)
            yield "more\n"

    server = _server(reactor)
    monkeypatch.setattr(server, "page", lambda path: (200, http.PLAIN, body()))
    channel = reactor.factory.buildProtocol(None)
    channel.makeConnection(_Transport())
    channel.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    reactor.advance(TURN)
    channel.connectionLost(Failure(ConnectionDone()))
    before = len(made)
    for _ in range(5):
        reactor.advance(TURN)
    assert len(made) == before
    assert not server.channels


def test_too_many_connections_are_refused() -> None:
    reactor = _Reactor()
    _server(reactor)
    for _ in range(http.MAX_CONNECTIONS):
        reactor.factory.buildProtocol(None).makeConnection(_Transport())
    assert reactor.factory.buildProtocol(None) is None


def test_a_taken_port_is_named_with_its_setting() -> None:
    problem = CannotListenError("127.0.0.1", 9464, OSError(98, "Address already in use"))
    with pytest.raises(HttpError, match=r"http\.listener: cannot listen on 127\.0\.0\.1:9464: .*in use.*`off`"):
        _server(_Reactor(problem))


def test_off_means_that_nothing_listens() -> None:
    reactor = _Reactor()
    config: Any = SimpleNamespace(http_listener=None)
    server = HttpServer(reactor, SimpleNamespace(metrics=None), config)  # type: ignore[arg-type]
    server.start()
    assert server.port is None
    assert reactor.factory is None
    assert server.stop().called


def test_stop_closes_the_port_and_what_is_open() -> None:
    reactor = _Reactor()
    server = _server(reactor)
    transport: Any = _Transport()
    reactor.factory.buildProtocol(None).makeConnection(transport)
    assert server.stop().called
    assert reactor.stopped == 1
    assert transport.aborting


def test_a_broker_is_ready_when_registered_with_a_log_dir_online() -> None:
    broker: Any = SimpleNamespace(
        config=SimpleNamespace(broker_id=1),
        view=SimpleNamespace(brokers={}),
        logs=SimpleNamespace(dirs=[SimpleNamespace(online=False)]),
    )
    assert not_ready(broker) == "broker 1 is not registered in ZooKeeper"
    broker.view.brokers[1] = object()
    assert not_ready(broker) == "every log dir is offline"
    broker.logs.dirs[0].online = True
    assert not_ready(broker) is None
