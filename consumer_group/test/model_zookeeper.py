"""ZooKeeper as a model in simulated time: nodes, sessions, watches, multis, and a network that loses things.

`Server` is the truth. `ModelSession` has the methods of zk_schema.session.Session and is worse than it: besides lost
answers and sessions that end unnoticed, a multi that was under way when the connection broke may be executed in the
client's *next* session (F9), which our Session rules out and the rules of the protocol must survive all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from zk_schema.operations import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeError,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    Set,
    Stat,
    check_size,
)
from zk_schema.session import SessionState, WatchEvent, lease_end

Watch = Callable[[WatchEvent], None]


@attrs.define(eq=False)
class Node:
    """A znode."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int


class Server:
    """All nodes, all sessions, and who watches what."""

    def __init__(self, clock: Clock, timeout: float) -> None:
        self.clock = clock
        self.timeout = timeout
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0, 0)}
        self.heard: dict[int, float] = {}
        self.on_apply: Callable[[int, Sequence[Operation]], None] = lambda session, operations: None
        self.on_expiry: dict[int, Callable[[], None]] = {}
        self._watches: dict[tuple[str, str], list[tuple[int, Watch]]] = {}
        self._zxid = 0
        self._last_session = 0
        self._tick()

    def _tick(self) -> None:
        for session in [one for one, heard in self.heard.items() if self.clock.seconds() - heard > self.timeout]:
            self.end(session)
        self.clock.callLater(0.1, self._tick)

    def open(self) -> int:
        """A new session."""
        self._last_session += 1
        self.heard[self._last_session] = self.clock.seconds()
        return self._last_session

    def end(self, session: int) -> None:
        """A session ends: its ephemeral nodes go."""
        if session in self.heard:
            del self.heard[session]
            mine = [path for path, node in self.nodes.items() if node.owner == session]
            for path in mine:
                self._delete(path)
            self.on_expiry.pop(session, lambda: None)()

    def touch(self, session: int) -> None:
        """A request came; SessionExpired."""
        if session not in self.heard:
            raise SessionExpired("gone")
        self.heard[session] = self.clock.seconds()

    def children(self, path: str) -> list[str]:
        """Sorted names."""
        if path not in self.nodes:
            raise NoNode(path)
        prefix = path.rstrip("/") + "/"
        below = [one[len(prefix) :] for one in self.nodes if one.startswith(prefix)]
        return sorted(name for name in below if name and "/" not in name)

    def stat(self, path: str) -> Stat | None:
        """As `exists` has it."""
        node = self.nodes.get(path)
        return None if node is None else Stat(node.version, node.czxid, node.mzxid, 0, 0, node.owner, 0)

    def watch(self, kind: str, path: str, session: int, watch: Watch) -> None:
        """Arms a watch, "data" or "child"."""
        self._watches.setdefault((kind, path), []).append((session, watch))

    def forget_watches(self, session: int) -> None:
        """The connection broke."""
        for armed in self._watches.values():
            armed[:] = [one for one in armed if one[0] != session]

    def multi(self, session: int, operations: Sequence[Operation]) -> list[Any]:
        """All or nothing."""
        undo = {path: attrs.evolve(node) for path, node in self.nodes.items()}
        fired: list[tuple[str, str, str]] = []
        results: list[Any] = []
        self._zxid += 1
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(session, operation, fired))
            except NodeError as problem:
                self.nodes = undo
                raise type(problem)(operation.path, operation, index) from None
        self.on_apply(session, operations)
        for kind, path, event in fired:
            self._fire(kind, path, event)
        return results

    def _apply(self, session: int, operation: Operation, fired: list[tuple[str, str, str]]) -> Any:
        path = operation.path
        node = self.nodes.get(path)
        parent = path.rpartition("/")[0] or "/"
        if isinstance(operation, Create):
            if parent not in self.nodes:
                raise NoNode(path)
            if node is not None:
                raise NodeExists(path)
            owner = session if operation.ephemeral else 0
            self.nodes[path] = Node(operation.data, 0, self._zxid, self._zxid, owner)
            fired += [("data", path, "created"), ("child", parent, "child")]
            return path
        if node is None:
            raise NoNode(path)
        if operation.version not in (-1, node.version):
            raise BadVersion(path)
        if isinstance(operation, Set):
            node.data, node.version, node.mzxid = operation.data, node.version + 1, self._zxid
            fired.append(("data", path, "changed"))
            return self.stat(path)
        if isinstance(operation, Delete):
            if self.children(path):
                raise NotEmpty(path)
            del self.nodes[path]
            fired += [("data", path, "deleted"), ("child", parent, "child")]
        else:
            assert isinstance(operation, Check)
        return True

    def _delete(self, path: str) -> None:
        self._zxid += 1
        del self.nodes[path]
        self._fire("data", path, "deleted")
        self._fire("child", path.rpartition("/")[0] or "/", "child")

    def _fire(self, kind: str, path: str, event: str) -> None:
        for session, watch in self._watches.pop((kind, path), []):
            watch(WatchEvent(event, path, session))


class ModelSession:
    """One client. `reactor` is the member's, which stands still while the member is paused."""

    def __init__(self, server: Server, reactor: Any, dice: random.Random, *, hostile: float = 0.0) -> None:
        self._server = server
        self._reactor = reactor
        self._clock = server.clock
        self._dice = dice
        self._hostile = hostile
        self._listeners: list[Callable[[SessionState], None]] = []
        self._id = 0
        self._connection = 0
        self._pending: dict[int, tuple[Deferred[Any], Callable[[int], Any], bool]] = {}
        self._held: list[Callable[[int], Any]] = []
        self._requests = 0
        self._arrival = self._answer = 0.0
        self._stopped = False
        self.connected = False
        self.lease_until = float("-inf")
        self.negotiated_timeout_ms = round(server.timeout * 1000)
        self.delay = 0.01

    @property
    def session_id(self) -> int | None:
        """As Session has it."""
        return self._id or None

    def lease_valid(self) -> bool:
        """As Session has it; the clock is the world's, which goes on while the member is paused."""
        return self._clock.seconds() < self.lease_until

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        """As Session has it."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Connects, and keeps connecting."""
        self._reactor.callLater(self._dice.uniform(0, 0.05), self._connect)

    def stop(self) -> Deferred[None]:
        """Closes the session."""
        self._stopped = True
        if self._id and self.connected:
            self._server.end(self._id)
        self._break(SessionExpired("stopped"))
        self._id = 0
        return succeed(None)

    def drop(self, away: float) -> None:
        """The connection breaks and comes back after so long; what was under way may or may not have been applied."""
        if not self.connected:
            return
        for _, apply, lost in list(self._pending.values()):
            if not lost and self._dice.random() < 0.5:
                self._try(apply, self._id)  # it had arrived; only its answer is lost
            elif self._dice.random() < self._hostile:
                self._held.append(apply)
        self._reactor.post(self._suspend, self._connection)
        self._connection += 1
        self._server.forget_watches(self._id)
        self._clock.callLater(away, self._reactor.post, self._connect)

    # --- inside ---

    def _suspend(self, connection: int) -> None:
        if connection == self._connection - 1 and self.connected:
            self.connected = False
            self._tell(SessionState.SUSPENDED)
            self._break(ConnectionLost("dropped"))

    def _break(self, problem: Exception) -> None:
        pending, self._pending = self._pending, {}
        for deferred, _, _ in pending.values():
            if not deferred.called:
                deferred.errback(problem)

    def _connect(self) -> None:
        if self._stopped or self.connected:
            return
        if self._id and self._id not in self._server.heard:
            self._id = 0
            self.lease_until = float("-inf")
            self._break(SessionExpired("over"))
            self._tell(SessionState.LOST)
            self._reactor.callLater(self._dice.uniform(0, 0.1), self._connect)
            return
        new = not self._id
        if new:
            self._id = self._server.open()
            self._server.on_expiry[self._id] = partial(self._reactor.post, self._expired, self._id)
        self._server.touch(self._id)
        self.connected = True
        self._connection += 1
        self.lease_until = lease_end(self._clock.seconds(), self.negotiated_timeout_ms)
        held, self._held = self._held, []
        for apply in held if new else ():  # in the same session a server refuses what comes by an old connection
            self._try(apply, self._id)
        self._tell(SessionState.NEW_SESSION if new else SessionState.CONNECTED)
        self._beat(self._connection)

    def _expired(self, session: int) -> None:
        """The server hangs up on a session that it has ended."""
        if session == self._id and self.connected:
            self.connected = False
            self._connection += 1
            self._tell(SessionState.SUSPENDED)
            self._break(ConnectionLost("hung up"))
            self._reactor.callLater(self._dice.uniform(0, 0.1), self._connect)

    def _tell(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            listener(state)

    def _beat(self, connection: int) -> None:
        if connection != self._connection or not self.connected:
            return
        sent = self._clock.seconds()

        def answered(_: Any) -> None:
            if connection == self._connection:
                self.lease_until = max(self.lease_until, lease_end(sent, self.negotiated_timeout_ms))

        self._ask(lambda session: None).addCallbacks(answered, lambda _: None)
        self._reactor.callLater(self._server.timeout / 6, self._beat, connection)

    def _try(self, apply: Callable[[int], Any], session: int) -> Any:
        try:
            self._server.touch(session)
            return apply(session)
        except (NodeError, SessionExpired) as problem:
            return problem

    def _ask(self, apply: Callable[[int], Any]) -> Deferred[Any]:
        """A request: in order to the server, in order back, with delays; the process may stand still meanwhile."""
        if not self._id:
            return fail(SessionExpired("none"))
        if not self.connected:
            return fail(ConnectionLost("not connected"))
        self._requests += 1
        number, connection, session = self._requests, self._connection, self._id
        done: Deferred[Any] = Deferred()
        self._pending[number] = (done, apply, False)
        now = self._clock.seconds()
        self._arrival = max(self._arrival, now + self._dice.uniform(0, self.delay))

        def arrive() -> None:
            if connection != self._connection or number not in self._pending:
                return
            self._pending[number] = (done, apply, True)
            result = self._try(apply, session)
            self._answer = max(self._answer, self._clock.seconds() + self._dice.uniform(0, self.delay))
            self._clock.callLater(self._answer - self._clock.seconds(), self._reactor.post, answer, result)

        def answer(result: Any) -> None:
            if self._pending.pop(number, None) is not None and not done.called:
                (done.errback if isinstance(result, Exception) else done.callback)(result)

        self._clock.callLater(self._arrival - now, arrive)
        return done

    def _watched(self, kind: str, path: str, session: int, watch: Watch | None) -> None:
        if watch is not None:
            connection = self._connection

            def fire(event: WatchEvent) -> None:
                if connection == self._connection:
                    watch(event)

            def delayed(event: WatchEvent) -> None:
                self._clock.callLater(self._dice.uniform(0, self.delay), self._reactor.post, fire, event)

            self._server.watch(kind, path, session, delayed)

    # --- as Session has them ---

    def get(self, path: str, watch: Watch | None = None) -> Deferred[Any]:
        """As Session has it."""

        def apply(session: int) -> Any:
            stat = self._server.stat(path)
            if stat is None:
                raise NoNode(path)
            self._watched("data", path, session, watch)
            return self._server.nodes[path].data, stat

        return self._ask(apply)

    def children(self, path: str, watch: Watch | None = None) -> Deferred[Any]:
        """As Session has it."""

        def apply(session: int) -> Any:
            names = self._server.children(path)
            self._watched("child", path, session, watch)
            return names

        return self._ask(apply)

    def exists(self, path: str, watch: Watch | None = None) -> Deferred[Any]:
        """As Session has it."""

        def apply(session: int) -> Any:
            self._watched("data", path, session, watch)
            return self._server.stat(path)

        return self._ask(apply)

    def sync(self, path: str = "/") -> Deferred[Any]:
        """As Session has it."""
        return self._ask(lambda session: None)

    def multi(self, operations: Sequence[Operation]) -> Deferred[Any]:
        """As Session has it."""
        check_size(operations)
        return self._ask(lambda session: self._server.multi(session, operations))

    def create(self, path: str, data: bytes = b"", ephemeral: bool = False) -> Deferred[Any]:
        """As Session has it."""
        return self.multi([Create(path, data, ephemeral)]).addCallback(lambda results: results[0])

    def set(self, path: str, data: bytes, version: int) -> Deferred[Any]:
        """As Session has it."""
        return self.multi([Set(path, data, version)]).addCallback(lambda results: results[0])

    def delete(self, path: str, version: int = -1) -> Deferred[Any]:
        """As Session has it."""
        return self.multi([Delete(path, version)]).addCallback(lambda results: None)
