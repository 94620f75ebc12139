"""Which groups there are and how they stand, for tools: both kinds alike.

A group of the JoinGroup protocol is told from its machine. A group of our own consumer (kind `registry`) is told from
its nodes, with what its members registered and own in the words of the consumer protocol; so kafka-consumer-groups
shows it as any other. A group without members is Empty in both kinds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import attrs
from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import each, spawn
from brokerd.groups.answers import none_if_missing, together
from brokerd.groups.consumer_protocol import CONSUMER, encode_assignment, encode_subscription
from brokerd.groups.coordinator import LOAD_WIDTH, Hosted, in_vain
from brokerd.groups.values import State
from kafka_wire import errors
from zk_schema import paths

if TYPE_CHECKING:
    from brokerd.groups.coordinator import Coordinator
    from zk_schema.session import Session


@attrs.frozen
class Summary:
    """One line of a list."""

    group_id: str
    protocol_type: str
    state: str


@attrs.frozen
class DescribedMember:
    """A member as tools see it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen
class Description:
    """A group as tools see it; `state` Dead: there is none."""

    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


DEAD = Description(State.DEAD.value)


class Catalogue:
    """Answers ListGroups and DescribeGroups."""

    def __init__(self, groups: Coordinator, session: Session) -> None:
        self._groups = groups
        self._session = session

    def summaries(self) -> Deferred[list[Summary]]:
        """All groups that are coordinated here. CoordinatorLoadInProgress, CoordinatorNotAvailable."""
        return spawn(self._summaries())

    async def _summaries(self) -> list[Summary]:
        groups = self._groups
        groups.look()
        held = groups.slots.held
        if any(not slot.loaded for slot in held.values()):
            raise errors.CoordinatorLoadInProgress("groups are being read from ZooKeeper")
        if not held:
            return []
        found: dict[str, Summary] = {}

        async def look(name: str) -> None:
            described = await self._current(name)
            found[name] = Summary(name, described.protocol_type, described.state)

        with in_vain():
            names = [name for name in await groups.store.names() if groups.slots.index_of(name) in held]
            await each(dict.fromkeys([*names, *groups.hosted]), look, LOAD_WIDTH)
        return [found[name] for name in sorted(found) if found[name].state != State.DEAD.value]

    def describe(self, group_id: str) -> Deferred[Description]:
        """One group. NotCoordinator, CoordinatorLoadInProgress, InvalidGroupId, CoordinatorNotAvailable."""
        return spawn(self._describe(group_id))

    async def _describe(self, group_id: str) -> Description:
        self._groups.slot(group_id)
        with in_vain():
            return await self._current(group_id)

    async def _current(self, group_id: str) -> Description:
        """An empty group of ours may have been taken by our own consumer, which asks nobody."""
        hosted = self._groups.hosted.get(group_id)
        if hosted is None or (hosted.nodes.version is None and not hosted.group.members):
            return await self._registry(group_id)
        if not hosted.group.members:
            ids = await self._session.children(paths.group_ids(group_id)).addErrback(none_if_missing)
            found = await self._registry(group_id) if ids else DEAD
            if found.members:
                return found
        return _description(hosted)

    async def _registry(self, group_id: str) -> Description:
        """A group as the nodes of its members tell it."""
        asked: list[Deferred[Any]] = [
            self._session.exists(paths.group(group_id)),
            self._session.children(paths.group_ids(group_id)).addErrback(none_if_missing),
            self._session.children(paths.group(group_id) + "/owners").addErrback(none_if_missing),
        ]
        there, ids, topics = await together(asked)
        if there is None:
            return DEAD
        nodes = await together(
            [self._session.get(f"{paths.group_ids(group_id)}/{name}").addErrback(none_if_missing) for name in ids or ()]
        )
        living = [
            (name, node[0])
            for name, node in zip(ids or (), nodes, strict=True)
            if node is not None and node[1].ephemeral_owner
        ]
        if not living:
            return Description(State.EMPTY.value, CONSUMER)
        owned = await self._owned(group_id, topics or [])
        members = tuple(_registered(name, data, owned.get(name, {})) for name, data in living)
        return Description(State.STABLE.value, CONSUMER, "range", members)

    async def _owned(self, group_id: str, topics: list[str]) -> dict[str, dict[str, list[int]]]:
        """Partitions by member and topic; an owner is written `<member>-<stream>`."""
        found: dict[str, dict[str, list[int]]] = {}
        for topic in topics:
            parent = paths.group_owners(group_id, topic)
            indexes = await self._session.children(parent).addErrback(none_if_missing) or []
            nodes = await together(
                [self._session.get(f"{parent}/{one}").addErrback(none_if_missing) for one in indexes]
            )
            for index, node in zip(indexes, nodes, strict=True):
                if node is not None and index.isdigit():
                    member = node[0].decode(errors="replace").rpartition("-")[0]
                    found.setdefault(member, {}).setdefault(topic, []).append(int(index))
        return found


def _description(hosted: Hosted) -> Description:
    """As Kafka tells it: metadata and assignments only of a group that is stable."""
    group = hosted.group
    stable = group.state is State.STABLE
    members = tuple(
        DescribedMember(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            one.metadata(group.protocol) if stable else b"",
            one.assignment if stable else b"",
        )
        for one in group.members.values()
    )
    return Description(group.state.value, group.protocol_type, group.protocol or "" if stable else "", members)


def _registered(name: str, data: bytes, owned: dict[str, list[int]]) -> DescribedMember:
    try:
        topics = list(json.loads(data)["subscription"])
    except (ValueError, TypeError, KeyError):
        topics = list(owned)
    return DescribedMember(
        unquote(name), None, unquote(name), "", encode_subscription(topics), encode_assignment(owned)
    )
