"""A model of ZooKeeper for unit tests of decisions: versioned nodes and multis that are applied whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.cluster.cluster_state import ClusterState
from zk_schema import paths
from zk_schema.nodes import PartitionState, TopicAssignment, VersionedState, uuid_bytes
from zk_schema.operations import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    check_size,
)


class Store:
    """Nodes by path."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = dict.fromkeys(paths.FIXED_PARENTS, (b"", 0))
        self.nodes["/"] = (b"", 0)
        self._sequence = 0

    def multi(self, operations: Sequence[Operation]) -> None:
        """All or nothing; raises what ZooKeeper would answer."""
        check_size(operations)
        before, sequence = dict(self.nodes), self._sequence
        try:
            for operation in operations:
                self._apply(operation)
        except Exception:
            self.nodes, self._sequence = before, sequence
            raise

    def _apply(self, operation: Operation) -> None:
        path, nodes = operation.path, self.nodes
        if isinstance(operation, Create):
            if operation.sequence:
                path, self._sequence = f"{path}{self._sequence:010}", self._sequence + 1
            if path in nodes:
                raise NodeExists(path)
            if (path.rpartition("/")[0] or "/") not in nodes:
                raise NoNode(path)
            nodes[path] = (operation.data, 0)
            return
        if path not in nodes:
            raise NoNode(path)
        data, version = nodes[path]
        if operation.version not in (ANY_VERSION, version):
            raise BadVersion(path)
        if isinstance(operation, Set):
            nodes[path] = (operation.data, version + 1)
        elif isinstance(operation, Delete):
            if any(other.startswith(path + "/") for other in nodes):
                raise NotEmpty(path)
            del nodes[path]
        else:
            assert isinstance(operation, Check)
            assert data is not None

    def children(self, parent: str) -> list[str]:
        """Names of the children."""
        return [
            path[len(parent) + 1 :]
            for path in self.nodes
            if path.startswith(parent + "/") and "/" not in path[len(parent) + 1 :]
        ]

    def read(self, known: ClusterState) -> None:
        """What a full read would learn of topics."""
        for text in self.children(paths.DELETED):
            known.bury(uuid_bytes(text))
        names = self.children(paths.TOPICS)
        for name in set(known.topics) - set(names):
            known.forget_topic(name)
        for name in names:
            data, version = self.nodes[paths.topic(name)]
            topic = known.set_assignment(TopicAssignment.decode(name, data), version)
            topic.has_partitions_node = paths.partitions(name) in self.nodes
            topic.has_config = paths.topic_config(name) in self.nodes
            states, topic.bare = self._states(name)
            known.put_states(name, states.items())
            known.drop_states(name, set(topic.states) - set(states))
        known.wishes = set(self.children(paths.DELETE_TOPICS))

    def _states(self, name: str) -> tuple[dict[int, VersionedState], set[int]]:
        states: dict[int, VersionedState] = {}
        bare: set[int] = set()
        for text in self.children(paths.partitions(name)):
            found = self.nodes.get(paths.partition_state(name, int(text)))
            if found is None:
                bare.add(int(text))
            else:
                states[int(text)] = VersionedState(PartitionState.decode(name, int(text), found[0]), found[1])
        return states, bare
