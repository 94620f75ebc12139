"""A model of ZooKeeper with sessions, ephemeral nodes and one-shot watches, and brokers' control planes on top of it.

Everything runs on one `task.Clock`: no thread, no socket, no waiting. An answer can be lost after its request was
applied, a session can end at any moment. The parts under test are the real ones: learner, life, controller, topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from brokerd.broker_settings import BrokerSettings
from brokerd.cluster.asynchronous import Signal
from brokerd.cluster.cluster_state import ClusterState
from brokerd.cluster.controller import Controller
from brokerd.cluster.learning import Learner
from brokerd.cluster.life import Life, Self
from brokerd.cluster.preferred import Balance
from brokerd.cluster.test.store import Store
from brokerd.metadata import ClusterView
from brokerd.moves import Moves
from brokerd.topics import Topics
from kafka_wire.ids import TopicPartition
from zk_schema.nodes import Endpoint
from zk_schema.operations import (
    ANY_VERSION,
    ConnectionLost,
    Create,
    Delete,
    NoNode,
    Operation,
    SessionExpired,
    Set,
    Stat,
)
from zk_schema.session import SessionState, WatchEvent

STEP = 0.01
LATENCY = 0.001


class Ensemble(Store):
    """The server's side."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.nodes = {"/": (b"", 0)}
        self.clock = clock
        self.zxid = 0
        self.stats: dict[str, tuple[int, int, int]] = {}
        """(czxid, mzxid, session that owns it)"""
        self.watches: dict[str, list[Callable[[str], None]]] = {}
        self._sequences: dict[str, int] = {}

    def write(self, operations: Sequence[Operation], session_id: int) -> list[Any]:
        """A multi of one session: its results, and the watches fired."""
        before = dict(self.nodes)
        sequences = dict(self._sequences)
        numbered = [_numbered(one, sequences) for one in operations]
        self.multi(numbered)
        self._sequences = sequences
        self.zxid += 1
        results: list[Any] = []
        for one in numbered:
            if isinstance(one, Create):
                owner = session_id if one.ephemeral else 0
                self.stats[one.path] = (self.zxid, self.zxid, owner)
                results.append(one.path)
            elif isinstance(one, Set):
                self.stats[one.path] = (self.stats[one.path][0], self.zxid, self.stats[one.path][2])
                results.append(self.stat(one.path))
            else:
                results.append(True)
        self._fire(before)
        return results

    def stat(self, path: str) -> Stat:
        """What `exists` answers."""
        czxid, mzxid, owner = self.stats.get(path, (0, 0, 0))
        now = int(self.clock.seconds() * 1000)
        return Stat(self.nodes[path][1], czxid, mzxid, now, now, owner, len(self.children(path)))

    def end_session(self, session_id: int) -> None:
        """Its ephemeral nodes go in one transaction."""
        gone: list[Operation] = [
            Delete(path) for path, (_, _, owner) in self.stats.items() if owner == session_id and path in self.nodes
        ]
        if gone:
            self.write(gone, 0)

    def _fire(self, before: Mapping[str, tuple[bytes, int]]) -> None:
        changed = {path for path in {*before, *self.nodes} if before.get(path) != self.nodes.get(path)}
        moved = {path.rpartition("/")[0] or "/" for path in changed if (path in before) != (path in self.nodes)}
        for path in changed | moved:
            for watch in self.watches.pop(path, ()):
                self.clock.callLater(LATENCY, watch, path)


def _numbered(operation: Operation, sequences: dict[str, int]) -> Operation:
    """A sequential create with its number; what fails leaves no hole (F2)."""
    if not isinstance(operation, Create) or not operation.sequence:
        return operation
    number = sequences.get(operation.path, 0)
    sequences[operation.path] = number + 1
    return Create(f"{operation.path}{number:010}", operation.data)


class FakeSession:
    """One client's side: the part of `zk_schema.session.Session` that brokers use."""

    _last_id = 0

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.clock = ensemble.clock
        self.listeners: list[Callable[[SessionState], None]] = []
        self.session_id: int | None = None
        self.connected = False
        self.negotiated_timeout_ms = 1000
        self.lose_reply: Callable[[Sequence[Operation]], bool] = lambda operations: False
        self._pending: set[Deferred[Any]] = set()

    @property
    def last_zxid(self) -> int:
        """The ensemble's."""
        return self.ensemble.zxid

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        """As the real one."""
        self.listeners.append(listener)

    def begin(self) -> None:
        """A new session."""
        FakeSession._last_id += 1
        self.session_id, self.connected = FakeSession._last_id, True
        self._tell(SessionState.NEW_SESSION)

    def expire(self, *, new: bool = True) -> None:
        """The session ends at the server and here; another one begins, unless the process is dead."""
        former, self.session_id, self.connected = self.session_id, None, False
        if former is None:
            return
        self.ensemble.end_session(former)
        pending, self._pending = self._pending, set()
        for one in pending:
            one.errback(SessionExpired("over"))
        self._tell(SessionState.LOST)
        if new:
            self.begin()

    def _tell(self, state: SessionState) -> None:
        for listener in list(self.listeners):
            listener(state)

    def _call(self, work: Callable[[int], Any], operations: Sequence[Operation] = ()) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        session_id = self.session_id
        if session_id is None:
            answer.errback(SessionExpired("there is no session"))
            return answer
        self._pending.add(answer)

        def serve() -> None:
            if answer not in self._pending:
                return
            self._pending.discard(answer)
            result: Any
            try:
                result = work(session_id)
            except Exception:
                result = Failure()  # type: ignore[no-untyped-call]
            if operations and self.lose_reply(operations):
                result = Failure(ConnectionLost("lost"))  # type: ignore[no-untyped-call]
            answer.callback(result)

        self.clock.callLater(LATENCY, serve)
        return answer

    def _watched(self, path: str, watch: Callable[[WatchEvent], None] | None) -> None:
        if watch is not None:
            session_id = self.session_id
            assert session_id is not None

            def fire(where: str) -> None:
                if self.session_id == session_id:
                    watch(WatchEvent("child", where, session_id))

            self.ensemble.watches.setdefault(path, []).append(fire)

    def get(self, path: str, watch: Callable[[WatchEvent], None] | None = None) -> Deferred[tuple[bytes, Stat]]:
        """As the real one."""

        def work(_: int) -> tuple[bytes, Stat]:
            if path not in self.ensemble.nodes:
                raise NoNode(path)
            self._watched(path, watch)
            return self.ensemble.nodes[path][0], self.ensemble.stat(path)

        return self._call(work)

    def children(self, path: str, watch: Callable[[WatchEvent], None] | None = None) -> Deferred[list[str]]:
        """As the real one."""

        def work(_: int) -> list[str]:
            if path not in self.ensemble.nodes:
                raise NoNode(path)
            self._watched(path, watch)
            return sorted(self.ensemble.children(path))

        return self._call(work)

    def exists(self, path: str, watch: Callable[[WatchEvent], None] | None = None) -> Deferred[Stat | None]:
        """As the real one."""

        def work(_: int) -> Stat | None:
            self._watched(path, watch)
            return self.ensemble.stat(path) if path in self.ensemble.nodes else None

        return self._call(work)

    def sync(self, path: str = "/") -> Deferred[None]:
        """As the real one."""
        return self._call(lambda _: None)

    def create(self, path: str, data: bytes = b"", ephemeral: bool = False, sequence: bool = False) -> Deferred[str]:
        """As the real one."""
        return self.multi([Create(path, data, ephemeral, sequence)]).addCallback(lambda results: results[0])

    def set(self, path: str, data: bytes, version: int) -> Deferred[Stat]:
        """As the real one."""
        return self.multi([Set(path, data, version)]).addCallback(lambda results: results[0])

    def delete(self, path: str, version: int = ANY_VERSION) -> Deferred[None]:
        """As the real one."""
        return self.multi([Delete(path, version)]).addCallback(lambda _: None)

    def multi(self, operations: Sequence[Operation]) -> Deferred[list[Any]]:
        """As the real one; errors name the operation that failed."""

        def work(session_id: int) -> list[Any]:
            return self.ensemble.write(operations, session_id)

        return self._call(work, operations)


class Notes:
    """What a broker keeps on its disk, in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.cluster_id: str | None = None
        self.logs: set[TopicPartition] = set()
        self.suspects: set[TopicPartition] = set()

    def recall(self, name: str) -> str | None:
        """A text."""
        return self.texts.get(name)

    def remember(self, notes: Mapping[str, str]) -> None:
        """Some texts."""
        self.texts.update(notes)

    def set_cluster_id(self, cluster_id: str) -> None:
        """As meta.properties."""
        self.cluster_id = cluster_id


class Node:
    """One broker's control plane; its disk outlives it."""

    def __init__(self, ensemble: Ensemble, broker_id: int, disk: Notes | None = None) -> None:
        self.broker_id = broker_id
        self.disk = disk or Notes()
        self.session = FakeSession(ensemble)
        session: Any = self.session
        self.known = ClusterState()
        self.changed = Signal()
        self.view = ClusterView("")
        self.fatal: list[Exception] = []
        self.learner = Learner(ensemble.clock, session, self.known, self.publish)
        self.endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092 + broker_id),)
        me = Self(
            broker_id,
            lambda: self.endpoints,
            None,
            self.disk,
            stored_cluster_id=lambda: self.disk.cluster_id,
            store_cluster_id=self.disk.set_cluster_id,
            has_log=lambda tp: tp in self.disk.logs,
            is_suspect=lambda tp: tp in self.disk.suspects,
        )
        self.life = Life(
            ensemble.clock,
            session,
            self.learner,
            me,
            registered=self.publish,
            lost=lambda: self.controller.resign("lost"),
            fatal=self.fatal.append,
        )
        self.controller = Controller(
            ensemble.clock,
            session,
            self.learner,
            broker_id,
            eligible=lambda: self.life.is_registered and not self.life.draining,
            unclean=lambda _: False,
            may_delete=True,
            applied=self.publish,
            balance=lambda: Balance(True, 10, 300.0),
        )
        self.topics = Topics(
            ensemble.clock,
            session,
            self.learner,
            self.life,
            broker_id,
            changed=self.changed,
            published=self.publish,
            settled=lambda _: True,
        )
        self.moves = Moves(session, self.learner, self.topics.writer, published=self.publish)
        self.settings = BrokerSettings(
            session, self.known, self.topics.writer, published=self.publish, settled=lambda: True
        )

    def publish(self) -> None:
        """As the daemon does it; the log of an assigned partition is there at once."""
        self.view, changed = self.known.view()
        for name in changed:
            topic = self.view.topics.get(name)
            for info in topic.partitions if topic is not None else ():
                if self.broker_id in info.replicas and info.version >= 0:
                    self.disk.logs.add(TopicPartition(name, info.index))
        self.life.audit()
        self.controller.look(changed)
        self.changed.fire()

    def kill(self) -> None:
        """The process dies; its session is over at once (a real one would linger)."""
        self.session.listeners.clear()
        self.life.is_registered = False
        self.controller.authority = None
        self.learner.stop()
        self.session.expire(new=False)


class World:
    """A clock, an ensemble, and brokers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ensemble = Ensemble(self.clock)
        self.nodes: dict[int, Node] = {}

    def start(self, broker_id: int, disk: Notes | None = None) -> Node:
        """Starts a broker, with the disk of its former life if it had one."""
        former = self.nodes.get(broker_id)
        node = Node(self.ensemble, broker_id, disk or (former.disk if former is not None else None))
        self.nodes[broker_id] = node
        node.session.begin()
        return node

    def run(self, seconds: float = 3.0) -> None:
        """Lets time pass."""
        for _ in range(int(seconds / STEP)):
            self.clock.advance(STEP)
