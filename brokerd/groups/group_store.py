"""A group's nodes in ZooKeeper: the truth (K3), whose group it is (B5), the copies for tools (K5), its removal.

What is known of the nodes is only a cache: whenever ZooKeeper refuses, it is read again and the write repeated. That is
safe because nobody but the coordinator writes them, and the fence of the slot stands before every write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from brokerd.cluster.asynchronous import pause
from brokerd.groups.answers import none_if_missing, together
from brokerd.groups.consumer_protocol import CONSUMER, assigned_partitions, subscribed_topics
from kafka_wire import errors
from zk_schema import paths
from zk_schema.group_nodes import PROTOCOL, REGISTRY, GroupKind, MemberCopy, StoredGroup
from zk_schema.operations import (
    Check,
    ConnectionLost,
    Create,
    Delete,
    MultiTooLarge,
    NodeError,
    NoNode,
    Operation,
    Set,
    chunks,
)

if TYPE_CHECKING:
    from brokerd.groups.slots import Slot, Slots
    from zk_schema.session import Session

log = Logger()

MAX_TRIES = 5
PATIENCE_SECONDS = 10.0
"""How long a write waits for a ZooKeeper that is away; members wait in their SyncGroup meanwhile."""
POLL_SECONDS = 0.1


@attrs.define(eq=False)
class Nodes:
    """What is known of one group's nodes. `version` None: there is no truth yet. `live`: members of our own consumer
    are in it. `claimed`: the plan was written when the present members came, so that it need only be checked. `copies`:
    path to data, None for data that was not read; None altogether: not read yet.
    """

    group_id: str
    exists: bool = False
    version: int | None = None
    kind: str | None = None
    kind_version: int | None = None
    live: bool = False
    claimed: bool = False
    copies: dict[str, bytes | None] | None = None


class GroupStore:
    """Reads and writes groups."""

    def __init__(self, reactor: Any, session: Session, slots: Slots) -> None:
        self._reactor = reactor
        self._session = session
        self._slots = slots

    # ---- reading

    async def names(self) -> list[str]:
        """All groups of the cluster."""
        try:
            found = await self._session.children(paths.CONSUMERS)
        except NoNode:
            return []
        return [unquote(name) for name in found]

    async def read(self, group_id: str) -> tuple[Nodes, StoredGroup | None]:
        """The group as it is; BadNode if its truth cannot be read."""
        asked: list[Deferred[Any]] = [
            self._session.get(paths.group_state(group_id)).addErrback(none_if_missing),
            self._session.get(paths.group_plan(group_id)).addErrback(none_if_missing),
        ]
        state, plan = await together(asked)
        nodes = Nodes(group_id, exists=True)
        if state is None:
            return nodes, None
        if plan is not None:
            nodes.kind, nodes.kind_version = GroupKind.decode(group_id, plan[0]).kind, plan[1].version
        stored = StoredGroup.decode(paths.group_state(group_id), state[0])
        nodes.version, nodes.claimed = state[1].version, bool(stored.members)
        return nodes, stored

    async def _look(self, nodes: Nodes) -> None:
        """Which nodes there are, in one round trip."""
        group = nodes.group_id
        asked: list[Deferred[Any]] = [
            self._session.exists(paths.group(group)),
            self._session.exists(paths.group_state(group)),
            self._session.get(paths.group_plan(group)).addErrback(none_if_missing),
            self._session.children(paths.group_ids(group)).addErrback(none_if_missing),
        ]
        root, state, plan, ids = await together(asked)
        nodes.exists = root is not None
        nodes.version = None if state is None else state.version
        nodes.live = await self._any_ephemeral(paths.group_ids(group), ids or [])
        nodes.kind = nodes.kind_version = None
        if plan is not None:
            nodes.kind, nodes.kind_version = GroupKind.decode(group, plan[0]).kind, plan[1].version

    async def _any_ephemeral(self, parent: str, names: list[str]) -> bool:
        """Copies of ours are persistent; members of our own consumer are ephemeral."""
        found = await together([self._session.exists(f"{parent}/{name}") for name in names])
        return any(stat is not None and stat.ephemeral_owner for stat in found)

    async def look_at_kind(self, nodes: Nodes) -> None:
        """Reads whose group it is. InconsistentGroupProtocol if members of our own consumer are in it."""
        await self._look(nodes)
        self._check_kind(nodes)

    def _check_kind(self, nodes: Nodes) -> None:
        if nodes.live:
            raise errors.InconsistentGroupProtocol(
                f"group {nodes.group_id!r} is used by consumers that rebalance through ZooKeeper ({REGISTRY}); members "
                f"of the JoinGroup protocol ({PROTOCOL}) can join when those have left"
            )

    # ---- writing the truth

    async def write(self, slot: Slot, nodes: Nodes, stored: StoredGroup) -> None:
        """Makes `stored` the truth. GroupMaxSizeReached, InconsistentGroupProtocol, NotCoordinator,
        CoordinatorNotAvailable (ZooKeeper stayed away).
        """
        data = stored.encode()
        deadline = self._reactor.seconds() + PATIENCE_SECONDS
        for _ in range(MAX_TRIES):
            try:
                operations = self._writing(nodes, stored, data)
                results = await self._slots.multi([slot], operations)
            except MultiTooLarge as problem:
                raise errors.GroupMaxSizeReached(
                    f"group {nodes.group_id!r} with {len(stored.members)} members needs {len(data)} bytes: {problem}"
                ) from problem
            except NodeError:
                await self._look(nodes)
                continue
            except ConnectionLost:
                await self._reconnected(deadline)
                await self._look(nodes)
                continue
            self._wrote(nodes, bool(stored.members), operations, results)
            return
        raise errors.CoordinatorNotAvailable(f"the nodes of group {nodes.group_id!r} change too often")

    async def create(self, slot: Slot, nodes: Nodes, stored: StoredGroup) -> None:
        """Makes the first truth of a group that has none; that somebody was faster is as good."""
        for _ in range(MAX_TRIES):
            if nodes.version is not None:
                return
            operations = self._writing(nodes, stored, stored.encode())
            try:
                results = await self._slots.multi([slot], operations)
            except NodeError:
                await self._look(nodes)
                continue
            self._wrote(nodes, bool(stored.members), operations, results)
            return

    def _writing(self, nodes: Nodes, stored: StoredGroup, data: bytes) -> list[Operation]:
        """A group with members is made `protocol`; an empty one leaves the kind as it is. When members come to an empty
        group the plan is written even if it says so already: a plan that our own consumer made up from what it read
        before has lost then.
        """
        found: list[Operation] = [] if nodes.exists else [Create(paths.group(nodes.group_id))]
        if stored.members:
            self._check_kind(nodes)
            kind = GroupKind(nodes.group_id, PROTOCOL)
            if nodes.kind_version is None:
                found.append(Create(kind.path, kind.encode()))
            elif nodes.kind == PROTOCOL and nodes.claimed:
                found.append(Check(kind.path, nodes.kind_version))
            else:
                found.append(Set(kind.path, kind.encode(), nodes.kind_version))
        if nodes.version is None:
            found.append(Create(stored.path, data))
        else:
            found.append(Set(stored.path, data, nodes.version))
        return found

    def _wrote(self, nodes: Nodes, claimed: bool, operations: list[Operation], results: list[Any]) -> None:
        nodes.exists, nodes.claimed = True, claimed
        for operation, result in zip(operations, results, strict=True):
            if operation.path == paths.group_plan(nodes.group_id):
                nodes.kind = PROTOCOL
                if not isinstance(operation, Check):
                    nodes.kind_version = result.version if isinstance(operation, Set) else 0
            elif operation.path == paths.group_state(nodes.group_id):
                nodes.version = result.version if isinstance(operation, Set) else 0

    async def _reconnected(self, deadline: float) -> None:
        while not self._session.connected:
            if self._reactor.seconds() > deadline:
                raise errors.CoordinatorNotAvailable("ZooKeeper does not answer")
            await pause(self._reactor, POLL_SECONDS)

    # ---- the copies for tools

    async def copy(self, slot: Slot, nodes: Nodes, stored: StoredGroup) -> None:
        """Makes ids and owners say what the truth says (K5), touching only what differs."""
        if nodes.kind != PROTOCOL:
            return
        wanted = copies_of(stored)
        for _ in range(MAX_TRIES):
            if nodes.copies is None:
                nodes.copies = await self._read_copies(nodes.group_id)
            known, nodes.copies = nodes.copies, None
            try:
                for chunk in chunks(list(_differences(nodes.group_id, known, wanted)), [slot.fence]):
                    await self._slots.multi([slot], chunk)
            except NodeError:
                continue
            nodes.copies = dict(wanted)
            return

    async def _read_copies(self, group_id: str) -> dict[str, bytes | None]:
        """The paths that are there."""
        ids, owners = paths.group_ids(group_id), paths.group(group_id) + "/owners"
        found: dict[str, bytes | None] = {}
        for parent in (ids, owners):
            names = await self._children(parent)
            if names is None:
                continue
            found[parent] = None
            found.update(dict.fromkeys((f"{parent}/{name}" for name in names), None))
        for topic in [path for path in found if path.startswith(owners + "/")]:
            for name in await self._children(topic) or ():
                found[f"{topic}/{name}"] = None
        return found

    async def _children(self, path: str) -> list[str] | None:
        try:
            return await self._session.children(path)
        except NoNode:
            return None

    # ---- removal

    async def remove(self, slot: Slot, group_id: str) -> None:
        """Takes the whole group away; the truth goes last, so that what was begun can be seen and finished."""
        last = [paths.group_plan(group_id), paths.group_state(group_id), paths.group(group_id)]
        for _ in range(MAX_TRIES):
            tree = await self._tree(paths.group(group_id))
            early = [path for path in reversed(tree) if path not in last]
            try:
                for chunk in chunks([Delete(path) for path in early], [slot.fence]):
                    await self._slots.multi([slot], chunk)
                if tree:
                    await self._slots.multi([slot], [Delete(path) for path in last if path in tree])
                return
            except NodeError:
                continue
        raise errors.CoordinatorNotAvailable(f"somebody else writes to group {group_id!r}")

    async def _tree(self, path: str) -> list[str]:
        """The path and everything below it, parents first."""
        names = await self._children(path)
        if names is None:
            return []
        found, level = [path], [f"{path}/{name}" for name in names]
        while level:
            found += level
            children = await together([self._session.children(one).addErrback(none_if_missing) for one in level])
            level = [f"{one}/{name}" for one, names in zip(level, children, strict=True) for name in names or ()]
        return found


def copies_of(stored: StoredGroup) -> dict[str, bytes | None]:
    """What 0.8 would have in `ids` and `owners`: path to data, parents included."""
    group = stored.group_id
    if not stored.members:
        return {}
    ids, owners = paths.group_ids(group), paths.group(group) + "/owners"
    found: dict[str, bytes | None] = {ids: b"", owners: b""}
    for member in stored.members:
        name = paths.escape_group(member.member_id)
        metadata = next((data for protocol, data in member.protocols if protocol == stored.protocol), b"")
        consumer = stored.protocol_type == CONSUMER
        topics = (subscribed_topics(metadata) if consumer else None) or ()
        found[f"{ids}/{name}"] = MemberCopy(topics, stored.time_ms).encode()
        for topic, indexes in ((assigned_partitions(member.assignment) if consumer else None) or {}).items():
            if not _is_name(topic):
                continue
            found[paths.group_owners(group, topic)] = b""
            for index in indexes:
                found[paths.group_owner(group, topic, index)] = f"{name}-0".encode()
    return found


def _is_name(topic: str) -> bool:
    return bool(topic) and topic not in (".", "..") and "/" not in topic and "\0" not in topic


def _differences(group_id: str, known: dict[str, bytes | None], wanted: dict[str, bytes | None]) -> Iterator[Operation]:
    """Deletions from the leaves up, then creations and changes from the roots down. The two parents stay."""
    parents = (paths.group_ids(group_id), paths.group(group_id) + "/owners")
    for path in sorted(known, key=lambda one: one.count("/"), reverse=True):
        if path not in wanted and path not in parents:
            yield Delete(path)
    for path in sorted(wanted, key=lambda one: one.count("/")):
        data = wanted[path] or b""
        if path not in known:
            yield Create(path, data)
        elif data and known[path] != data:
            yield Set(path, data, -1)
