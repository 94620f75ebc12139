"""Promises of the plan: same inputs, same shares; a new plan only for a reason."""

from __future__ import annotations

import attrs
import pytest

from consumer_group.planning import agreed_strategy, newest_first, next_plan, shares_of, subscribed_topics
from kafka_wire.ids import TopicPartition
from zk_schema.consumer_nodes import Plan, PlanTopic, Registration

LOGS = PlanTopic(b"l" * 16, 4)
AUDIT = PlanTopic(b"a" * 16, 2)


def member(*topics: str, strategy: str = "range", streams: int = 1, timestamp: int = 0) -> Registration:
    """A registration for these topics."""
    return Registration(tuple(topics), None, strategy, streams, timestamp)


def made(last: Plan | None, registrations: dict[str, Registration], known: dict[str, PlanTopic]) -> Plan:
    """A plan that must be new."""
    plan = next_plan("g", last, registrations, known)
    assert plan is not None
    return plan


def owners(plan: Plan) -> dict[TopicPartition, str]:
    """Who has what."""
    return {partition: name for name, share in shares_of(plan).items() for partition in share}


def test_B1_decoded_plan_gives_the_shares_of_the_original() -> None:
    """Every member computes from the node what the scribe computed."""
    plan = made(None, {"c": member("logs"), "d": member("logs", "audit")}, {"logs": LOGS, "audit": AUDIT})
    assert shares_of(Plan.decode("g", plan.encode())) == shares_of(plan)
    assert sum(map(len, shares_of(plan).values())) == 6


def test_same_members_and_topics_no_new_plan() -> None:
    """A notification that changes nothing moves nobody."""
    members = {"c": member("logs"), "d": member("logs")}
    plan = made(None, members, {"logs": LOGS})
    assert next_plan("g", plan, members, {"logs": LOGS, "other": AUDIT}) is None


@pytest.mark.parametrize(
    ("registrations", "known"),
    [
        ({"c": member("logs"), "d": member("logs")}, {"logs": LOGS}),
        ({"c": member("logs", "audit")}, {"logs": LOGS, "audit": AUDIT}),
        ({"c": member("logs")}, {"logs": attrs.evolve(LOGS, partitions=5)}),
        ({"c": member("logs")}, {"logs": attrs.evolve(LOGS, topic_id=b"n" * 16)}),
        ({"c": member("logs")}, {}),
        ({"c": member("logs", strategy="sticky")}, {"logs": LOGS}),
        ({"c": member("logs", streams=2)}, {"logs": LOGS}),
    ],
    ids=["member", "subscription", "grown", "re-created", "vanished", "strategy", "streams"],
)
def test_anything_changed_the_generation_grows(
    registrations: dict[str, Registration], known: dict[str, PlanTopic]
) -> None:
    """Members, subscriptions, streams, topics, their sizes and ids are what a plan is about."""
    plan = made(None, {"c": member("logs")}, {"logs": LOGS})
    assert made(plan, registrations, known).generation == plan.generation + 1


def test_pattern_matches_whole_names_and_no_internal_topic() -> None:
    """`.*` does not subscribe to Kafka's own topics, and `log` does not mean `logs`."""
    known = {"logs": LOGS, "logs2": LOGS, "__consumer_offsets": LOGS}
    assert subscribed_topics(Registration((), ".*", "range"), known) == ("logs", "logs2")
    assert subscribed_topics(Registration((), "logs", "range"), known) == ("logs",)


def test_topic_that_does_not_exist_is_waited_for() -> None:
    """A member may subscribe before the topic is there."""
    assert subscribed_topics(member("logs", "later"), {"logs": LOGS}) == ("logs",)


def test_B4_members_disagree_range_it_is() -> None:
    """Different or unknown strategies mean the paper's."""
    assert agreed_strategy({"c": member("t", strategy="sticky"), "d": member("t", strategy="sticky")}) == "sticky"
    assert agreed_strategy({"c": member("t", strategy="sticky"), "d": member("t")}) == "range"
    assert agreed_strategy({"c": member("t", strategy="mine"), "d": member("t", strategy="mine")}) == "range"


def test_B4_sticky_plan_carries_what_was_before() -> None:
    """A join under sticky moves the newcomer's share only, though the members have other indexes now."""
    sticky = member("logs", strategy="sticky")
    first = made(None, {"m": sticky, "n": sticky}, {"logs": LOGS})
    second = made(first, {"a": sticky, "m": sticky, "n": sticky}, {"logs": LOGS})
    before, after = owners(first), owners(second)
    assert [after[partition] for partition in after if after[partition] != before[partition]] == ["a"]


def test_sticky_topic_made_anew_counts_as_new() -> None:
    """Who read the old topic of that name has no claim on the new one."""
    sticky = member("logs", strategy="sticky")
    first = made(None, {"m": sticky}, {"logs": LOGS})
    assert made(first, {"m": sticky}, {"logs": attrs.evolve(LOGS, topic_id=b"n" * 16)}).previous == {}


def test_streams_count_one_by_one_in_algorithm_1() -> None:
    """A member with three streams takes three shares, and knows which stream has which partition (P10)."""
    plan = made(None, {"c": member("logs", streams=3), "d": member("logs")}, {"logs": LOGS})
    shares = shares_of(plan)
    assert len(shares["c"]) == 3
    assert sorted(shares["c"].values()) == [0, 1, 2]
    assert len(shares["d"]) == 1


def test_newest_members_are_refused_first() -> None:
    """When a plan grows too large those who were there keep their places."""
    assert newest_first({"a": member("t", timestamp=3), "b": member("t", timestamp=1)}) == ["a", "b"]
