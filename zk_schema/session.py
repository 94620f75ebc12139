"""One ZooKeeper session after another, on the reactor thread. The only module that imports kazoo.

Rules of this file:
- kazoo's threads only post to the reactor; everything that decides runs there, and nothing here blocks it.
- **One kazoo client per session.** When a session ends its client is stopped before it could open the next one, so that
  a call made in one session can never be executed in another (F9), and watches of an old session cannot fire.
- Every Deferred ends: with the answer, with ConnectionLost (may or may not have been applied), or with SessionExpired.
- Raw watches do not outlive the *connection* (kazoo drops them): re-read and re-arm at CONNECTED and NEW_SESSION (A18).
- What a state allows us to believe: NEW_SESSION: nothing of ours that is ephemeral exists. CONNECTED: the same session,
  ephemerals are still there. SUSPENDED: they are there while the lease holds, later perhaps. LOST: they are gone.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KazooState
from twisted.internet.defer import Deferred, fail
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from zk_schema import paths
from zk_schema.operations import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConnectionLost,
    CoordinationError,
    Create,
    Delete,
    MultiTooLarge,
    NoChildrenForEphemerals,
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

__all__ = [
    "BadVersion",
    "Check",
    "ConnectionLost",
    "CoordinationError",
    "Create",
    "Delete",
    "MultiTooLarge",
    "NoNode",
    "NodeError",
    "NodeExists",
    "NotEmpty",
    "Session",
    "SessionExpired",
    "SessionState",
    "Set",
    "Stat",
    "WatchEvent",
]

HEARTBEATS_PER_TIMEOUT = 6
LEASE_MARGIN_SECONDS = 0.5
_RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}

_NODE_ERRORS: dict[type[Exception], type[NodeError]] = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
}
_SESSION_OVER = (
    kazoo_errors.SessionExpiredError,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.AuthFailedError,
)
# A failed multi answers these for the operations before and after the one that failed.
_BYSTANDERS = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)

log = Logger()


class SessionState(enum.Enum):
    """What a listener is told; the head of this file says what each allows us to believe."""

    NEW_SESSION = "connected, with a session that did not exist before (the first one too)"
    CONNECTED = "connected again, with the same session"
    SUSPENDED = "not connected"
    LOST = "the session is over; a new one is being made"


@attrs.frozen
class WatchEvent:
    """A watch fired: "created", "deleted", "changed" or "child"."""

    kind: str
    path: str
    session_id: int


Watch = Callable[[WatchEvent], None]
Listener = Callable[[SessionState], None]

_EVENT_KINDS = {
    EventType.CREATED: "created",
    EventType.DELETED: "deleted",
    EventType.CHANGED: "changed",
    EventType.CHILD: "child",
}


def boot_time() -> float:
    """Seconds on a clock that also counts the time a machine sleeps (A14)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def lease_end(sent: float, timeout_ms: int) -> float:
    """Until when a session surely lives that the server answered for: from the *sending*, less a margin (A14)."""
    timeout = timeout_ms / 1000
    return sent + timeout - max(LEASE_MARGIN_SECONDS, timeout / 10)


def translate(
    problem: BaseException, path: str, operation: Operation | None = None, index: int | None = None
) -> Exception:
    """kazoo's exception as ours."""
    for theirs, ours in _NODE_ERRORS.items():
        if isinstance(problem, theirs):
            return ours(path, operation, index)
    if isinstance(problem, _SESSION_OVER):
        return SessionExpired(f"{path}: the ZooKeeper session is over")
    if isinstance(problem, kazoo_errors.ConnectionLoss | kazoo_errors.OperationTimeoutError):
        return ConnectionLost(f"{path}: no answer from ZooKeeper")
    return CoordinationError(f"{path}: {type(problem).__name__} {problem}")


def multi_outcome(operations: Sequence[Operation], results: Sequence[Any]) -> list[Any]:
    """The results of a multi, or the error of the one operation that failed, named (kazoo raises nothing itself)."""
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, _BYSTANDERS):
            raise translate(result, operation.path, operation, index)
    if any(isinstance(result, Exception) for result in results):
        raise CoordinationError(f"{operations[0].path}: a multi failed and ZooKeeper did not say where")
    return [_plain(result) for result in results]


def _plain(result: Any) -> Any:
    """kazoo's stat as ours; anything else as it is."""
    if not hasattr(result, "ephemeralOwner"):
        return result
    return Stat(
        version=result.version,
        czxid=result.czxid,
        mzxid=result.mzxid,
        ctime_ms=result.ctime,
        mtime_ms=result.mtime,
        ephemeral_owner=result.ephemeralOwner,
        children=result.numChildren,
    )


@attrs.define(eq=False)
class _Life:
    """One kazoo client and the one session that it may have. `session_id` is 0 until it is connected."""

    client: Any
    session_id: int = 0
    announced: bool = False
    pending: set[Deferred[Any]] = attrs.field(factory=set)


class Session:
    """ZooKeeper for one process. Methods are called, and Deferreds and callbacks fire, on the reactor thread."""

    def __init__(
        self,
        reactor: Any,
        connect: str,
        timeout_ms: int = 18_000,
        *,
        clock: Callable[[], float] = boot_time,
        make_client: Callable[..., Any] = KazooClient,
    ) -> None:
        self._reactor = reactor
        self._connect = connect
        hosts, slash, root = connect.partition("/")
        self._hosts, self._root = hosts, slash + root.strip("/") if root.strip("/") else ""
        self._asked_timeout_ms = timeout_ms
        self._clock = clock
        self._make_client = make_client
        self._listeners: list[Listener] = []
        self._life: _Life | None = None
        self._started: Deferred[None] | None = None
        self._start_limit: Any = None
        self._heartbeat: Any = None
        self._heartbeat_unanswered = False
        self._stopping = False
        self.connected = False
        self.negotiated_timeout_ms = timeout_ms
        """The server's word, not our wish (F7); before the first connection the wish."""
        self.lease_until = float("-inf")
        """On `clock`; before it the session surely lives."""

    @property
    def session_id(self) -> int | None:
        """Id of the current session; None while there is none."""
        return (self._life.session_id or None) if self._life is not None else None

    @property
    def last_zxid(self) -> int:
        """Highest transaction that the current session has seen (F8)."""
        return int(self._life.client.last_zxid) if self._life is not None else 0

    def lease_valid(self, now: float | None = None) -> bool:
        """Whether nobody else can believe our session dead. To be asked at the moment of use (A15)."""
        return (self._clock() if now is None else now) < self.lease_until

    def add_listener(self, listener: Listener) -> None:
        """Calls `listener` at every change of state, in the order of adding."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Reverse of `add_listener`."""
        self._listeners.remove(listener)

    # Start and stop

    def start(self, timeout: float | None = None) -> Deferred[None]:
        """Connects. Fires at the first session; fails with ConnectionLost after `timeout` seconds (None: never)."""
        if self._started is not None:
            raise RuntimeError("a session is started once")
        self._started = Deferred()
        if timeout is not None:
            self._start_limit = self._reactor.callLater(timeout, self._start_too_late, timeout)
        self._begin()
        return self._started

    def stop(self) -> Deferred[None]:
        """Closes the session: its ephemeral nodes are gone when the Deferred fires. What was under way fails."""
        self._stopping = True
        life = self._life
        self._end_life()
        if self._start_limit is not None and self._start_limit.active():
            self._start_limit.cancel()
        if life is None:
            done: Deferred[None] = Deferred()
            done.callback(None)
            return done
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), _close, life.client)

    def _start_too_late(self, timeout: float) -> None:
        started = self._started
        assert started is not None
        stopped = self.stop()
        problem = ConnectionLost(f"no ZooKeeper session with {self._connect} within {timeout:g} s")
        stopped.addBoth(lambda _: started.errback(problem))

    def _begin(self) -> None:
        """Makes the client of the next session and lets it connect."""
        client = self._make_client(
            hosts=self._hosts, timeout=self._asked_timeout_ms / 1000, connection_retry=dict(_RECONNECT)
        )
        life = self._life = _Life(client)
        connect_step = client._connection._connect

        def connect(*where: Any) -> Any:
            # On kazoo's thread. The negotiated timeout is nowhere but in this return value (F7): 2/3 of it.
            sent = self._clock()
            read_timeout_ms, connect_timeout_ms = connect_step(*where)
            negotiated_ms = round(read_timeout_ms * 1.5)
            self._post(self._on_connected, life, client._session_id, negotiated_ms, sent)
            return read_timeout_ms, connect_timeout_ms

        def state_changed(state: str) -> None:
            # On kazoo's thread. CONNECTED is told by `connect`, which knows the timeout.
            if state == KazooState.SUSPENDED:
                self._post(self._on_suspended, life)
            elif state == KazooState.LOST:
                client._stopped.set()  # at once, on this thread: this client must not open another session (F9)
                self._post(self._on_lost, life)

        client._connection._connect = connect
        client.add_listener(state_changed)
        client.start_async()

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        self._reactor.callFromThread(function, *arguments)

    # What kazoo's threads posted

    def _on_connected(self, life: _Life, session_id: int, negotiated_ms: int, sent: float) -> None:
        if life is not self._life:
            return
        life.session_id = session_id
        self.negotiated_timeout_ms = negotiated_ms
        self.lease_until = max(self.lease_until, lease_end(sent, negotiated_ms))
        self.connected = True
        self._heartbeat_unanswered = False
        self._plan_heartbeat()
        if self._root and not life.client.chroot:
            # kazoo cannot make the node that is its own root, so its client starts at the server's root.
            made = self._call(self._root, lambda client: client.ensure_path_async(self._root))
            made.addCallbacks(lambda _: self._rooted(life), lambda _: None)  # failed: again at the next connection
        else:
            self._announce(life)

    def _rooted(self, life: _Life) -> None:
        life.client.chroot = self._root
        self._announce(life)

    def _announce(self, life: _Life) -> None:
        if life is not self._life:
            return
        new, life.announced = not life.announced, True
        self._notify(SessionState.NEW_SESSION if new else SessionState.CONNECTED)
        if self._started is not None and not self._started.called:
            if self._start_limit is not None and self._start_limit.active():
                self._start_limit.cancel()
            self._started.callback(None)

    def _on_suspended(self, life: _Life) -> None:
        if life is self._life:
            self.connected = False
            self._notify(SessionState.SUSPENDED)

    def _on_lost(self, life: _Life) -> None:
        if life is not self._life:
            return
        self._end_life()
        self._reactor.callInThread(_close, life.client)
        self._notify(SessionState.LOST)
        if not self._stopping:
            self._begin()

    def _end_life(self) -> None:
        """Forgets the session and fails what waits for it; kazoo's later answers find nothing to settle."""
        life, self._life = self._life, None
        self.connected = False
        self.lease_until = float("-inf")
        if self._heartbeat is not None and self._heartbeat.active():
            self._heartbeat.cancel()
        if life is None:
            return
        waiting, life.pending = life.pending, set()
        for deferred in waiting:
            deferred.errback(SessionExpired("the ZooKeeper session is over"))

    def _notify(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.failure("a listener of the ZooKeeper session failed at {state}", state=state.name)

    # The lease

    def _plan_heartbeat(self) -> None:
        if self._heartbeat is not None and self._heartbeat.active():
            self._heartbeat.cancel()
        delay = self.negotiated_timeout_ms / 1000 / HEARTBEATS_PER_TIMEOUT
        self._heartbeat = self._reactor.callLater(delay, self._beat)

    def _beat(self) -> None:
        """One read of the lease node (A14); that it does not exist is an answer too."""
        self._plan_heartbeat()
        if not self.connected or self._heartbeat_unanswered:
            return
        life, sent = self._life, self._clock()
        self._heartbeat_unanswered = True

        def answered(_: Any) -> None:
            if life is self._life:
                self._heartbeat_unanswered = False
                self.lease_until = max(self.lease_until, lease_end(sent, self.negotiated_timeout_ms))

        def failed(_: Any) -> None:
            if life is self._life:
                self._heartbeat_unanswered = False

        self.exists(paths.LEASE).addCallbacks(answered, failed)

    # Reading

    def get(self, path: str, watch: Watch | None = None) -> Deferred[tuple[bytes, Stat]]:
        """Data and stat; NoNode. The watch is armed only if the node exists."""
        found = self._call(path, lambda client: client.get_async(path, watch=self._armed(watch)))
        return found.addCallback(lambda answer: (answer[0], _plain(answer[1])))

    def children(self, path: str, watch: Watch | None = None) -> Deferred[list[str]]:
        """Names of the children, sorted; NoNode."""
        found = self._call(path, lambda client: client.get_children_async(path, watch=self._armed(watch)))
        return found.addCallback(sorted)

    def exists(self, path: str, watch: Watch | None = None) -> Deferred[Stat | None]:
        """The stat, or None; the watch is armed in both cases."""
        found = self._call(path, lambda client: client.exists_async(path, watch=self._armed(watch)))
        return found.addCallback(_plain)

    def sync(self, path: str = "/") -> Deferred[None]:
        """Reads after this see at least everything that was written before it, by anybody."""
        return self._call(path, lambda client: client.sync_async(path)).addCallback(lambda _: None)

    # Writing

    def create(self, path: str, data: bytes = b"", ephemeral: bool = False, sequence: bool = False) -> Deferred[str]:
        """Path of the new node (with its number, if sequential); NodeExists, NoNode (of the parent)."""
        return self._write(
            Create(path, data), lambda client: client.create_async(path, data, ephemeral=ephemeral, sequence=sequence)
        )

    def set(self, path: str, data: bytes, version: int) -> Deferred[Stat]:
        """Stat after the write; BadVersion, NoNode."""
        written = self._write(Set(path, data, version), lambda client: client.set_async(path, data, version))
        return written.addCallback(_plain)

    def delete(self, path: str, version: int = ANY_VERSION) -> Deferred[None]:
        """BadVersion, NoNode, NotEmpty."""
        gone = self._call(path, lambda client: client.delete_async(path, version))
        return gone.addCallback(lambda _: None)

    def multi(self, operations: Sequence[Operation]) -> Deferred[list[Any]]:
        """All or nothing. Per operation: the path of a Create, the Stat of a Set, True for Check and Delete.

        Fails with the NodeError of the operation that failed (`.operation`, `.index`), or with MultiTooLarge before
        anything is sent (A1). After ConnectionLost the caller reads what it wanted to write before it repeats (A5).
        """
        try:
            check_size(operations, len(self._root))
        except MultiTooLarge as problem:
            return fail(problem)
        where = operations[0].path if operations else "/"
        done = self._call(where, lambda client: _transaction(client, operations).commit_async())
        return done.addCallback(lambda results: multi_outcome(operations, results))

    def _write(self, measured: Operation, start: Callable[[Any], Any]) -> Deferred[Any]:
        try:
            check_size([measured], len(self._root))
        except MultiTooLarge as problem:
            return fail(problem)
        return self._call(measured.path, start)

    # The bridge

    def _call(self, path: str, start: Callable[[Any], Any]) -> Deferred[Any]:
        """kazoo's AsyncResult as a Deferred of the current session."""
        life = self._life
        if life is None or not life.session_id:
            return fail(SessionExpired(f"{path}: there is no ZooKeeper session"))
        waiting: Deferred[Any] = Deferred()
        life.pending.add(waiting)
        try:
            result = start(life.client)
        except kazoo_errors.KazooException as problem:
            life.pending.discard(waiting)
            return fail(translate(problem, path))
        result.rawlink(lambda answer: self._post(self._settle, life, waiting, path, answer))
        return waiting

    def _settle(self, life: _Life, waiting: Deferred[Any], path: str, answer: Any) -> None:
        if waiting not in life.pending:
            return
        life.pending.discard(waiting)
        if answer.successful():
            waiting.callback(answer.value)
        else:
            waiting.errback(translate(answer.exception, path))

    def _armed(self, watch: Watch | None) -> Callable[[Any], None] | None:
        """kazoo's callback for a watch of ours; it carries the session that armed it."""
        if watch is None:
            return None
        life = self._life
        return lambda event: self._post(self._fire, life, watch, event)

    def _fire(self, life: _Life, watch: Watch, event: Any) -> None:
        kind = _EVENT_KINDS.get(event.type)
        if kind is None or life is not self._life:
            return
        try:
            watch(WatchEvent(kind, event.path, life.session_id))
        except Exception:
            log.failure("a watch of {path} failed", path=event.path)


def write_once(connect: str, path: str, data: bytes, timeout: float) -> Stat:
    """Writes one node, made if it is not there, in a session of its own: for who has no reactor yet. Blocks.

    ConnectionLost if there is no session within `timeout` seconds.
    """
    hosts, _, root = connect.partition("/")
    rooted = f"/{root}".rstrip("/") + path
    client = KazooClient(hosts=hosts)
    try:
        client.start(timeout)
        client.ensure_path(rooted)
        stat: Stat = _plain(client.set(rooted, data))
    except client.handler.timeout_exception:
        raise ConnectionLost(f"no ZooKeeper session with {connect} within {timeout:g} s") from None
    except kazoo_errors.KazooException as problem:
        raise translate(problem, path) from problem
    finally:
        _close(client)
    return stat


def _transaction(client: Any, operations: Sequence[Operation]) -> Any:
    transaction = client.transaction()
    for operation in operations:
        match operation:
            case Create(path, data, ephemeral, sequence):
                transaction.create(path, data, ephemeral=ephemeral, sequence=sequence)
            case Set(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case Check(path, version):
                transaction.check(path, version)
    return transaction


def _close(client: Any) -> None:
    """On a thread of the pool, for it waits. `stop` alone does nothing on a client whose session was lost."""
    try:
        client.stop()
        client._safe_close()
        client.close()
    except Exception:
        log.failure("closing a ZooKeeper client failed")
