"""The znodes that members of our own consumer groups write: their registration and the plan (B1, B20). Pure.

`group_nodes` has what both kinds of group share: offsets, and the kind in `plan`. Unknown fields are ignored, so that a
newer member and an older one can share a group as long as the version is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from zk_schema import paths
from zk_schema.group_nodes import PROTOCOL, REGISTRY
from zk_schema.nodes import BadNode, uuid_bytes, uuid_text

STATIC = "static"
WHITE_LIST = "white_list"

_VERSION = 1


def _fields(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError as problem:
        raise BadNode(path, str(problem)) from problem
    if not isinstance(fields, dict):
        raise BadNode(path, "not a JSON object")
    if fields.get("version") != _VERSION:
        raise BadNode(path, f"version {fields.get('version')!r} is unknown (known: {_VERSION})")
    return fields


def _compact(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@attrs.frozen
class Registration:
    """/consumers/G/ids/C: Kafka 0.8's version 1 and, after it, what is ours: strategy, client id and host.

    A pattern is a Python regular expression that must match a topic's whole name. `streams` are the threads that the
    member shares its partitions among (P10); they count one by one in Algorithm 1, as in 0.8.
    """

    topics: tuple[str, ...]
    pattern: str | None
    strategy: str
    streams: int = 1
    timestamp_ms: int = -1
    client_id: str = ""
    host: str = ""

    def encode(self) -> bytes:
        """The node's data."""
        subscribed = self.topics if self.pattern is None else (self.pattern,)
        return _compact(
            {
                "version": _VERSION,
                "subscription": dict.fromkeys(subscribed, self.streams),
                "pattern": STATIC if self.pattern is None else WHITE_LIST,
                "timestamp": str(self.timestamp_ms),
                "strategy": self.strategy,
                "client_id": self.client_id,
                "host": self.host,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> Registration:
        """Reads the node's data; a consumer of 0.8 names no strategy and means range."""
        fields = _fields(path, data)
        try:
            subscription = {str(name): int(streams) for name, streams in fields["subscription"].items()}
            kind = fields.get("pattern", STATIC)
            if kind not in (STATIC, WHITE_LIST):
                raise ValueError(f"pattern {kind!r} is not supported (known: {STATIC}, {WHITE_LIST})")
            pattern = next(iter(subscription)) if kind == WHITE_LIST and subscription else None
            return cls(
                () if pattern is not None else tuple(sorted(subscription)),
                pattern,
                str(fields.get("strategy", "range")),
                max(subscription.values(), default=1),
                int(fields.get("timestamp", -1)),
                str(fields.get("client_id", "")),
                str(fields.get("host", "")),
            )
        except KeyError as missing:
            raise BadNode(path, f"field {missing} is missing") from missing
        except (ValueError, TypeError, AttributeError) as problem:
            raise BadNode(path, str(problem)) from problem


@attrs.frozen
class PlanMember:
    """A member of a plan: its id, which of the plan's subscriptions it has, and how many streams."""

    consumer_id: str
    subscription: int
    streams: int = 1


@attrs.frozen
class PlanTopic:
    """A topic of a plan."""

    topic_id: bytes
    partitions: int


@attrs.frozen
class Plan:
    """/consumers/G/plan: the inputs of the assignment, not its result (B1).

    `members` are sorted by id. `subscriptions` are lists of topics, patterns already resolved. `previous` is the
    assignment of the plan before, as indexes into the streams of *these* members in order, -1 for those who are gone.
    """

    group_id: str
    generation: int
    members: tuple[PlanMember, ...] = ()
    subscriptions: tuple[tuple[str, ...], ...] = ()
    topics: Mapping[str, PlanTopic] = attrs.field(factory=dict)
    strategy: str = "range"
    previous: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.group_plan(self.group_id)

    def encode(self) -> bytes:
        """The node's data."""
        return _compact(
            {
                "version": _VERSION,
                "kind": REGISTRY,
                "generation": self.generation,
                "members": [
                    [one.consumer_id, one.subscription] + ([one.streams] if one.streams != 1 else [])
                    for one in self.members
                ],
                "subscriptions": [list(topics) for topics in self.subscriptions],
                "topics": {name: [uuid_text(one.topic_id), one.partitions] for name, one in self.topics.items()},
                "strategy": self.strategy,
                "previous": {name: list(had) for name, had in self.previous.items()},
            }
        )

    @classmethod
    def decode(cls, group_id: str, data: bytes) -> Plan:
        """Reads the plan of a registry group; a plan of the other kind is one without members."""
        path = paths.group_plan(group_id)
        fields = _fields(path, data)
        if fields.get("kind") == PROTOCOL:
            return cls(group_id, 0)
        try:
            members = tuple(PlanMember(str(one[0]), *map(int, one[1:3])) for one in fields.get("members", ()))
            subscriptions = tuple(tuple(map(str, topics)) for topics in fields.get("subscriptions", ()))
            topics = {
                str(name): PlanTopic(uuid_bytes(topic_id), int(partitions))
                for name, (topic_id, partitions) in fields.get("topics", {}).items()
            }
            previous = {str(name): tuple(map(int, had)) for name, had in fields.get("previous", {}).items()}
            if not all(0 <= one.subscription < len(subscriptions) for one in members):
                raise ValueError("a member names a subscription that is not there")
            generation, strategy = int(fields.get("generation", 0)), str(fields.get("strategy", "range"))
            return cls(group_id, generation, members, subscriptions, topics, strategy, previous)
        except (ValueError, TypeError, AttributeError, IndexError) as problem:
            raise BadNode(path, str(problem)) from problem
