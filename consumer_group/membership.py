"""One member of a group as a machine: events in, effects out. Pure; the rules are B6-B9 and B19-B23.

    joining -> waiting -> moving <-> owning          leaving -> closed
                          \\ suspended /
                           doubtful -> fenced -> moving (same session) or joining (a new one)

What every state allows us to believe:
- JOINING: nothing of ours is in ZooKeeper that counts. WAITING: we are registered, no plan has named us yet.
- MOVING, OWNING: `owned` is what ZooKeeper says (B9); in OWNING it is also our share, and nothing is under way.
- DOUBTFUL: not connected, the lease holds: what we own is ours, so it is delivered, but nothing can be written.
- FENCED: the lease is over: others may own what we owned; `owned` is empty, whatever ZooKeeper still holds.
- LEAVING: we give back what we own, then go. CLOSED is the only end, and nothing but `Leave` leads there.

Rules. Releasing never waits for a claim (B6), so there is no cycle among members. A partition goes through exactly one
of `handing` (the application is told, or has not come to it yet) and `releasing` (the write is under way) before
it leaves `owned`. An event that came too late for the state changes nothing: `LATE` lists each such pair, and an event
that is neither handled nor listed is a defect and raises.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import attrs

from kafka_wire.ids import TopicPartition

Partitions = frozenset[TopicPartition]
NONE: Partitions = frozenset()


class State(enum.Enum):
    """See the head of the file."""

    JOINING = "joining"
    WAITING = "waiting"
    MOVING = "moving"
    OWNING = "owning"
    DOUBTFUL = "doubtful"
    FENCED = "fenced"
    LEAVING = "leaving"
    CLOSED = "closed"


# --- events ---


@attrs.frozen
class NewSession:
    """Connected, with a session that did not exist before."""


@attrs.frozen
class Joined:
    """Our registration is in ZooKeeper."""


@attrs.frozen
class PlanSeen:
    """A plan was read. `share` is ours by it, empty also where it does not name us (`named`)."""

    version: int
    share: Partitions
    named: bool = True


@attrs.frozen
class HandedOver:
    """The application let go of these partitions: what it handled is known."""

    partitions: Partitions


@attrs.frozen
class HandOverOverdue:
    """The application did not come for max.poll.interval.ms: these are taken from it (B7)."""

    partitions: Partitions


@attrs.frozen
class Released:
    """The owner nodes are gone."""

    partitions: Partitions


@attrs.frozen
class Claimed:
    """The owner nodes are ours."""

    partitions: Partitions


@attrs.frozen
class Blocked:
    """Somebody else still owns these; their nodes are watched."""

    partitions: Partitions


@attrs.frozen
class ClaimStale:
    """The plan had changed before the claim (BadVersion); nothing of it was written."""

    partitions: Partitions


@attrs.frozen
class OwnerGone:
    """A node that blocked us has gone, or it is time to look again."""

    partitions: Partitions


@attrs.frozen
class Audited:
    """Which nodes ZooKeeper has under our session, read while nothing of ours was under way (B22)."""

    found: Partitions


@attrs.frozen
class Suspended:
    """Not connected."""


@attrs.frozen
class Resumed:
    """Connected again with the same session, or the lease is valid again."""


@attrs.frozen
class LeaseOver:
    """Nobody answers for our session any more (B19)."""


@attrs.frozen
class SessionLost:
    """The session is over."""


@attrs.frozen
class Evicted:
    """Our registration was deleted by somebody, though the session lives (B18)."""


@attrs.frozen
class Leave:
    """The application closes the consumer."""


@attrs.frozen
class Left:
    """The session is closed."""


Event = (
    NewSession
    | Joined
    | PlanSeen
    | HandedOver
    | HandOverOverdue
    | Released
    | Claimed
    | Blocked
    | ClaimStale
    | OwnerGone
    | Audited
    | Suspended
    | Resumed
    | LeaseOver
    | SessionLost
    | Evicted
    | Leave
    | Left
)


# --- effects, in the order in which they are to be begun ---


@attrs.frozen
class Join:
    """Delete what this session still owns, take a new id, check the group's kind, register. Ends with Joined."""


@attrs.frozen
class ReadPlan:
    """Read plan and ids, with watches. Ends with PlanSeen, now and whenever the plan changes."""


@attrs.frozen
class Claim:
    """Create the owner nodes that are free. Ends with Claimed, Blocked (both, for parts of it) or ClaimStale."""

    partitions: Partitions
    version: int


@attrs.frozen
class Start:
    """Read the offsets and begin to fetch."""

    partitions: Partitions


@attrs.frozen
class HandOver:
    """Stop fetching, drop what is buffered, have the application let go. Ends with HandedOver or HandOverOverdue."""

    partitions: Partitions


@attrs.frozen
class Release:
    """Delete the owner nodes, with the offsets in the same multi if `commit` (B7). Ends with Released."""

    partitions: Partitions
    commit: bool


@attrs.frozen
class Lost:
    """Stop at once and tell the application that these were taken from it; nothing of them is committed."""

    partitions: Partitions


@attrs.frozen
class Audit:
    """Read which nodes are ours. Ends with Audited."""


@attrs.frozen
class Depart:
    """Delete our registration if there is one, and close the session. Ends with Left."""


Effect = Join | ReadPlan | Claim | Start | HandOver | Release | Lost | Audit | Depart
Step = tuple["Member", list[Effect]]


@attrs.frozen
class Member:
    """Where a member stands. `version` is that of the plan that `mine` comes from, -1 before the first."""

    state: State = State.JOINING
    version: int = -1
    mine: Partitions = NONE
    owned: Partitions = NONE
    handing: Partitions = NONE
    releasing: Partitions = NONE
    claiming: Partitions = NONE
    blocked: Partitions = NONE

    @property
    def settled(self) -> bool:
        """Whether what we own is our share and nothing is under way."""
        return self.owned == self.mine and not (self.handing or self.releasing or self.claiming)


def step(member: Member, event: Event) -> Step:
    """The member after the event, and what is to be done. LookupError for a pair that cannot be."""
    handler = HANDLERS.get((member.state, type(event)))
    if handler is not None:
        return handler(member, event)
    if (member.state, type(event)) in LATE:
        return member, []
    raise LookupError(f"{type(event).__name__} while {member.state.value}")


# --- handlers ---


def _settle(member: Member) -> Step:
    """B6: give up what is not ours, claim what is, say whether anything is left to do."""
    effects: list[Effect] = []
    lose = member.owned - member.mine - member.handing - member.releasing
    gain = member.mine - member.owned - member.claiming - member.blocked
    if lose:
        effects.append(HandOver(lose))
    if gain:
        effects.append(Claim(gain, member.version))
    member = attrs.evolve(member, handing=member.handing | lose, claiming=member.claiming | gain)
    return attrs.evolve(member, state=State.OWNING if member.settled else State.MOVING), effects


def _begin(member: Member, event: NewSession) -> Step:
    return Member(), [Join()]


def _joined(member: Member, event: Joined) -> Step:
    return attrs.evolve(member, state=State.WAITING), [ReadPlan()]


def _plan_seen(member: Member, event: PlanSeen) -> Step:
    if event.version < member.version:
        return member, []
    if member.state is State.WAITING and not event.named:
        return attrs.evolve(member, version=event.version), []
    blocked = member.blocked & event.share
    return _settle(attrs.evolve(member, version=event.version, mine=event.share, blocked=blocked))


def _handed_over(member: Member, event: HandedOver) -> Step:
    """The same while leaving and while doubtful: the write waits for the connection."""
    given = event.partitions & member.handing
    after = attrs.evolve(member, handing=member.handing - given, releasing=member.releasing | given)
    return after, [Release(given, commit=True)] if given else []


def _overdue(member: Member, event: HandOverOverdue) -> Step:
    taken = event.partitions & member.handing
    after = attrs.evolve(member, handing=member.handing - taken, releasing=member.releasing | taken)
    return after, [Lost(taken), Release(taken, commit=False)] if taken else []


def _without(member: Member, partitions: Partitions) -> Member:
    return attrs.evolve(
        member,
        owned=member.owned - partitions,
        handing=member.handing - partitions,
        releasing=member.releasing - partitions,
    )


def _released(member: Member, event: Released) -> Step:
    return _settle(_without(member, event.partitions))


def _released_in_doubt(member: Member, event: Released) -> Step:
    return _without(member, event.partitions), []


def _claimed(member: Member, event: Claimed) -> Step:
    """What another plan took from us meanwhile was never started, so it has nothing to commit."""
    start, back = event.partitions & member.mine, event.partitions - member.mine
    after = attrs.evolve(
        member,
        claiming=member.claiming - event.partitions,
        owned=member.owned | event.partitions,
        releasing=member.releasing | back,
    )
    effects: list[Effect] = []
    if start - member.owned:
        effects.append(Start(start - member.owned))
    if back:
        effects.append(Release(back, commit=False))
    settled, more = _settle(after)
    return settled, effects + more


def _claimed_while_leaving(member: Member, event: Claimed) -> Step:
    after = attrs.evolve(
        member,
        claiming=member.claiming - event.partitions,
        owned=member.owned | event.partitions,
        releasing=member.releasing | event.partitions,
    )
    return after, [Release(event.partitions, commit=False)] if event.partitions else []


def _blocked(member: Member, event: Blocked) -> Step:
    blocked = member.blocked | (event.partitions & member.mine)
    return _settle(attrs.evolve(member, claiming=member.claiming - event.partitions, blocked=blocked))


def _owner_gone(member: Member, event: OwnerGone) -> Step:
    return _settle(attrs.evolve(member, blocked=member.blocked - event.partitions))


def _claim_stale(member: Member, event: ClaimStale) -> Step:
    """No claim again before the plan was read: what we would claim by the old one is void."""
    left = member.claiming - event.partitions
    return attrs.evolve(member, claiming=left, state=State.MOVING), [ReadPlan()]


def _audited(member: Member, event: Audited) -> Step:
    """Memory is only a cache (B9): a node that vanished is claimed again, one that we forgot is taken up or given back.

    Nothing was under way when the nodes were read, so a claim whose outcome came too late for the state it met is
    forgotten here; claiming a second time what is already ours does no harm.
    """
    missing = member.owned - event.found
    extra = event.found - member.owned
    start, back = extra & member.mine, extra - member.mine
    effects: list[Effect] = []
    if missing:
        effects.append(Lost(missing))
    if start:
        effects.append(Start(start))
    if back:
        effects.append(Release(back, commit=False))
    after = _without(member, missing)
    after = attrs.evolve(
        after,
        owned=after.owned | extra,
        releasing=after.releasing | back,
        claiming=NONE,
        blocked=NONE,
    )
    settled, more = _settle(after)
    return settled, effects + more


def _doubt(member: Member, event: Suspended) -> Step:
    return attrs.evolve(member, state=State.DOUBTFUL), []


def _resume(member: Member, event: Resumed) -> Step:
    """Watches are gone with the connection, so all that was blocked is looked at again by the audit's outcome.

    Before the first plan there is nothing to audit; reading the plan decides where we stand.
    """
    return attrs.evolve(member, state=State.MOVING, blocked=NONE), [ReadPlan(), Audit()]


def _fence(member: Member, event: LeaseOver) -> Step:
    after = attrs.evolve(member, state=State.FENCED, owned=NONE, handing=NONE, releasing=NONE, blocked=NONE)
    return after, [Lost(member.owned)] if member.owned else []


def _session_lost(member: Member, event: SessionLost) -> Step:
    return Member(), [Lost(member.owned)] if member.owned else []


def _evicted(member: Member, event: Evicted) -> Step:
    effects: list[Effect] = [Lost(member.owned)] if member.owned else []
    return Member(), [*effects, Join()]


def _leave(member: Member, event: Leave) -> Step:
    giving = member.owned - member.handing - member.releasing
    after = attrs.evolve(member, state=State.LEAVING, mine=NONE, blocked=NONE, handing=member.handing | giving)
    if not member.owned:
        return after, [Depart()]
    return after, [HandOver(giving)] if giving else []


def _leave_at_once(member: Member, event: Leave) -> Step:
    return Member(state=State.LEAVING), [Depart()]


def _released_while_leaving(member: Member, event: Released) -> Step:
    after = _without(member, event.partitions)
    return after, [] if after.owned or not member.owned else [Depart()]


def _end_while_leaving(member: Member, event: LeaseOver | SessionLost | Evicted) -> Step:
    """Nothing is left to give back; a departure that was begun already goes on."""
    if not member.owned:
        return member, []
    return Member(state=State.LEAVING), [Lost(member.owned), Depart()]


def _left(member: Member, event: Left) -> Step:
    return Member(state=State.CLOSED), []


Handler = Callable[[Any, Any], Step]

_LIVE = (State.WAITING, State.MOVING, State.OWNING)
_SHARING = (State.MOVING, State.OWNING)
_REGISTERED = (*_LIVE, State.DOUBTFUL, State.FENCED)
_ALL = tuple(State)


def _table() -> dict[tuple[State, type], Handler]:
    rows: list[tuple[type, tuple[State, ...], Handler]] = [
        (NewSession, (State.JOINING,), _begin),
        (Joined, (State.JOINING,), _joined),
        (PlanSeen, _LIVE, _plan_seen),
        (HandedOver, (*_SHARING, State.DOUBTFUL, State.LEAVING), _handed_over),
        (HandOverOverdue, (*_SHARING, State.DOUBTFUL, State.LEAVING), _overdue),
        (Released, _SHARING, _released),
        (Released, (State.DOUBTFUL,), _released_in_doubt),
        (Released, (State.LEAVING,), _released_while_leaving),
        (Claimed, _SHARING, _claimed),
        (Claimed, (State.LEAVING,), _claimed_while_leaving),
        (Blocked, _SHARING, _blocked),
        (OwnerGone, _SHARING, _owner_gone),
        (ClaimStale, _SHARING, _claim_stale),
        (Audited, _SHARING, _audited),
        (Suspended, _LIVE, _doubt),
        (Resumed, (State.DOUBTFUL, State.FENCED), _resume),
        (LeaseOver, (*_LIVE, State.DOUBTFUL), _fence),
        (LeaseOver, (State.LEAVING,), _end_while_leaving),
        (SessionLost, (State.JOINING, *_REGISTERED), _session_lost),
        (SessionLost, (State.LEAVING,), _end_while_leaving),
        (Evicted, _REGISTERED, _evicted),
        (Evicted, (State.LEAVING,), _end_while_leaving),
        (Leave, (*_SHARING, State.DOUBTFUL), _leave),
        (Leave, (State.JOINING, State.WAITING, State.FENCED), _leave_at_once),
        (Left, (State.LEAVING,), _left),
    ]
    return {(state, kind): handler for kind, states, handler in rows for state in states}


HANDLERS = _table()

LATE: frozenset[tuple[State, type]] = frozenset(
    {
        # What the work of an earlier time brings after we were fenced, lost or closed; an audit or a join follows.
        *((state, kind) for state in (State.JOINING, State.WAITING, State.FENCED) for kind in (HandedOver, Released)),
        *((state, HandOverOverdue) for state in (State.JOINING, State.WAITING, State.FENCED)),
        *(
            (state, kind)
            for state in (State.JOINING, State.WAITING, State.DOUBTFUL, State.FENCED)
            for kind in (Claimed, Blocked, ClaimStale, OwnerGone, Audited)
        ),
        *((state, PlanSeen) for state in (State.JOINING, State.DOUBTFUL, State.FENCED)),
        *((State.LEAVING, kind) for kind in (PlanSeen, Blocked, ClaimStale, OwnerGone, Audited, Joined)),
        # The connection and the lease come and go in states that have nothing to lose by it.
        *((state, Suspended) for state in (State.JOINING, State.DOUBTFUL, State.FENCED, State.LEAVING)),
        *((state, Resumed) for state in (State.JOINING, *_LIVE, State.LEAVING)),
        *((state, LeaseOver) for state in (State.JOINING, State.FENCED)),
        (State.LEAVING, NewSession),
        (State.LEAVING, Leave),
        (State.JOINING, Evicted),
        *((State.CLOSED, kind) for kind in Event.__args__),
    }
)
