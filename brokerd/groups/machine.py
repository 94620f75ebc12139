"""The group machine of the JoinGroup protocol: `step(group, event, now, limits)` -> (group, effects). Pure.

Rules of this file, of `joining.py` (the join phase) and of `work.py` (what both ask):
- A generation is fixed by the end of a join phase and never changes its members; a change of members begins a new one.
- Nobody waits for ever: a join ends with its phase (at most the largest rebalance timeout), a sync with the write of
  the assignment or with the next join phase; who leaves, expires, comes twice or is fenced is answered at once.
- The assignment is written before anybody gets it (K3). A write that fails begins a new join phase.
- One leader in every generation, and it is a member that joined in it. A static member (group.instance.id) that comes
  back takes its place again, with the assignment it had; the id that it had before is fenced.
- A group that begins waits `initial_delay_ms` for more members, anew while some come, at most its rebalance timeout.
- Time is an argument; `next_deadline` says when to call again with a Tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from brokerd.groups.joining import complete, join, prepare, remove, send_syncs_away
from brokerd.groups.values import (
    Commit,
    Delete,
    Effects,
    Event,
    Group,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Limits,
    Member,
    Resume,
    State,
    Sync,
    Synced,
    Tick,
    Told,
    Unload,
    Written,
)
from brokerd.groups.work import NEVER, Work, expiry, sync_deadline
from kafka_wire import errors
from zk_schema.group_nodes import StoredGroup

HEARTBEAT_CODES: Mapping[State, int] = {
    State.EMPTY: errors.UNKNOWN_MEMBER_ID,
    State.PREPARING: errors.REBALANCE_IN_PROGRESS,
    State.COMPLETING: errors.NONE,
    State.STABLE: errors.NONE,
    State.DEAD: errors.COORDINATOR_NOT_AVAILABLE,
}
"""What a heartbeat of a good member is told."""

COMMIT_CODES: Mapping[State, int] = {
    State.EMPTY: errors.NONE,
    State.PREPARING: errors.NONE,
    State.COMPLETING: errors.REBALANCE_IN_PROGRESS,
    State.STABLE: errors.NONE,
    State.DEAD: errors.COORDINATOR_NOT_AVAILABLE,
}
"""What a commit of a good member is told. In PREPARING it may still commit what it did in the generation that ends."""

SYNC_CODES: Mapping[State, int | None] = {
    State.EMPTY: errors.UNKNOWN_MEMBER_ID,
    State.PREPARING: errors.REBALANCE_IN_PROGRESS,
    State.COMPLETING: None,
    State.STABLE: errors.NONE,
    State.DEAD: errors.COORDINATOR_NOT_AVAILABLE,
}
"""What a sync of a good member is told; None: it waits."""

DELETE_CODES: Mapping[State, int] = {
    State.EMPTY: errors.NONE,
    State.PREPARING: errors.NON_EMPTY_GROUP,
    State.COMPLETING: errors.NON_EMPTY_GROUP,
    State.STABLE: errors.NON_EMPTY_GROUP,
    State.DEAD: errors.GROUP_ID_NOT_FOUND,
}


def step(group: Group, event: Event, now: float, limits: Limits) -> tuple[Group, Effects]:
    """The group after the event, and what is to be done."""
    work = Work(group, now, limits)
    _RULES[type(event)](work, event)
    return work.group, tuple(work.effects)


def restore(stored: StoredGroup, now: float) -> Group:
    """A group as its last coordinator wrote it; every member's session begins anew (K4)."""
    members = {
        one.member_id: Member(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            one.session_timeout_ms,
            one.rebalance_timeout_ms,
            one.protocols,
            deadline=now + one.session_timeout_ms / 1000,
            assignment=one.assignment,
            is_new=False,
            synced=True,
        )
        for one in stored.members
    }
    return Group(
        stored.group_id,
        State.STABLE if members else State.EMPTY,
        stored.generation,
        stored.protocol_type,
        stored.protocol,
        stored.leader,
        members,
    )


def next_deadline(group: Group) -> float | None:
    """When the machine wants a Tick; None: never."""
    found = [expiry(member) for member in group.members.values()]
    found.extend(group.pending.values())
    found.extend(
        deadline for deadline in (group.delay_until or group.join_until, sync_deadline(group)) if deadline is not None
    )
    earliest = min(found, default=NEVER)
    return None if earliest == NEVER else earliest


# ---- syncing


def _sync(work: Work, event: Sync) -> None:
    group = work.group
    code = _sync_refusal(work, event)
    if code is not None:
        work.answer(event.token, Synced(code))
        return
    member = group.members[event.member_id]
    if group.state is State.STABLE:
        work.put(work.alive(attrs.evolve(member, synced=True)))
        work.answer(event.token, _synced(group, member))
        return
    if member.sync_token is not None:
        work.answer(member.sync_token, Synced(errors.REBALANCE_IN_PROGRESS))
    work.put(attrs.evolve(member, sync_token=event.token, synced=True))
    if event.member_id == group.leader and not group.assigning:
        work.update_all(lambda one: attrs.evolve(one, assignment=event.assignments.get(one.member_id, b"")))
        number = work.store()
        work.change(assigning=number)


def _sync_refusal(work: Work, event: Sync) -> int | None:
    """Why a sync is answered with an error; None: it is not."""
    group = work.group
    if group.state is State.DEAD:
        return SYNC_CODES[State.DEAD]
    code = work.refusal(event.member_id, event.instance_id, event.generation)
    if code != errors.NONE:
        return code
    if event.protocol_type not in (None, group.protocol_type) or event.protocol not in (None, group.protocol):
        return errors.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_CODES[group.state] or None


def _synced(group: Group, member: Member) -> Synced:
    return Synced(errors.NONE, member.assignment, group.protocol_type, group.protocol)


def _written(work: Work, event: Written) -> None:
    group = work.group
    if group.assigning and group.assigning <= event.number:
        work.change(assigning=0)
        if event.code == errors.NONE:
            work.to(State.STABLE)
            for member in group.members.values():
                if member.sync_token is not None:
                    work.answer(member.sync_token, _synced(group, member))
            work.update_all(lambda one: work.alive(attrs.evolve(one, sync_token=None)) if one.sync_token else one)
        else:
            send_syncs_away(work, event.code)
            prepare(work)
        return
    for member in group.members.values():
        if member.prepared is None or member.stored_by > event.number or member.join_token is None:
            continue
        ok = event.code == errors.NONE
        work.answer(member.join_token, member.prepared if ok else Joined(event.code, member.member_id))
        work.put(work.alive(attrs.evolve(member, join_token=None, prepared=None, stored_by=0)))


# ---- staying, leaving


def _heartbeat(work: Work, event: Heartbeat) -> None:
    code = _current(work, event, HEARTBEAT_CODES)
    work.answer(event.token, Told(code))


def _commit(work: Work, event: Commit) -> None:
    group = work.group
    if group.state is State.EMPTY and event.generation < 0:  # one that uses no group, only its offsets
        code = COMMIT_CODES[State.EMPTY]
    else:
        code = _current(work, event, COMMIT_CODES)
    work.answer(event.token, Told(code))


def _current(work: Work, event: Heartbeat | Commit, codes: Mapping[State, int]) -> int:
    """The code for one who must be a member of this generation; if it is, it was heard of."""
    group = work.group
    if group.state is State.DEAD:
        return codes[State.DEAD]
    code = work.refusal(event.member_id, event.instance_id, event.generation)
    if code != errors.NONE:
        return code
    member = group.members[event.member_id]
    if member.join_token is None:
        work.put(work.alive(member))
    return codes[group.state]


def _leave(work: Work, event: Leave) -> None:
    codes: list[int] = []
    gone: list[str] = []
    for member_id, instance_id in event.identities:
        code, found = _leaver(work, member_id, instance_id)
        if code == errors.NONE and found in gone:
            code = errors.UNKNOWN_MEMBER_ID
        codes.append(code)
        if code == errors.NONE:
            gone.append(found)
    work.answer(event.token, Left(tuple(codes)))
    remove(work, gone)


def _leaver(work: Work, member_id: str, instance_id: str | None) -> tuple[int, str]:
    """A static member may be removed by its instance id alone (a tool does)."""
    group = work.group
    if group.state is State.DEAD:
        return errors.COORDINATOR_NOT_AVAILABLE, ""
    if not member_id and instance_id is not None:
        member_id = group.static.get(instance_id, "")
    if member_id in group.pending:
        return errors.NONE, member_id
    return work.refusal(member_id, instance_id), member_id


# ---- time


def _tick(work: Work, event: Tick) -> None:
    now, group = work.now, work.group
    gone = [key for key, until in group.pending.items() if until <= now]
    gone.extend(key for key, member in group.members.items() if expiry(member) <= now)
    late = sync_deadline(group)
    if late is not None and late <= now:
        gone.extend(key for key, member in group.members.items() if not member.synced and key not in gone)
    remove(work, gone)
    _end_phases(work)


def _end_phases(work: Work) -> None:
    now, group = work.now, work.group
    if group.state is not State.PREPARING or group.join_until is None:
        return
    if group.delay_until is not None:
        if group.delay_until > now:
            return
        if group.joined_in_delay and now < group.join_until:
            again = min(now + work.limits.initial_delay_ms / 1000, group.join_until)
            work.change(delay_until=again, joined_in_delay=False)
            return
        complete(work)
    elif group.join_until <= now:
        complete(work)


def _resume(work: Work, event: Resume) -> None:
    group = work.group
    work.update_all(lambda one: one if one.is_new else work.alive(one))
    longest = max((one.session_timeout_ms for one in work.group.members.values()), default=0) / 1000
    again = work.now + max(work.rebalance_seconds(), longest)
    work.change(
        pending={key: max(until, again) for key, until in group.pending.items()},
        delay_until=None if group.delay_until is None else max(group.delay_until, work.now),
        join_until=None if group.join_until is None else again,
        sync_until=None if group.sync_until is None else again,
    )


# ---- the end


def _delete(work: Work, event: Delete) -> None:
    code = DELETE_CODES[work.group.state]
    if code == errors.NONE:
        _die(work, errors.COORDINATOR_NOT_AVAILABLE)
    work.answer(event.token, Told(code))


def _unload(work: Work, event: Unload) -> None:
    if work.group.state is not State.DEAD:
        _die(work, event.code)


def _die(work: Work, code: int) -> None:
    for member in work.group.members.values():
        if member.join_token is not None:
            work.answer(member.join_token, Joined(code, member.member_id))
        if member.sync_token is not None:
            work.answer(member.sync_token, Synced(code))
    work.to(
        State.DEAD, members={}, pending={}, leader=None, delay_until=None, join_until=None, sync_until=None, assigning=0
    )


_RULES: Mapping[type[Any], Callable[[Work, Any], None]] = {
    Join: join,
    Sync: _sync,
    Heartbeat: _heartbeat,
    Leave: _leave,
    Commit: _commit,
    Tick: _tick,
    Resume: _resume,
    Written: _written,
    Delete: _delete,
    Unload: _unload,
}
