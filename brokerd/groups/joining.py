"""The join phase of the group machine: who comes in, how a generation is fixed, who goes. Pure."""

from __future__ import annotations

import attrs

from brokerd.groups.values import NEW_MEMBER_JOIN_SECONDS, Group, Join, Joined, Member, State, Synced
from brokerd.groups.work import Work, choose_protocol, common
from kafka_wire import errors

_MAX_GENERATION = 2**31 - 1


def join(work: Work, event: Join) -> None:
    """A member comes in, comes back, or only asks for an id."""
    group = work.group
    former = group.static.get(event.instance_id) if event.instance_id is not None and not event.member_id else None
    known = former or event.member_id
    code = _join_refusal(work, event, known)
    if code != errors.NONE:
        work.answer(event.token, Joined(code, event.member_id))
    elif former is not None:
        _replace_static(work, event, former)
    elif event.member_id in group.members:
        _rejoin(work, event)
    elif event.member_id:
        work.change(pending={key: until for key, until in group.pending.items() if key != event.member_id})
        _add(work, event, event.member_id)
    elif event.needs_id and event.instance_id is None:
        until = work.now + event.session_timeout_ms / 1000
        work.change(pending={**group.pending, event.fresh_id: until})
        work.answer(event.token, Joined(errors.MEMBER_ID_REQUIRED, event.fresh_id))
    else:
        _add(work, event, event.fresh_id)


def _join_refusal(work: Work, event: Join, known: str) -> int:
    group = work.group
    if group.state is State.DEAD:
        return errors.COORDINATOR_NOT_AVAILABLE
    if event.member_id and event.member_id not in group.pending:
        code = work.refusal(event.member_id, event.instance_id)
        if code != errors.NONE:
            return code
    if not _has_room(group, known, work.limits.max_size):
        return errors.GROUP_MAX_SIZE_REACHED
    if not event.protocol_type or not event.protocols:
        return errors.INCONSISTENT_GROUP_PROTOCOL
    others = {key: member for key, member in group.members.items() if key != known}
    if others and (
        event.protocol_type != group.protocol_type or not common(others) & {name for name, _ in event.protocols}
    ):
        return errors.INCONSISTENT_GROUP_PROTOCOL
    return errors.NONE


def _has_room(group: Group, known: str, limit: int) -> bool:
    member = group.members.get(known)
    if group.state is State.PREPARING:
        waiting = sum(one.join_token is not None for one in group.members.values())
        return (member is not None and member.join_token is not None) or waiting < limit
    return member is not None or len(group.members) < limit


def _updated(work: Work, member: Member, event: Join) -> Member:
    """The member as it says it is now, with its join waiting; a join of it that waited before is sent away."""
    if member.join_token is not None:
        work.answer(member.join_token, Joined(errors.REBALANCE_IN_PROGRESS, member.member_id))
    return attrs.evolve(
        member,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        deadline=work.now + (NEW_MEMBER_JOIN_SECONDS if member.is_new else event.session_timeout_ms / 1000),
        join_token=event.token,
        takes_skip=event.takes_skip,
        prepared=None,
        stored_by=0,
    )


def _add(work: Work, event: Join, member_id: str) -> None:
    member = Member(
        member_id,
        event.instance_id,
        event.client_id,
        event.client_host,
        event.session_timeout_ms,
        event.rebalance_timeout_ms,
        event.protocols,
        deadline=0.0,
    )
    if not work.group.members:
        work.change(protocol_type=event.protocol_type)
    work.put(_updated(work, member, event))
    if work.group.delay_until is not None:
        work.change(joined_in_delay=True)
    prepare(work)


def _rejoin(work: Work, event: Join) -> None:
    group, member = work.group, work.group.members[event.member_id]
    same = member.protocols == event.protocols
    answered = (group.state is State.COMPLETING and same) or (
        group.state is State.STABLE and same and group.leader != event.member_id
    )
    if not answered:
        work.put(_updated(work, member, event))
        prepare(work)
        return
    # Its answer was lost, or it only wants to be sure: it gets what it has.
    if member.join_token is not None:  # it still waits for the write of its new id, and goes on waiting
        work.answer(member.join_token, Joined(errors.REBALANCE_IN_PROGRESS, member.member_id))
        work.put(attrs.evolve(member, join_token=event.token))
        return
    work.put(work.alive(member))
    work.answer(event.token, _joined(work.group, member))


def _joined(group: Group, member: Member) -> Joined:
    """The answer of the current generation; the leader gets the members."""
    leads = group.leader == member.member_id
    members = tuple((one.member_id, one.instance_id, one.metadata(group.protocol)) for one in group.members.values())
    return Joined(
        errors.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        members=members if leads else (),
    )


def _replace_static(work: Work, event: Join, former_id: str) -> None:
    """A static member is back under a new id. In a stable group it gets its old assignment and nobody else is
    disturbed, as long as the protocol stays the same; the new id is written before it is told (KIP-345, KIP-814).
    """
    group, former = work.group, work.group.members[former_id]
    if former.join_token is not None:
        work.answer(former.join_token, Joined(errors.FENCED_INSTANCE_ID, former_id))
    if former.sync_token is not None:
        work.answer(former.sync_token, Synced(errors.FENCED_INSTANCE_ID))
    former = attrs.evolve(former, member_id=event.fresh_id, join_token=None, sync_token=None, is_new=False)
    member = _updated(work, former, event)
    members = {(member.member_id if key == former_id else key): one for key, one in group.members.items()}
    members[member.member_id] = member
    led = group.leader == former_id
    work.change(members=members, leader=member.member_id if led else group.leader)
    if group.state is not State.STABLE or choose_protocol(members) != group.protocol:
        prepare(work)
        return
    answer = _joined(work.group, member)
    if led and event.takes_skip:
        answer = attrs.evolve(answer, skip_assignment=True)
    elif led:  # a client that cannot be told to skip must not take itself for the leader
        answer = attrs.evolve(answer, leader=former_id, members=())
    work.put(attrs.evolve(member, prepared=answer, stored_by=work.store(), synced=True))


def prepare(work: Work) -> None:
    """Begins a join phase, or goes on with it."""
    group = work.group
    if group.state is not State.PREPARING:
        if group.state is State.COMPLETING:
            send_syncs_away(work, errors.REBALANCE_IN_PROGRESS)
        until = work.now + work.rebalance_seconds()
        delay = work.limits.initial_delay_ms / 1000
        delayed = group.state is State.EMPTY and delay > 0
        work.to(
            State.PREPARING,
            delay_until=min(work.now + delay, until) if delayed else None,
            join_until=until,
            sync_until=None,
            joined_in_delay=False,
            assigning=0,
        )
        work.update_all(lambda member: attrs.evolve(member, prepared=None, stored_by=0))
    try_complete(work)


def send_syncs_away(work: Work, code: int) -> None:
    """Nobody gets an assignment in this generation."""
    for member in work.group.members.values():
        if member.sync_token is not None:
            work.answer(member.sync_token, Synced(code))
    work.update_all(lambda member: work.alive(attrs.evolve(member, assignment=b"", sync_token=None)))


def try_complete(work: Work) -> None:
    """Ends the join phase as soon as nobody is missing."""
    group = work.group
    if group.state is not State.PREPARING or group.pending:
        return
    waiting = all(member.join_token is not None for member in group.members.values())
    if not group.members or (waiting and group.delay_until is None):
        complete(work)


def complete(work: Work) -> None:
    """Fixes the next generation: those who joined, and static members, who may be away for their session timeout."""
    joined = {key: one for key, one in work.group.members.items() if one.join_token is not None}
    kept = {key: one for key, one in work.group.members.items() if key in joined or one.instance_id is not None}
    work.change(members=kept, delay_until=None)
    group = work.group
    generation = group.generation % _MAX_GENERATION + 1
    if not kept:
        work.to(State.EMPTY, generation=generation, protocol=None, leader=None, join_until=None)
        work.store()
        return
    if not joined:
        work.change(join_until=work.now + work.rebalance_seconds())
        return
    work.to(
        State.COMPLETING,
        generation=generation,
        protocol=choose_protocol(kept),
        leader=group.leader if group.leader in joined else next(iter(joined)),
        join_until=None,
        sync_until=work.now + work.rebalance_seconds(),
    )
    for member in joined.values():
        assert member.join_token is not None
        work.answer(member.join_token, _joined(work.group, member))

    def begin(member: Member) -> Member:
        if member.join_token is None:
            return attrs.evolve(member, assignment=b"", synced=True)
        fresh = attrs.evolve(member, assignment=b"", join_token=None, is_new=False, synced=False)
        return work.alive(fresh)

    work.update_all(begin)


def remove(work: Work, gone: list[str]) -> None:
    """Takes members and given-out ids away; what they waited for is answered, the others rebalance."""
    group = work.group
    removed = [group.members[key] for key in gone if key in group.members]
    if not gone:
        return
    for member in removed:
        if member.join_token is not None:
            work.answer(member.join_token, Joined(errors.UNKNOWN_MEMBER_ID, member.member_id))
        if member.sync_token is not None:
            work.answer(member.sync_token, Synced(errors.UNKNOWN_MEMBER_ID))
    members = {key: member for key, member in group.members.items() if key not in gone}
    pending = {key: until for key, until in group.pending.items() if key not in gone}
    leader = group.leader if group.leader in members else next(iter(members), None)
    work.change(members=members, pending=pending, leader=leader)
    if removed and group.state in (State.COMPLETING, State.STABLE):
        prepare(work)
    else:
        try_complete(work)
