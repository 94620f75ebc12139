"""Replicas of new partitions: spread evenly, racks kept apart."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.placement import place

racked = st.dictionaries(st.integers(0, 50), st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9)


@given(racked, st.integers(1, 40), st.integers(1, 9), st.integers(0, 100))
def test_every_partition_gets_different_brokers_and_leaders_are_even(
    brokers: dict[int, str | None], partitions: int, factor: int, start: int
) -> None:
    """No broker leads more than one partition more than another."""
    factor = min(factor, len(brokers))

    placed = place(brokers, range(partitions), factor, start)

    assert sorted(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)
    leaders = Counter(dict.fromkeys(brokers, 0))
    leaders.update(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_racks_are_used_before_any_is_used_twice() -> None:
    """Three replicas over three racks are on three racks."""
    brokers: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}

    for replicas in place(brokers, range(20), 3, 0).values():
        assert {brokers[one] for one in replicas} == {"a", "b", "c"}


def test_followers_of_one_leader_are_spread() -> None:
    """When a broker dies its load falls on all others, not on its neighbour."""
    placed = place(dict.fromkeys(range(4)), range(24), 2, 0)

    followers = {replicas[1] for replicas in placed.values() if replicas[0] == 0}
    assert followers == {1, 2, 3}


def test_many_small_topics_are_spread_as_one_large_one() -> None:
    """The ring begins where the last topic ended."""
    leaders = [place({1: None, 2: None, 3: None}, [0], 1, start)[0][0] for start in range(6)]

    assert leaders == [1, 2, 3, 1, 2, 3]
