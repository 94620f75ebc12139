"""Promises of a member's machine: each pair of state and event, each rule by name, and any history at all."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer_group import membership as m
from consumer_group.membership import HANDLERS, LATE, Member, Partitions, State, step
from kafka_wire.ids import TopicPartition

EVENTS: tuple[type, ...] = m.Event.__args__


def parts(*indexes: int) -> Partitions:
    """Partitions of one topic."""
    return frozenset(TopicPartition("t", index) for index in indexes)


def owning(*indexes: int) -> Member:
    """A member at rest with these."""
    return Member(State.OWNING, version=1, mine=parts(*indexes), owned=parts(*indexes))


def example(kind: type) -> m.Event:
    """Some event of a kind."""
    if kind is m.PlanSeen:
        return m.PlanSeen(1, parts(0))
    fields = attrs.fields(kind)
    event: m.Event = kind(parts(0)) if fields else kind()
    return event


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("state", State)
def test_every_pair_is_handled_late_or_impossible(state: State, kind: type) -> None:
    """No pair is left to chance: what is neither handled nor late raises and changes nothing."""
    pair = (state, kind)
    member = Member(state, version=1)
    assert not (pair in HANDLERS and pair in LATE)
    if pair in HANDLERS:
        after, effects = step(member, example(kind))
        assert isinstance(after, Member)
        assert all(isinstance(effect, m.Effect) for effect in effects)
    elif pair in LATE:
        assert step(member, example(kind)) == (member, [])
    else:
        with pytest.raises(LookupError, match=state.value):
            step(member, example(kind))


def test_impossible_pairs_are_few_and_known() -> None:
    """A new session while one lives, a second joining, a departure that nobody began."""
    impossible = {(state, kind) for state in State for kind in EVENTS} - set(HANDLERS) - LATE
    live = {State.WAITING, State.MOVING, State.OWNING, State.DOUBTFUL, State.FENCED}
    assert impossible == {
        *((state, m.NewSession) for state in live),
        *((state, m.Joined) for state in live),
        *((state, m.Left) for state in live | {State.JOINING}),
    }


def test_no_state_but_closed_is_an_end() -> None:
    """From everywhere a session's end leads back to joining, and leaving to closed (B23)."""
    for state in set(State) - {State.CLOSED, State.LEAVING}:
        assert step(Member(state), m.SessionLost())[0].state is State.JOINING
        assert step(Member(state), m.Leave())[0].state is State.LEAVING
    assert step(Member(State.LEAVING), m.Left())[0].state is State.CLOSED


def test_B20_new_session_registers_then_waits_for_a_plan_with_it() -> None:
    """Nothing is claimed before a plan names us."""
    member, effects = step(Member(), m.NewSession())
    assert effects == [m.Join()]
    member, effects = step(member, m.Joined())
    assert (member.state, effects) == (State.WAITING, [m.ReadPlan()])
    member, effects = step(member, m.PlanSeen(4, m.NONE, named=False))
    assert (member.state, effects) == (State.WAITING, [])
    member, effects = step(member, m.PlanSeen(5, parts(0, 1)))
    assert (member.state, effects) == (State.MOVING, [m.Claim(parts(0, 1), 5)])


def test_B6_new_plan_loses_and_gains_at_once() -> None:
    """Releasing does not wait for the claim nor the claim for the release."""
    member, effects = step(owning(0, 1), m.PlanSeen(2, parts(1, 2)))
    assert effects == [m.HandOver(parts(0)), m.Claim(parts(2), 2)]
    assert member.state is State.MOVING


def test_B6_older_plan_is_ignored() -> None:
    """Reads may overtake each other."""
    member = attrs.evolve(owning(0), version=9)
    assert step(member, m.PlanSeen(8, parts(1))) == (member, [])


def test_B7_release_follows_the_application_and_commits() -> None:
    """The node goes only after the application let go, with its offset."""
    member, _ = step(owning(0, 1), m.PlanSeen(2, parts(1)))
    member, effects = step(member, m.HandedOver(parts(0)))
    assert effects == [m.Release(parts(0), commit=True)]
    assert parts(0) <= member.owned
    member, effects = step(member, m.Released(parts(0)))
    assert (member.state, member.owned, effects) == (State.OWNING, parts(1), [])


def test_B7_application_does_not_come_partition_is_lost_and_nothing_committed() -> None:
    """After max.poll.interval.ms the group goes on without it."""
    member, _ = step(owning(0), m.PlanSeen(2, m.NONE))
    _, effects = step(member, m.HandOverOverdue(parts(0)))
    assert effects == [m.Lost(parts(0)), m.Release(parts(0), commit=False)]


def test_B7_given_back_by_the_next_plan_it_is_released_first_and_claimed_again() -> None:
    """A hand-over that was begun is finished."""
    member, _ = step(owning(0), m.PlanSeen(2, m.NONE))
    member, effects = step(member, m.PlanSeen(3, parts(0)))
    assert effects == []
    member, _ = step(member, m.HandedOver(parts(0)))
    _, effects = step(member, m.Released(parts(0)))
    assert effects == [m.Claim(parts(0), 3)]


def test_B8_free_ones_start_while_blocked_ones_are_awaited() -> None:
    """Free partitions are not held back for blocked ones."""
    member = attrs.evolve(Member(State.MOVING), version=2, mine=parts(0, 1), claiming=parts(0, 1))
    member, effects = step(member, m.Claimed(parts(0)))
    assert effects == [m.Start(parts(0))]
    member, effects = step(member, m.Blocked(parts(1)))
    assert (member.state, effects) == (State.MOVING, [])
    member, effects = step(member, m.OwnerGone(parts(1)))
    assert effects == [m.Claim(parts(1), 2)]
    member, effects = step(member, m.Claimed(parts(1)))
    assert (member.state, effects) == (State.OWNING, [m.Start(parts(1))])


def test_B8_stale_claim_reads_the_plan_and_claims_by_it() -> None:
    """BadVersion leads back to B6."""
    member = attrs.evolve(Member(State.MOVING), version=2, mine=parts(0), claiming=parts(0))
    member, effects = step(member, m.ClaimStale(parts(0)))
    assert effects == [m.ReadPlan()]
    _, effects = step(member, m.PlanSeen(3, parts(0)))
    assert effects == [m.Claim(parts(0), 3)]


def test_claimed_but_planned_away_meanwhile_goes_back_unstarted() -> None:
    """A claim that overlaps with a plan is not kept (W5)."""
    member = attrs.evolve(Member(State.MOVING), version=2, mine=m.NONE, claiming=parts(0))
    member, effects = step(member, m.Claimed(parts(0)))
    assert effects == [m.Release(parts(0), commit=False)]


def test_B19_doubtful_keeps_what_it_owns_until_the_lease_ends() -> None:
    """SUSPENDED: deliver. Lease over: nothing is ours any more."""
    member, effects = step(owning(0, 1), m.Suspended())
    assert (member.state, member.owned, effects) == (State.DOUBTFUL, parts(0, 1), [])
    member, effects = step(member, m.LeaseOver())
    assert (member.state, member.owned, effects) == (State.FENCED, m.NONE, [m.Lost(parts(0, 1))])


def test_B19_lease_may_end_while_connected() -> None:
    """A process that slept finds its lease over before it finds the connection dead."""
    assert step(owning(0), m.LeaseOver())[1] == [m.Lost(parts(0))]


def test_B20_back_in_the_same_session_audits_and_goes_on() -> None:
    """What ZooKeeper still has under our session is taken up again."""
    member, _ = step(owning(0, 1), m.Suspended())
    member, effects = step(member, m.Resumed())
    assert effects == [m.ReadPlan(), m.Audit()]
    member, effects = step(member, m.Audited(parts(0, 1)))
    assert (member.state, effects) == (State.OWNING, [])


def test_B20_back_in_the_same_session_after_the_fence_starts_again() -> None:
    """The application was told `lost`, so it is told `assigned` again."""
    member, _ = step(owning(0), m.LeaseOver())
    member, _ = step(member, m.Resumed())
    member, effects = step(member, m.Audited(parts(0)))
    assert (member.state, effects) == (State.OWNING, [m.Start(parts(0))])


def test_B20_session_lost_everything_is_forgotten() -> None:
    """A new session begins with nothing."""
    assert step(owning(0), m.SessionLost()) == (Member(), [m.Lost(parts(0))])


def test_B22_audit_heals_both_ways() -> None:
    """A vanished node is claimed again, a forgotten one given back."""
    member, effects = step(owning(0, 1), m.Audited(parts(1, 2)))
    assert effects == [m.Lost(parts(0)), m.Release(parts(2), commit=False), m.Claim(parts(0), 1)]
    assert member.owned == parts(1, 2)


def test_B18_evicted_member_joins_anew() -> None:
    """Who was thrown out is fenced, and comes back under another id."""
    assert step(owning(0), m.Evicted()) == (Member(), [m.Lost(parts(0)), m.Join()])


def test_B23_leaving_hands_over_releases_and_departs() -> None:
    """A clean end leaves offsets committed and nothing behind."""
    member, effects = step(owning(0), m.Leave())
    assert effects == [m.HandOver(parts(0))]
    member, effects = step(member, m.HandedOver(parts(0)))
    assert effects == [m.Release(parts(0), commit=True)]
    member, effects = step(member, m.Released(parts(0)))
    assert effects == [m.Depart()]
    assert step(member, m.Left())[0].state is State.CLOSED


def test_leaving_with_nothing_departs_at_once() -> None:
    """Nothing to give back, nothing to wait for."""
    assert step(owning(), m.Leave())[1] == [m.Depart()]
    assert step(Member(State.FENCED), m.Leave())[1] == [m.Depart()]


def test_lease_over_while_leaving_departs_without_committing() -> None:
    """The successors read again what was not committed."""
    member, _ = step(owning(0), m.Leave())
    assert step(member, m.LeaseOver())[1] == [m.Lost(parts(0)), m.Depart()]


def test_claim_that_ends_while_leaving_is_given_back() -> None:
    """It was never started."""
    member, _ = step(attrs.evolve(owning(0), claiming=parts(1)), m.Leave())
    assert step(member, m.Claimed(parts(1)))[1] == [m.Release(parts(1), commit=False)]


some_parts = st.frozensets(st.integers(0, 3)).map(lambda chosen: parts(*chosen))


@st.composite
def any_event(draw: st.DrawFn) -> m.Event:
    """An event with anything in it."""
    kind = draw(st.sampled_from(EVENTS))
    if kind is m.PlanSeen:
        return m.PlanSeen(draw(st.integers(0, 20)), draw(some_parts))
    event: m.Event = kind(draw(some_parts)) if attrs.fields(kind) else kind()
    return event


@given(st.lists(any_event(), max_size=60))
def test_any_history_keeps_the_invariants(history: list[m.Event]) -> None:
    """In whatever order: one start per ownership, no commit after a loss, nothing owned without right."""
    member = Member()
    running: set[TopicPartition] = set()
    for event in history:
        try:
            member, effects = step(member, event)
        except LookupError:
            continue
        for effect in effects:
            if isinstance(effect, m.Start):
                assert not effect.partitions & running
                assert effect.partitions <= member.owned
                running |= effect.partitions
            elif isinstance(effect, m.Lost):
                running -= effect.partitions
            elif isinstance(effect, m.Release):
                assert effect.commit == bool(effect.partitions & running)
                running -= effect.partitions
        assert member.handing | member.releasing <= member.owned
        assert not member.handing & member.releasing
        assert running <= member.owned
        if member.state in (State.JOINING, State.WAITING, State.FENCED, State.CLOSED):
            assert not member.owned
        if member.state is State.OWNING:
            assert member.settled
