"""One step of the group machine in the making, and the questions that all of its rules ask. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from brokerd.groups.values import Answer, Effect, Group, Joined, Left, Limits, Member, State, Store, Synced, Token, Told
from kafka_wire import errors

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING, State.DEAD}),
    State.PREPARING: frozenset({State.COMPLETING, State.EMPTY, State.DEAD}),
    State.COMPLETING: frozenset({State.PREPARING, State.STABLE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING, State.DEAD}),
    State.DEAD: frozenset(),
}
"""Where each state may go; staying is always allowed."""

NEVER = float("inf")


class IllegalTransition(Exception):
    """The machine's own mistake; nothing was changed."""


def choose_protocol(members: Mapping[str, Member]) -> str | None:
    """The protocol with most votes among those that all members speak; each votes for the first of its own. Of equals
    the one that the eldest member likes best.
    """
    if not members:
        return None
    shared = common(members)
    votes = Counter(next(name for name, _ in one.protocols if name in shared) for one in members.values())
    order = [name for name, _ in next(iter(members.values())).protocols]
    return max(votes, key=lambda name: (votes[name], -order.index(name)))


def common(members: Mapping[str, Member]) -> set[str]:
    """The protocols that all of them speak."""
    found: set[str] | None = None
    for member in members.values():
        names = {name for name, _ in member.protocols}
        found = names if found is None else found & names
    return found or set()


def expiry(member: Member) -> float:
    """When the member's silence ends its session. One that waits for an answer is not silent, but one that is new and
    waits may be gone without a trace; its deadline was set for that.
    """
    if member.sync_token is not None or member.prepared is not None:
        return NEVER
    if member.join_token is not None and not member.is_new:
        return NEVER
    return member.deadline


def sync_deadline(group: Group) -> float | None:
    """When those who have not asked for their assignments are out; None: nobody is missing."""
    late = group.sync_until is not None and any(not member.synced for member in group.members.values())
    return group.sync_until if late else None


class Work:
    """One step in the making."""

    def __init__(self, group: Group, now: float, limits: Limits) -> None:
        self.group = group
        self.now = now
        self.limits = limits
        self.effects: list[Effect] = []

    def answer(self, token: Token, body: Joined | Synced | Left | Told) -> None:
        """Tells the one behind the token."""
        self.effects.append(Answer(token, body))

    def change(self, **fields: Any) -> None:
        """Replaces fields of the group."""
        self.group = attrs.evolve(self.group, **fields)

    def to(self, state: State, **fields: Any) -> None:
        """Goes to another state."""
        if state not in TRANSITIONS[self.group.state]:
            raise IllegalTransition(f"{self.group.group_id}: from {self.group.state.name} to {state.name}")
        self.change(state=state, **fields)

    def put(self, member: Member) -> None:
        """Adds or replaces a member."""
        self.change(members={**self.group.members, member.member_id: member})

    def update_all(self, update: Callable[[Member], Member]) -> None:
        """Replaces every member."""
        self.change(members={key: update(member) for key, member in self.group.members.items()})

    def alive(self, member: Member) -> Member:
        """The member with a session that begins now."""
        return attrs.evolve(member, deadline=self.now + member.session_timeout_ms / 1000)

    def store(self) -> int:
        """Asks for the group to be written as it is now; the number of the write."""
        number = self.group.writes + 1
        self.change(writes=number)
        self.effects.append(Store(number, self.group.stored()))
        return number

    def rebalance_seconds(self) -> float:
        """How long the slowest member may take to join."""
        return max((one.rebalance_timeout_ms for one in self.group.members.values()), default=0) / 1000

    def refusal(self, member_id: str, instance_id: str | None, generation: int | None = None) -> int:
        """Why somebody is not a member as it says it is, or NONE."""
        if instance_id is not None:
            current = self.group.static.get(instance_id)
            if current is None:
                return errors.UNKNOWN_MEMBER_ID
            if current != member_id:
                return errors.FENCED_INSTANCE_ID
        if member_id not in self.group.members:
            return errors.UNKNOWN_MEMBER_ID
        if generation is not None and generation != self.group.generation:
            return errors.ILLEGAL_GENERATION
        return errors.NONE
