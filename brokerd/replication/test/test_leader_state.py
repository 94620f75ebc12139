"""What a leader knows of its followers: rules R5, R11-R17, V2, A6, A16, A22."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.replication.leader_state import UNKNOWN, Heard, LeaderState
from kafka_wire import errors

LAG = 10.0
FIT = {1: 7, 2: 8, 3: 9}


def led(isr: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3), now: float = 0.0) -> LeaderState:
    """Broker 1 leads at epoch 4, from offset 50 on."""
    return LeaderState(1, 4, replicas, isr, 0, 50, now)


def heard(at: float, proven_at: float | None = None) -> Heard:
    """A loop that was heard of."""
    made = Heard()
    made.at, made.proven_at = at, at if proven_at is None else proven_at
    return made


def ask(state: LeaderState, broker: int, offset: int, end: int, now: float, epoch: int | None = None) -> None:
    """A fetch."""
    state.asked(broker, FIT[broker] if epoch is None else epoch, offset, end, now, heard(now))


# ---- V2


def test_high_watermark_waits_for_every_member_of_the_isr() -> None:
    state = led()
    assert state.high_watermark(100, 50, 1) == 50, "nobody has fetched yet"
    ask(state, 2, 80, 100, 0)
    assert state.high_watermark(100, 50, 1) == 50
    ask(state, 3, 70, 100, 0)
    assert state.high_watermark(100, 50, 1) == 70
    assert state.high_watermark(65, 50, 1) == 65, "our own end counts as well"


def test_high_watermark_never_goes_back() -> None:
    state = led()
    ask(state, 2, 60, 100, 0)
    ask(state, 3, 60, 100, 0)
    assert state.high_watermark(100, 90, 1) == 90


def test_high_watermark_stands_while_too_few_are_in_sync() -> None:
    """R6."""
    state = led(isr=(1,))
    assert state.high_watermark(100, 50, 2) == 50
    assert state.high_watermark(100, 50, 1) == 100


def test_A6_expansion_counts_when_sent_and_shrink_when_confirmed() -> None:
    state = led(isr=(1, 2))
    ask(state, 2, 90, 100, 0)
    ask(state, 3, 60, 100, 0)
    assert state.high_watermark(100, 50, 1) == 90
    state.send((1, 2, 3))
    assert state.maximal == (1, 2, 3)
    assert state.high_watermark(100, 50, 1) == 60
    state.settle((1, 2, 3), 1)
    state.give_up()
    state.send((1, 2))
    assert state.high_watermark(100, 50, 1) == 60, "a shrink that is not confirmed"
    state.settle((1, 2), 2)
    state.give_up()
    assert state.high_watermark(100, 50, 1) == 90


def test_change_that_failed_counts_no_more() -> None:
    state = led(isr=(1, 2))
    ask(state, 2, 90, 100, 0)
    state.send((1, 2, 3))
    assert state.high_watermark(100, 50, 1) == 50
    state.give_up()
    assert state.high_watermark(100, 50, 1) == 90


def test_old_version_of_the_isr_is_no_news() -> None:
    state = led()
    assert state.settle((1, 2), 3)
    assert not state.settle((1, 2, 3), 2)
    assert state.committed == (1, 2)


# ---- positions


def test_new_life_of_a_follower_has_an_unknown_position_until_it_asks() -> None:
    """A22: what the former one had is not counted on."""
    state = led(isr=(1, 2), replicas=(1, 2))
    ask(state, 2, 90, 100, 0, epoch=7)
    state.followers[2].forget_position()
    assert state.followers[2].end == UNKNOWN
    assert state.high_watermark(100, 50, 1) == 50


def test_former_life_of_a_follower_is_refused() -> None:
    state = led()
    ask(state, 2, 90, 100, 0, epoch=9)
    with pytest.raises(errors.StaleBrokerEpoch):
        ask(state, 2, 95, 100, 0, epoch=8)


def test_broker_that_is_no_replica_is_told_to_wait() -> None:
    """R29: it may know of an assignment that we do not know yet."""
    with pytest.raises(errors.UnknownLeaderEpoch):
        led(replicas=(1, 2)).asked(3, 9, 0, 100, 0.0, heard(0))


# ---- the ISR


def wish(state: LeaderState, now: float, end: int = 100, mark: int = 50, fit: dict[int, int] | None = None) -> object:
    """What the ISR should be."""
    return state.wish(mark, end, now, LAG, FIT if fit is None else fit)


def test_member_has_the_whole_lag_time_to_show_up() -> None:
    """R16."""
    state = led(now=5.0)
    assert wish(state, 15.0) is None
    assert wish(state, 15.1) == (1,)


def test_follower_under_steady_load_stays_in_though_it_is_never_at_the_end() -> None:
    """R13: each fetch is at the end that the leader had at the fetch before."""
    state = led(replicas=(1, 2), isr=(1, 2))
    for number in range(1, 50):
        ask(state, 2, 100 * number, 100 * (number + 1), float(number))
        assert wish(state, float(number), end=100 * (number + 1)) is None


def test_follower_that_falls_behind_leaves_after_the_lag_time() -> None:
    state = led(replicas=(1, 2), isr=(1, 2))
    ask(state, 2, 100, 100, 1.0)
    for number in range(2, 30):
        ask(state, 2, 100 + number, 200 + 100 * number, float(number))
    assert wish(state, 10.9, end=5000) is None
    assert wish(state, 12.1, end=5000) == (1,)


def test_idle_partition_keeps_its_followers_and_their_requests_count_when_it_grows() -> None:
    """KIP-227: requests that do not name it speak for it all the same."""
    state = led(replicas=(1, 2), isr=(1, 2))
    loop = heard(0)
    state.asked(2, 7, 100, 100, 0.0, loop)
    loop.at = 3600.0
    assert wish(state, 3600.0) is None
    state.grows_from(100)
    assert wish(state, 3605.0, end=200) is None
    assert wish(state, 3611.0, end=200) == (1,)


def test_unregistered_or_draining_member_leaves_at_once() -> None:
    """A4."""
    state = led()
    assert wish(state, 0.0, fit={1: 7, 3: 9}) == (1, 3)


def test_leader_never_leaves() -> None:
    assert wish(led(), 100.0, fit={}) == (1,)


def test_follower_joins_when_it_has_what_is_committed_and_all_of_the_former_epochs() -> None:
    """R15."""
    state = led(isr=(1,), replicas=(1, 2))
    ask(state, 2, 49, 49, 0.0, epoch=8)
    assert wish(state, 0.0, end=100, mark=40) is None, "below the start of the epoch"
    ask(state, 2, 90, 90, 1.0, epoch=8)
    assert wish(state, 1.0, end=100, mark=95) is None, "below the high watermark"
    assert wish(state, 1.0, end=100, mark=90) == (1, 2)


def test_former_life_does_not_join() -> None:
    """A3, A22: its registration must be the one that fetched."""
    state = led(isr=(1,), replicas=(1, 2))
    ask(state, 2, 100, 100, 0.0, epoch=5)
    assert wish(state, 0.0) is None


def test_follower_about_to_join_holds_the_high_watermark_back() -> None:
    """R5: under load it would run after it for ever."""
    state = led(isr=(1,), replicas=(1, 2))
    ask(state, 2, 100, 100, 0.0, epoch=8)
    state.look_at(state.followers[2], 100, 0.0, LAG, FIT)
    assert state.high_watermark(200, 50, 1) == 100
    state.look_at(state.followers[2], 200, 60.0, LAG, FIT)
    assert state.high_watermark(200, 50, 1) == 200, "it was left behind"


def test_one_change_at_a_time() -> None:
    """R17."""
    state = led()
    state.send((1, 2))
    assert wish(state, 100.0) is None


# ---- A16


def test_gate_is_open_while_every_member_is_surely_following() -> None:
    state = led()
    state.asked(2, 8, 60, 100, 10.0, heard(10.0, 9.5))
    assert not state.may_write(10.0, 1.0), "one has not been heard of"
    state.asked(3, 9, 60, 100, 10.0, heard(10.0, 9.2))
    assert state.may_write(10.1, 1.0)
    assert not state.may_write(10.3, 1.0)


def test_buffered_request_proves_nothing() -> None:
    """A15: it was read now, but it may have been sent before this process fell asleep."""
    state = led(isr=(1, 2))
    state.asked(2, 8, 60, 100, 100.0, heard(100.0, 3.0))
    assert not state.may_write(100.0, 1.0)


def test_follower_that_left_the_loop_proves_nothing() -> None:
    """It may be leader by now."""
    state = led(isr=(1, 2))
    loop = heard(10.0)
    state.asked(2, 8, 60, 100, 10.0, loop)
    assert state.may_write(10.0, 1.0)
    state.left(2, loop)
    assert not state.may_write(10.0, 1.0)


@given(
    st.lists(st.tuples(st.sampled_from([2, 3]), st.integers(0, 200)), max_size=30),
    st.lists(st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3)]), min_size=1, max_size=4),
)
def test_high_watermark_is_never_above_what_a_counted_replica_has(
    asks: list[tuple[int, int]], isrs: list[tuple[int, ...]]
) -> None:
    """V2 over random positions and ISRs, one of them on its way."""
    state = led(isr=isrs[0])
    for version, isr in enumerate(isrs[1:], start=1):
        state.settle(isr, version)
    state.send(isrs[-1])
    ends = {2: UNKNOWN, 3: UNKNOWN}
    mark = 0
    for number, (broker, offset) in enumerate(asks):
        ask(state, broker, offset, 200, float(number))
        ends[broker] = offset
        after = state.high_watermark(150, mark, 1)
        assert after >= mark
        if after > mark:
            assert after <= min([150, *(ends[one] for one in state.maximal if one != 1)])
        mark = after
