"""The rules for topics: what is refused, and with which of Kafka's errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd import topic_rules
from brokerd.metadata import PartitionInfo, TopicInfo
from brokerd.topic_rules import UNSET, NewTopic
from kafka_wire import errors

ALIVE = {1, 2, 3}


def _new(wanted: NewTopic, existing: tuple[str, ...] = ()) -> NewTopic:
    return topic_rules.check_new_topic(wanted, existing, ALIVE, default_partitions=4, default_replication_factor=2)


def _topic(partitions: int, replicas: tuple[int, ...] = (1, 2)) -> TopicInfo:
    return TopicInfo(
        "t", bytes(16), tuple(PartitionInfo(index, 1, 0, replicas, replicas) for index in range(partitions))
    )


@pytest.mark.parametrize("name", ["", None, ".", "..", "a b", "a/b", "é", "x" * 250, "a\n", "a:b"])
def test_name_that_kafka_refuses_is_invalid(name: str | None) -> None:
    """A name that cannot be a topic's is refused as an invalid topic."""
    with pytest.raises(errors.InvalidTopic):
        topic_rules.check_name(name)


@given(st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", "..")))
def test_name_of_legal_characters_is_accepted(name: str) -> None:
    """Letters, digits, dots, underscores and dashes make a name, up to 249 of them."""
    assert topic_rules.check_name(name) == name


def test_existing_name_already_exists() -> None:
    """A second topic of the same name is refused."""
    with pytest.raises(errors.TopicAlreadyExists):
        topic_rules.check_new_name("a", ["a"])


def test_name_that_differs_in_dots_only_collides() -> None:
    """Metrics could not tell these two topics apart."""
    with pytest.raises(errors.InvalidTopic, match="a_b"):
        topic_rules.check_new_name("a.b", ["a_b"])
    assert topic_rules.check_new_name("ab", ["a_b"]) == "ab"


def test_repeated_names_are_found_once() -> None:
    """Only what comes twice is named."""
    assert topic_rules.repeated(["a", "b", "a", "a"]) == {"a"}


@pytest.mark.parametrize("count", [0, -2, topic_rules.MOST_PARTITIONS + 1])
def test_impossible_partition_count_is_invalid(count: int) -> None:
    """No topic has no partitions, or more than one ZooKeeper node can hold."""
    with pytest.raises(errors.InvalidPartitions):
        topic_rules.check_partitions(count)


@pytest.mark.parametrize("factor", [0, -3, 4])
def test_replication_factor_beyond_brokers_is_invalid(factor: int) -> None:
    """There cannot be more replicas than brokers."""
    with pytest.raises(errors.InvalidReplicationFactor):
        topic_rules.check_replication_factor(factor, ALIVE)


@pytest.mark.parametrize(
    "assignment",
    [{1: (1,)}, {0: (1,), 2: (1,)}, {0: ()}, {0: (1, 1)}, {0: (1, 9)}, {0: (1, 2), 1: (1,)}],
    ids=["not from 0", "gap", "empty", "twice", "unknown broker", "different factors"],
)
def test_bad_assignment_is_refused(assignment: dict[int, tuple[int, ...]]) -> None:
    """An assignment by hand must be whole, and of living brokers."""
    with pytest.raises(errors.InvalidReplicaAssignment):
        topic_rules.check_assignment(assignment, ALIVE)


def test_unset_numbers_become_defaults() -> None:
    """-1 means the broker's default."""
    made = _new(NewTopic("t", UNSET, UNSET, None, {}))

    assert (made.partitions, made.replication_factor) == (4, 2)


def test_assignment_gives_the_numbers() -> None:
    """With an assignment nothing else says how many partitions and replicas there are."""
    made = _new(NewTopic("t", UNSET, UNSET, {1: (2, 3), 0: (1, 2)}, {}))

    assert (made.partitions, made.replication_factor, made.assignment) == (2, 2, {0: (1, 2), 1: (2, 3)})


def test_assignment_beside_numbers_is_an_invalid_request() -> None:
    """Which of the two was meant is not guessed."""
    with pytest.raises(errors.InvalidRequest):
        _new(NewTopic("t", 1, UNSET, {0: (1,)}, {}))


@pytest.mark.parametrize("overrides", [{"retention.msx": "1"}, {"retention.ms": "soon"}, {"retention.ms": None}])
def test_bad_setting_is_an_invalid_config(overrides: dict[str, str | None]) -> None:
    """Unknown names, malformed values and nulls are refused."""
    with pytest.raises(errors.InvalidConfig, match="retention"):
        topic_rules.check_overrides(overrides)


@pytest.mark.parametrize("total", [3, 2, 0, topic_rules.MOST_PARTITIONS + 1])
def test_total_that_is_no_increase_is_refused(total: int) -> None:
    """Partitions can only become more."""
    with pytest.raises(errors.InvalidPartitions):
        topic_rules.check_increase(_topic(3), total, None, ALIVE)


@pytest.mark.parametrize("assignments", [[], [(1, 2)], [(1, 2), (1, 9)], [(1,), (2,)]])
def test_bad_assignment_of_new_partitions_is_refused(assignments: list[tuple[int, ...]]) -> None:
    """One assignment for each new partition, of living brokers, with the topic's replication factor."""
    with pytest.raises(errors.InvalidReplicaAssignment):
        topic_rules.check_increase(_topic(3), 5, assignments, ALIVE)


def test_increase_with_good_assignment_is_accepted() -> None:
    """Two more partitions with two replicas each."""
    topic_rules.check_increase(_topic(3), 5, [(1, 2), (2, 3)], ALIVE)
