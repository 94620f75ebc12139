"""The parts of a multi, its measured size, and what can go wrong with ZooKeeper. Pure.

CoordinationError
    +- ConnectionLost      no answer: the request may or may not have been applied
    +- SessionExpired      the session is over; nothing of it may be sent again (F9)
    +- MultiTooLarge       refused before sending (A1): the server would drop the connection (F5)
    +- NodeError           the server's answer; names the path, and the operation where it was part of a multi
       +- NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

MAX_MULTI_BYTES = 400 * 1024
MAX_MULTI_OPERATIONS = 2000
ANY_VERSION = -1

# Bytes on the wire besides path and data, rounded up: multi header 9, three lengths or a version 12, and for a create
# the world ACL and the flags 38. A measure that is too high is safe; F5 is why too low is not.
_OVERHEAD = 64


@attrs.frozen
class Create:
    """Create a node. `sequence` appends a number, so a multi with nothing else must not be repeated blindly (A1)."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@attrs.frozen
class Set:
    """Replace the data of a node at a known version."""

    path: str
    data: bytes
    version: int


@attrs.frozen
class Delete:
    """Remove a node at a known version."""

    path: str
    version: int = ANY_VERSION


@attrs.frozen
class Check:
    """Demand a version; ANY_VERSION demands existence (F3)."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


@attrs.frozen
class Stat:
    """What ZooKeeper knows of a node. `ephemeral_owner` is the session that made it, 0 for a persistent node."""

    version: int
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int
    children: int


class CoordinationError(Exception):
    """Something that ZooKeeper did not do for us."""


class ConnectionLost(CoordinationError):
    """No answer: the request may or may not have been applied."""


class SessionExpired(CoordinationError):
    """The session is over (or was closed)."""


class MultiTooLarge(CoordinationError):
    """A multi above the limits of A1, or a single write above them; nothing was sent."""


class NodeError(CoordinationError):
    """ZooKeeper refused. In a multi `operation` is the failing part and `index` its place; else both are None."""

    reason = "refused"

    def __init__(self, path: str, operation: Operation | None = None, index: int | None = None) -> None:
        self.path = path
        self.operation = operation
        self.index = index
        where = "" if operation is None else f" (operation {index}, {type(operation).__name__}, of a multi)"
        super().__init__(f"{path}: {self.reason}{where}")


class NoNode(NodeError):
    """The node, or the parent of a node to create, does not exist."""

    reason = "no such node"


class NodeExists(NodeError):
    """The node to create is there already."""

    reason = "the node exists"


class BadVersion(NodeError):
    """Somebody else wrote the node."""

    reason = "not at the expected version"


class NotEmpty(NodeError):
    """The node to delete has children."""

    reason = "the node has children"


class NoChildrenForEphemerals(NodeError):
    """An ephemeral node cannot have children."""

    reason = "an ephemeral node cannot have children"


def size(operation: Operation) -> int:
    """Bytes that an operation takes in a multi, never less than on the wire."""
    data = operation.data if isinstance(operation, Create | Set) else b""
    return _OVERHEAD + len(operation.path.encode()) + len(data)


def check_size(operations: Sequence[Operation], prefix: int = 0) -> None:
    """Raises MultiTooLarge above the limits of A1; `prefix` is the length of a chroot that every path gets."""
    total = sum(map(size, operations)) + prefix * len(operations)
    if len(operations) > MAX_MULTI_OPERATIONS or total > MAX_MULTI_BYTES:
        raise MultiTooLarge(
            f"{len(operations)} operations of {total} bytes; "
            f"the limit is {MAX_MULTI_OPERATIONS} operations and {MAX_MULTI_BYTES} bytes"
        )


def chunks(operations: Sequence[Operation], reserve: Sequence[Operation] = ()) -> list[list[Operation]]:
    """Cuts work into lists that fit a multi each beside `reserve` (checks and change nodes that go with every one).

    Half of the byte limit is used, which leaves room for a chroot and for a change that repeats the states.
    """
    room, places = MAX_MULTI_BYTES // 2 - sum(map(size, reserve)), MAX_MULTI_OPERATIONS - len(reserve)
    found: list[list[Operation]] = []
    used = 0
    for operation in operations:
        cost = size(operation)
        if not found or used + cost > room or len(found[-1]) >= places:
            found.append([])
            used = 0
        found[-1].append(operation)
        used += cost
    return found
