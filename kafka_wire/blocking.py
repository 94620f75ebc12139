"""A client for programs without a reactor (Spark executors, tools, tests): plain sockets.

`request` asks and waits; `send` and `receive` keep several requests under way on one connection, and `wait_for_any`
waits on several connections. No class here may be shared by threads. A connection on which anything went wrong is
closed, never reused: there is no telling which answers are still under way on it. Nothing is ever sent twice here;
whether a request may be repeated only its sender knows.
"""

import math
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka_wire.apis import Api
from kafka_wire.errors import BrokerNotAvailable, KafkaError, Malformed, NetworkException, RequestTimedOut
from kafka_wire.exchange import Answer, Exchange, State, joined, parse_bootstrap
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import BrokerAddress, MetadataView
from kafka_wire.schema.metadata import MetadataRequest, MetadataRequestTopic

RECEIVE_SIZE = 256 * 1024
CONNECT_TIMEOUT = 10.0  # at most so long for a connection, whatever the timeout of requests: another broker may do

Result = TypeVar("Result")
Connect = Callable[[str, int, float], socket.socket]


def connect_tcp(host: str, port: int, timeout: float) -> socket.socket:
    """A connected socket without Nagle's delay; OSError if it cannot be had."""
    sock = socket.create_connection((host, port), timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


class BlockingPeer:
    """One connection to one broker, made and negotiated by the constructor.

    Every call ends within its timeout: with an answer, with RequestTimedOut, or with NetworkException when the
    connection failed or the broker's bytes made no sense. After either error the peer is closed, and the answers that
    were still awaited never come.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str | None = "barnabas",
        timeout: float = 30.0,
        *,
        connect: Connect = connect_tcp,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host, self.port, self.timeout = host, port, timeout
        self.closed = False
        self._clock = clock
        self._exchange = Exchange(client_id)
        self._arrived: deque[Answer] = deque()
        patience = min(timeout, CONNECT_TIMEOUT)
        deadline = clock() + patience
        try:
            self._socket = connect(host, port, patience)
        except OSError as error:
            self.closed = True
            raise NetworkException(f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        self._guarded(lambda: self._negotiate(deadline))

    def request(self, api: Api, body: Any, *, timeout: float | None = None, max_version: int | None = None) -> Any:
        """The response body; None for a Produce with acks 0. UnsupportedVersion leaves the connection as it was.

        Not while answers to `send` are awaited: they would come first.
        """
        if self.awaited:
            raise RuntimeError(f"request while {self.awaited} answers are awaited")
        started = self._clock()
        self.send(api, body, timeout=timeout, max_version=max_version)
        if not self._exchange.pending_count:
            return None
        left = (self.timeout if timeout is None else timeout) - (self._clock() - started)
        return self.receive(timeout=left).body

    @property
    def awaited(self) -> int:
        """How many calls of `receive` are due."""
        return len(self._arrived) + (0 if self.closed else self._exchange.pending_count)

    @property
    def has_answer(self) -> bool:
        """Whether `receive` returns without looking at the socket."""
        return bool(self._arrived)

    def fileno(self) -> int:
        """The socket's, to wait until something arrives."""
        return self._socket.fileno()

    def send(self, api: Api, body: Any, *, timeout: float | None = None, max_version: int | None = None) -> int:
        """Send a request without waiting for its answer; its correlation id. Errors as `request` has them."""
        if self.closed:
            raise NetworkException(f"the connection to {self.host}:{self.port} is closed")
        correlation_id, parts = self._exchange.request(api, body, max_version=max_version)
        deadline = self._deadline(timeout)
        self._guarded(lambda: self._send(parts, deadline))
        return correlation_id

    def receive(self, timeout: float | None = None) -> Answer:
        """The next answer; they come in the order of the requests."""
        if not self._arrived:
            if self.closed:
                raise NetworkException(f"the connection to {self.host}:{self.port} is closed")
            if not self._exchange.pending_count:
                raise RuntimeError("receive while no answer is awaited")
            deadline = self._deadline(timeout)
            self._guarded(lambda: self._await_answer(deadline))
        return self._arrived.popleft()

    def is_usable(self) -> bool:
        """Whether the broker has not hung up: while no answer is awaited nothing may arrive, so anything is an end."""
        if self.closed:
            return False
        self._socket.settimeout(0)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK)) and self._exchange.pending_count > 0
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if not self.closed:
            self.closed = True
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _guarded(self, step: Callable[[], Result]) -> Result:
        """Run one step of the conversation; whatever ends it early (Ctrl-C too) closes the connection."""
        name = f"{self.host}:{self.port}"
        try:
            return step()
        except TimeoutError:
            self.close()
            raise RequestTimedOut(f"no answer from {name} in time") from None
        except (OSError, Malformed) as error:
            self.close()
            raise NetworkException(f"the connection to {name} failed: {error}") from error
        except BaseException:
            self.close()
            raise

    def _negotiate(self, deadline: float) -> None:
        to_send = self._exchange.start()
        while self._exchange.state is not State.READY:
            if to_send:
                self._send(to_send, deadline)
            _, to_send = self._exchange.receive(self._receive(deadline))

    def _await_answer(self, deadline: float) -> None:
        while not self._arrived:
            self._arrived += self._exchange.receive(self._receive(deadline))[0]

    def _deadline(self, timeout: float | None) -> float:
        return self._clock() + (self.timeout if timeout is None else timeout)

    def _send(self, parts: list[Any], deadline: float) -> None:
        self._socket.settimeout(self._left(deadline))
        self._socket.sendall(joined(parts))

    def _receive(self, deadline: float) -> bytes:
        self._socket.settimeout(self._left(deadline))
        data = self._socket.recv(RECEIVE_SIZE)
        if not data:
            raise ConnectionResetError("the broker closed it")
        return data

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        return left


def wait_for_any(peers: Collection[BlockingPeer], timeout: float) -> list[BlockingPeer]:
    """Those peers that have an answer, a part of one, or an end of the connection; none after `timeout` seconds."""
    ready = [peer for peer in peers if peer.has_answer or peer.closed]
    if ready:
        return ready
    poll = select.poll()
    by_number = {peer.fileno(): peer for peer in peers}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(math.ceil(timeout * 1000))]


class BlockingCluster:
    """The brokers of one cluster: a connection to each one that is asked, and the metadata, kept until refreshed."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str | None = "barnabas",
        timeout: float = 30.0,
        *,
        connect: Connect = connect_tcp,
    ) -> None:
        self.timeout = timeout
        self._bootstrap = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._connect = connect
        self._peers: dict[tuple[str, int], BlockingPeer] = {}
        self.view = MetadataView()

    def request(
        self,
        api: Api,
        body: Any,
        broker_id: int | None = None,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> Any:
        """The response body from one broker, or from whichever can be reached.

        NetworkException, RequestTimedOut, UnsupportedVersion, or BrokerNotAvailable for an id that no metadata names.
        Error codes inside the response are the caller's to look at.
        """
        if broker_id is None:
            peer = self._any_peer()
        else:
            address = self._address(broker_id)
            peer = self._peer(address.host, address.port)
        return peer.request(api, body, timeout=timeout, max_version=max_version)

    def metadata(
        self, topics: Iterable[str] | None = None, refresh: bool = False, *, create: bool = False
    ) -> MetadataView:
        """The view of the cluster, with at least these topics asked for (None: all).

        An unknown topic is no error here: the view's look-ups raise it. With `create` the broker may create it, if
        its settings allow that.
        """
        names = None if topics is None else sorted(set(topics))
        if refresh or not self._covers(names):
            wanted = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
            response = self.request(Api.METADATA, MetadataRequest(topics=wanted, allow_auto_topic_creation=create))
            self.view = self.view.merged(MetadataView.of(response, complete=names is None))
        return self.view

    def leader(self, tp: TopicPartition) -> int:
        """The broker leading a partition. What is not known, or has no leader, is asked for once more, then raised."""
        try:
            return self.metadata([tp.topic]).leader(tp)
        except KafkaError as error:
            if not error.retriable:
                raise
        return self.metadata([tp.topic], refresh=True).leader(tp)

    def connect(self, broker_id: int) -> BlockingPeer:
        """A connection of the caller's own, to keep requests under way on; the caller closes it."""
        address = self._address(broker_id)
        return BlockingPeer(address.host, address.port, self._client_id, self.timeout, connect=self._connect)

    def close(self) -> None:
        """Close every connection; the next request would open them again."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _covers(self, names: Collection[str] | None) -> bool:
        return self.view.complete if names is None else all(name in self.view.topics for name in names)

    def _address(self, broker_id: int) -> BrokerAddress:
        try:
            return self.view.address(broker_id)
        except BrokerNotAvailable:
            return self.metadata((), refresh=True).address(broker_id)

    def _any_peer(self) -> BlockingPeer:
        """An open connection if there is one, else the first of the known and the bootstrap brokers that answers."""
        for peer in list(self._peers.values()):
            if peer.is_usable():
                return peer
        known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        failures: list[str] = []
        for host, port in dict.fromkeys(known + self._bootstrap):
            try:
                return self._peer(host, port)
            except (NetworkException, RequestTimedOut) as error:
                failures.append(str(error))
        raise NetworkException("no broker can be reached: " + "; ".join(failures))

    def _peer(self, host: str, port: int) -> BlockingPeer:
        peer = self._peers.get((host, port))
        if peer is not None and peer.is_usable():
            return peer
        if peer is not None:
            peer.close()
        peer = BlockingPeer(host, port, self._client_id, self.timeout, connect=self._connect)
        self._peers[(host, port)] = peer
        return peer
