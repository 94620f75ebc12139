"""ZooKeeper as the session shows it, in memory: nodes with versions, multis that are all or nothing, and faults that a
test asks for. Answers come at once, or, while `holding`, when the test lets them go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from zk_schema import operations as ops
from zk_schema.operations import Check, ConnectionLost, Create, Delete, Operation, Set, Stat


@attrs.define
class _Node:
    data: bytes
    version: int = 0
    mtime_ms: int = 0
    owner: int = 0


class ZooKeeperModel:
    """The part of `zk_schema.session.Session` that groups use."""

    def __init__(self, shared: ZooKeeperModel | None = None) -> None:
        """`shared`: another session with the same ZooKeeper."""
        fresh = {"/": _Node(b""), "/consumers": _Node(b"")}
        self.nodes: dict[str, _Node] = fresh if shared is None else shared.nodes
        self.connected = True
        self.lease = True
        self.now_ms = 1000
        self.multis: list[list[Operation]] = []
        self.holding = False
        self.lose: str = ""
        """"before" or "after": the next multi is lost before or after it was applied."""
        self._held: list[Callable[[], None]] = []

    def lease_valid(self) -> bool:
        """Whether the test says so."""
        return self.lease

    def put(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        """Somebody else makes or changes a node, with its parents."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.put(parent)
        node = self.nodes.get(path)
        if node is None:
            self.nodes[path] = _Node(data, 0, self.now_ms, 77 if ephemeral else 0)
        else:
            node.data, node.version, node.mtime_ms = data, node.version + 1, self.now_ms

    def drop(self, path: str) -> None:
        """Somebody else removes a node and what is below it."""
        for one in [one for one in self.nodes if one == path or one.startswith(path + "/")]:
            del self.nodes[one]

    def data(self, path: str) -> bytes:
        """What a node holds."""
        return self.nodes[path].data

    def below(self, path: str) -> list[str]:
        """All paths below one, without it."""
        return sorted(one[len(path) + 1 :] for one in self.nodes if one.startswith(path + "/"))

    def release(self) -> None:
        """Lets the answers go that are held now."""
        held, self._held = self._held, []
        for answer in held:
            answer()

    def _answer(self, work: Callable[[], Any]) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()

        def settle() -> None:
            if not self.connected:
                answer.errback(ConnectionLost("no answer"))
                return
            try:
                result = work()
            except Exception as problem:
                answer.errback(problem)
            else:
                answer.callback(result)

        if self.holding:
            self._held.append(settle)
        else:
            settle()
        return answer

    def _stat(self, path: str) -> Stat:
        node = self.nodes[path]
        children = sum(one.rpartition("/")[0] == path for one in self.nodes)
        return Stat(node.version, 0, 0, 0, node.mtime_ms, node.owner, children)

    def _need(self, path: str) -> _Node:
        if path not in self.nodes:
            raise ops.NoNode(path)
        return self.nodes[path]

    def get(self, path: str, watch: Any = None) -> Deferred[tuple[bytes, Stat]]:
        """As the session."""
        return self._answer(lambda: (self._need(path).data, self._stat(path)))

    def children(self, path: str, watch: Any = None) -> Deferred[list[str]]:
        """As the session."""

        def work() -> list[str]:
            self._need(path)
            return sorted(one.rpartition("/")[2] for one in self.nodes if one.rpartition("/")[0] == path)

        return self._answer(work)

    def exists(self, path: str, watch: Any = None) -> Deferred[Stat | None]:
        """As the session."""
        return self._answer(lambda: self._stat(path) if path in self.nodes else None)

    def sync(self, path: str = "/") -> Deferred[None]:
        """As the session."""
        return self._answer(lambda: None)

    def multi(self, operations: Sequence[Operation]) -> Deferred[list[Any]]:
        """As the session."""
        return self._answer(lambda: self._multi(list(operations)))

    def _multi(self, operations: list[Operation]) -> list[Any]:
        ops.check_size(operations)
        self.multis.append(operations)
        lose, self.lose = self.lose, ""
        if lose == "before":
            raise ConnectionLost("lost before it was applied")
        before = {path: attrs.evolve(node) for path, node in self.nodes.items()}
        results = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._one(operation))
            except ops.NodeError as problem:
                self.nodes.clear()
                self.nodes.update(before)
                raise type(problem)(operation.path, operation, index) from None
        self.applied(operations)
        if lose == "after":
            raise ConnectionLost("applied, and the answer lost")
        return results

    def applied(self, operations: list[Operation]) -> None:
        """Told of every multi that took effect; for tests that watch."""

    def _one(self, operation: Operation) -> Any:
        path = operation.path
        if isinstance(operation, Create):
            if path in self.nodes:
                raise ops.NodeExists(path)
            self._need(path.rpartition("/")[0] or "/")
            self.nodes[path] = _Node(operation.data, 0, self.now_ms)
            return path
        node = self._need(path)
        if operation.version not in (-1, node.version):
            raise ops.BadVersion(path)
        if isinstance(operation, Set):
            node.data, node.version, node.mtime_ms = operation.data, node.version + 1, self.now_ms
            return self._stat(path)
        if isinstance(operation, Delete):
            if any(one.startswith(path + "/") for one in self.nodes):
                raise ops.NotEmpty(path)
            del self.nodes[path]
        assert isinstance(operation, Check | Delete)
        return True
