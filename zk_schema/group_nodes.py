"""The znodes of a consumer group, one frozen value each. Pure.

A group of the JoinGroup protocol has its truth in `group` (K3); `ids` and `owners` are copies of it in the form of
Kafka 0.8, for tools (K5). `plan` belongs to the groups of our own consumer; all that is read here is its `kind`, so
that the two kinds never mix (B5). Offsets are alike in both kinds: the next offset to read as decimal text, and beside
it, only where there is more to say, what else OffsetCommit carries.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import attrs

from zk_schema import paths
from zk_schema.nodes import UUID_SIZE, BadNode, uuid_bytes, uuid_text

REGISTRY = "registry"
PROTOCOL = "protocol"

_MAX_JSON = 64 << 20
"""A node of at most 1 MiB cannot hold more than this, unless somebody made it to fill our memory."""


def _object(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError as problem:
        raise BadNode(path, str(problem)) from problem
    if not isinstance(fields, dict):
        raise BadNode(path, "not a JSON object")
    return fields


def _compact(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@attrs.frozen
class StoredMember:
    """One member of a stored generation. `protocols` are in the order of its preference."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocols": [[name, _text(metadata)] for name, metadata in self.protocols],
            "assignment": _text(self.assignment),
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> StoredMember:
        """From `fields`."""
        return cls(
            str(fields["member_id"]),
            fields["instance_id"],
            str(fields["client_id"]),
            str(fields["client_host"]),
            int(fields["session_timeout_ms"]),
            int(fields["rebalance_timeout_ms"]),
            tuple((str(name), base64.b64decode(metadata)) for name, metadata in fields["protocols"]),
            base64.b64decode(fields["assignment"]),
        )


@attrs.frozen
class StoredGroup:
    """/consumers/G/group: the last generation that was assigned; without members the group is empty since `time_ms`.

    Compressed JSON: the metadata of a thousand members is almost a thousand times the same.
    """

    group_id: str
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[StoredMember, ...]
    time_ms: int

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.group_state(self.group_id)

    def encode(self) -> bytes:
        """The node's data."""
        fields = {
            "version": 1,
            "group_id": self.group_id,
            "generation": self.generation,
            "protocol_type": self.protocol_type,
            "protocol": self.protocol,
            "leader": self.leader,
            "time": self.time_ms,
            "members": [member.fields() for member in self.members],
        }
        return zlib.compress(_compact(fields), 6)

    @classmethod
    def decode(cls, path: str, data: bytes) -> StoredGroup:
        """Reads the node's data; the group's name is inside, because the path has it encoded."""
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(data, _MAX_JSON)
            if not unpacker.eof:
                raise ValueError("the compressed data is cut or too large")
            fields = _object(path, text)
            if int(fields["version"]) != 1:
                raise ValueError(f"version {fields['version']} is unknown (known: 1)")
            return cls(
                str(fields["group_id"]),
                int(fields["generation"]),
                str(fields["protocol_type"]),
                fields["protocol"],
                fields["leader"],
                tuple(StoredMember.of(member) for member in fields["members"]),
                int(fields["time"]),
            )
        except KeyError as missing:
            raise BadNode(path, f"field {missing} is missing") from missing
        except (zlib.error, ValueError, TypeError, AttributeError) as problem:
            if isinstance(problem, BadNode):
                raise
            raise BadNode(path, str(problem)) from problem


@attrs.frozen
class GroupKind:
    """/consumers/G/plan as far as the JoinGroup protocol needs it: whose group it is (B5)."""

    group_id: str
    kind: str

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.group_plan(self.group_id)

    def encode(self) -> bytes:
        """The node's data, for a group without a plan of its own."""
        return _compact({"version": 1, "kind": self.kind})

    @classmethod
    def decode(cls, group_id: str, data: bytes) -> GroupKind:
        """Reads the kind and nothing else."""
        path = paths.group_plan(group_id)
        kind = _object(path, data).get("kind")
        if kind not in (REGISTRY, PROTOCOL):
            raise BadNode(path, f"{kind!r} is no kind of group (known: {REGISTRY}, {PROTOCOL})")
        return cls(group_id, str(kind))


@attrs.frozen
class MemberCopy:
    """/consumers/G/ids/C as 0.8 wrote it: one stream of each topic."""

    topics: tuple[str, ...]
    time_ms: int

    def encode(self) -> bytes:
        """The node's data."""
        return _compact(
            {
                "version": 1,
                "subscription": dict.fromkeys(self.topics, 1),
                "pattern": "static",
                "timestamp": str(self.time_ms),
            }
        )


@attrs.frozen
class OffsetMeta:
    """/consumers/G/offset_meta/T/P: what the decimal text of an offset has no room for."""

    leader_epoch: int = -1
    metadata: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to store."""
        return self.leader_epoch < 0 and not self.metadata

    def encode(self) -> bytes:
        """The node's data."""
        return _compact({"version": 1, "leader_epoch": self.leader_epoch, "metadata": self.metadata})

    @classmethod
    def decode(cls, path: str, data: bytes) -> OffsetMeta:
        """Reads the node's data."""
        fields = _object(path, data)
        try:
            return cls(int(fields.get("leader_epoch", -1)), str(fields.get("metadata", "")))
        except (TypeError, ValueError) as problem:
            raise BadNode(path, str(problem)) from problem


def encode_offset(offset: int) -> bytes:
    """/consumers/G/offsets/T/P."""
    return b"%d" % offset


def decode_offset(path: str, data: bytes) -> int:
    """Reverse of `encode_offset`; -1 (none) where a tool made the node without data."""
    try:
        return int(data) if data else -1
    except ValueError as problem:
        raise BadNode(path, str(problem)) from problem


def encode_topic_id(topic_id: bytes) -> bytes:
    """/consumers/G/offsets/T: which topic of this name the offsets below it belong to (B10)."""
    return uuid_text(topic_id).encode()


def decode_topic_id(data: bytes) -> bytes | None:
    """Reverse of `encode_topic_id`; None where a tool of the 0.8 age made the node, which says nothing."""
    try:
        found = uuid_bytes(data.decode())
    except ValueError:
        return None
    return found if len(found) == UUID_SIZE else None
