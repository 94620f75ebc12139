"""The vocabulary of the group machine: states, members, events, answers and effects. Pure, all values frozen.

Times are seconds on the coordinator's clock. A `token` stands for one request that waits for its answer; the machine
never looks into it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from kafka_wire import errors
from zk_schema.group_nodes import StoredGroup, StoredMember

Token = int
Protocols = tuple[tuple[str, bytes], ...]
"""Names with metadata, in the order of the member's preference."""

NO_GENERATION = -1
NEW_MEMBER_JOIN_SECONDS = 300.0
"""How long a member that never got an answer may wait in a join: its client may be long gone, and nobody would tell."""


class State(enum.Enum):
    """What is known in each state; the values are the names that tools print."""

    EMPTY = "Empty"
    """No members. Offsets may be there."""
    PREPARING = "PreparingRebalance"
    """Members are joining the next generation; those who do not in time are left behind."""
    COMPLETING = "CompletingRebalance"
    """The generation is fixed; its leader's assignment is awaited, or is being written."""
    STABLE = "Stable"
    """Everybody's assignment is written."""
    DEAD = "Dead"
    """Deleted, or no longer ours: nothing but errors comes from it."""


@attrs.frozen
class Member:
    """One member. `join_token` and `sync_token` are requests of it that wait. A join that waits for a write and not
    for others has its answer `prepared`, and the write's number in `stored_by`. `is_new`: it was in no generation yet.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    deadline: float
    """When its session ends unless it is heard of."""
    assignment: bytes = b""
    join_token: Token | None = None
    sync_token: Token | None = None
    prepared: Joined | None = None
    stored_by: int = 0
    takes_skip: bool = False
    is_new: bool = True
    synced: bool = False
    """Whether it asked for its assignment in this generation."""

    def metadata(self, protocol: str | None) -> bytes:
        """What it said of itself under a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def stored(self) -> StoredMember:
        """As it is written."""
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            self.assignment,
        )


@attrs.frozen
class Group:
    """A group at one moment. `members` stand in the order of their coming.

    Deadlines: `delay_until` is the end of the quiet time of a group that begins, `join_until` the latest end of a join
    phase, `sync_until` the latest moment at which the members of a new generation may ask for their assignments.
    """

    group_id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, Member] = attrs.field(factory=dict)
    pending: Mapping[str, float] = attrs.field(factory=dict)
    """Ids given out with MEMBER_ID_REQUIRED, until when they may be used."""
    delay_until: float | None = None
    join_until: float | None = None
    sync_until: float | None = None
    joined_in_delay: bool = False
    writes: int = 0
    """Number of the last write that was asked for."""
    assigning: int = 0
    """Number of the write that makes the proposed assignment true; 0: none is under way."""

    @property
    def static(self) -> dict[str, str]:
        """Instance id to member id."""
        return {one.instance_id: one.member_id for one in self.members.values() if one.instance_id is not None}

    def stored(self) -> StoredGroup:
        """As it is written; the time is the writer's matter."""
        members = tuple(member.stored() for member in self.members.values())
        return StoredGroup(self.group_id, self.generation, self.protocol_type, self.protocol, self.leader, members, 0)


@attrs.frozen
class Limits:
    """The broker's settings that the machine needs."""

    initial_delay_ms: int = 3000
    max_size: int = 2**31 - 1


# ---- events


@attrs.frozen
class Join:
    """JoinGroup. `fresh_id` is an id for a member that has none; `needs_id`: such a member must come again with it."""

    token: Token
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_id: str
    needs_id: bool = True
    takes_skip: bool = True


@attrs.frozen
class Sync:
    """SyncGroup; `assignments` are the leader's. Protocol type and name are None where the client does not say them."""

    token: Token
    member_id: str
    generation: int
    assignments: Mapping[str, bytes] = attrs.field(factory=dict)
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None


@attrs.frozen
class Heartbeat:
    """Heartbeat."""

    token: Token
    member_id: str
    generation: int
    instance_id: str | None = None


@attrs.frozen
class Leave:
    """LeaveGroup of one or several (member id, instance id)."""

    token: Token
    identities: tuple[tuple[str, str | None], ...]


@attrs.frozen
class Commit:
    """OffsetCommit: may this member commit? The offsets themselves are not the machine's matter."""

    token: Token
    member_id: str
    generation: int
    instance_id: str | None = None


@attrs.frozen
class Tick:
    """Time has passed."""


@attrs.frozen
class Resume:
    """The coordinator was away: nobody's silence counts until now."""


@attrs.frozen
class Written:
    """A write is in ZooKeeper (`code` NONE), or will not be (`code` says why)."""

    number: int
    code: int = errors.NONE


@attrs.frozen
class Delete:
    """Somebody wants the group gone."""

    token: Token


@attrs.frozen
class Unload:
    """The group is no longer ours: everybody who waits is sent away with `code`."""

    code: int = errors.NOT_COORDINATOR


Event = Join | Sync | Heartbeat | Leave | Commit | Tick | Resume | Written | Delete | Unload


# ---- effects


@attrs.frozen
class Joined:
    """Answer to Join. `members` is for the leader alone: (member id, instance id, metadata)."""

    code: int
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@attrs.frozen
class Synced:
    """Answer to Sync."""

    code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@attrs.frozen
class Left:
    """Answer to Leave: a code for each identity, in their order."""

    codes: tuple[int, ...]


@attrs.frozen
class Told:
    """Answer to Heartbeat, Commit and Delete."""

    code: int


@attrs.frozen
class Answer:
    """Effect: tell the one who waits behind the token."""

    token: Token
    body: Joined | Synced | Left | Told


@attrs.frozen
class Store:
    """Effect: write the group, and report as Written(number). Numbers grow; a later one makes an earlier needless."""

    number: int
    group: StoredGroup


Effect = Answer | Store
Effects = tuple[Effect, ...]
