"""Quantiles out of buckets."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from brokerd.durations import WINDOW_SECONDS, Durations, bucket_middle, bucket_of

MICROSECONDS = st.integers(0, 10**9)


@given(MICROSECONDS)
def test_any_duration_lies_near_the_middle_of_its_bucket(microseconds: int) -> None:
    assert abs(bucket_middle(bucket_of(microseconds)) - microseconds) <= microseconds * 0.13


@given(MICROSECONDS, MICROSECONDS)
def test_longer_durations_are_never_in_a_lower_bucket(one: int, other: int) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


def test_a_clock_set_back_counts_as_no_time() -> None:
    assert bucket_of(-5) == 0


def test_years_fit_in_the_last_bucket() -> None:
    durations = Durations()
    durations.add(1e9)
    assert durations.quantiles([1.0])[0] > 1e5


@given(st.lists(MICROSECONDS, min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_the_value_at_that_rank(values: list[int], share: float) -> None:
    durations = Durations()
    for value in values:
        durations.add(value / 1e6)
    exact = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
    assert abs(durations.quantiles([share])[0] * 1e6 - exact) <= exact * 0.13 + 1


def test_nothing_measured_gives_nan() -> None:
    assert all(math.isnan(value) for value in Durations().quantiles([0.5, 0.99]))


def test_quantiles_forget_after_two_windows_and_totals_do_not() -> None:
    durations = Durations()
    durations.turn_window(100.0)
    durations.add(1.0)
    durations.turn_window(100.0 + WINDOW_SECONDS - 1)
    durations.turn_window(100.0 + WINDOW_SECONDS)
    assert durations.quantiles([0.5])[0] > 0.8
    durations.turn_window(100.0 + 2 * WINDOW_SECONDS)
    assert math.isnan(durations.quantiles([0.5])[0])
    assert (durations.count, durations.seconds) == (1, 1.0)
