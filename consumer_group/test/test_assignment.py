"""Promises of every assignment, and of each one."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer_group import assignment
from consumer_group.assignment import STRATEGIES, Assignment, assign_range, assign_sticky, range_share
from kafka_wire.ids import TopicPartition

TOPICS = ["alpha", "beta", "gamma"]
sizes_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12))
consumers = st.lists(st.sampled_from([f"C{n}-0" for n in range(12)]), unique=True, min_size=1)
mixed = st.dictionaries(
    st.sampled_from([f"C{n}-0" for n in range(8)]), st.frozensets(st.sampled_from(TOPICS)), min_size=1
)
every_strategy = pytest.mark.parametrize("strategy", sorted(STRATEGIES))


def owners(assigned: Assignment) -> dict[TopicPartition, str]:
    """The assignment the other way round."""
    return {partition: consumer for consumer, share in assigned.items() for partition in share}


def test_examples_of_the_docstrings_hold() -> None:
    """The paper's worked example and the others are true."""
    assert doctest.testmod(assignment).failed == 0
    assert doctest.testmod(assignment).attempted > 5


@every_strategy
@given(subscriptions=mixed, sizes=sizes_of_topics)
def test_any_subscriptions_every_read_partition_has_one_reader(
    strategy: str, subscriptions: dict[str, frozenset[str]], sizes: dict[str, int]
) -> None:
    """Complete and disjoint, and nobody gets a topic without subscribing to it."""
    assigned = STRATEGIES[strategy](subscriptions, sizes, {})
    given_out = [partition for share in assigned.values() for partition in share]
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(given_out) == sorted(
        TopicPartition(topic, index) for topic in sizes if topic in wanted for index in range(sizes[topic])
    )
    assert set(assigned) == set(subscriptions)
    for consumer, share in assigned.items():
        assert {partition.topic for partition in share} <= set(subscriptions[consumer])


@every_strategy
@given(subscriptions=mixed, sizes=sizes_of_topics, order=st.randoms())
def test_inputs_in_another_order_same_result(
    strategy: str, subscriptions: dict[str, frozenset[str]], sizes: dict[str, int], order: object
) -> None:
    """Members that read the registries in different orders agree."""
    shuffle = order.shuffle  # type: ignore[attr-defined]
    pairs, topics = list(subscriptions.items()), list(sizes.items())
    shuffle(pairs), shuffle(topics)
    assign = STRATEGIES[strategy]
    previous = owners(assign_range(subscriptions, sizes, {}))
    assert assign(dict(pairs), dict(topics), previous) == assign(subscriptions, sizes, previous)


@every_strategy
@given(names=consumers, size=st.integers(0, 40))
def test_one_topic_shares_differ_by_at_most_one(strategy: str, names: list[str], size: int) -> None:
    """Nobody has two partitions more than another."""
    loads = [len(share) for share in STRATEGIES[strategy](dict.fromkeys(names, ("t",)), {"t": size}, {}).values()]
    assert max(loads) - min(loads) <= 1


@given(names=consumers, sizes=sizes_of_topics)
def test_round_robin_and_sticky_even_over_all_topics(names: list[str], sizes: dict[str, int]) -> None:
    """What range cannot do (W19): even over several topics, where all subscribe alike."""
    for strategy in ("roundrobin", "sticky"):
        loads = [len(share) for share in STRATEGIES[strategy](dict.fromkeys(names, TOPICS), sizes, {}).values()]
        assert max(loads) - min(loads) <= 1


@given(consumers_count=st.integers(1, 30), partitions=st.integers(0, 100))
def test_range_shares_are_contiguous_and_first_ones_larger(consumers_count: int, partitions: int) -> None:
    """The remainder goes to the first, and the ranges follow each other."""
    shares = [range_share(partitions, consumers_count, position) for position in range(consumers_count)]
    assert [index for share in shares for index in share] == list(range(partitions))
    assert [len(share) for share in shares] == sorted((len(share) for share in shares), reverse=True)


@given(subscriptions=mixed, sizes=sizes_of_topics, previous=st.data())
def test_sticky_any_history_no_partition_could_move_to_better_balance(
    subscriptions: dict[str, frozenset[str]], sizes: dict[str, int], previous: st.DataObject
) -> None:
    """Whatever was before (consumers that are gone too), no single move would even it out further."""
    partitions = [TopicPartition(topic, index) for topic in sizes for index in range(sizes[topic])]
    names = st.sampled_from([*sorted(subscriptions), "gone-0"])
    had = {partition: previous.draw(names) for partition in partitions}
    assigned = assign_sticky(subscriptions, sizes, had)
    for giver, share in assigned.items():
        for partition in share:
            for taker, topics in subscriptions.items():
                if partition.topic in topics:
                    assert len(share) - len(assigned[taker]) <= 1, (giver, taker)


@given(names=consumers, size=st.integers(0, 60))
def test_sticky_member_joins_only_its_share_moves(names: list[str], size: int) -> None:
    """A join takes the newcomer's share from the others and moves nothing else."""
    before = owners(assign_sticky(dict.fromkeys(names, ("t",)), {"t": size}, {}))
    after = assign_sticky(dict.fromkeys([*names, "new-0"], ("t",)), {"t": size}, before)
    moved = [partition for partition, consumer in owners(after).items() if before[partition] != consumer]
    assert sorted(moved) == list(after["new-0"])
    assert len(moved) <= -(-size // (len(names) + 1))


@given(names=consumers.filter(lambda names: len(names) > 1), size=st.integers(0, 60))
def test_sticky_member_leaves_only_its_share_moves(names: list[str], size: int) -> None:
    """A leave spreads the share of the one that left and moves nothing else."""
    first = assign_sticky(dict.fromkeys(names, ("t",)), {"t": size}, {})
    before, gone = owners(first), names[0]
    after = owners(assign_sticky(dict.fromkeys(names[1:], ("t",)), {"t": size}, before))
    assert {partition for partition in after if after[partition] != before[partition]} == set(first[gone])


@given(subscriptions=mixed, sizes=sizes_of_topics)
def test_sticky_nothing_changed_nothing_moves(subscriptions: dict[str, frozenset[str]], sizes: dict[str, int]) -> None:
    """Computing again from the last result gives it back."""
    once = assign_sticky(subscriptions, sizes, {})
    assert assign_sticky(subscriptions, sizes, owners(once)) == once
