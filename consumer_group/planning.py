"""The plan of a group: made from what is registered, and read as everybody's share. Pure (B1, B2, B4).

The scribe calls `next_plan`; every member calls `shares_of`, and all come to the same result: a plan holds all inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs

from consumer_group.assignment import RANGE, STRATEGIES
from kafka_wire.ids import TopicPartition
from zk_schema.consumer_nodes import Plan, PlanMember, PlanTopic, Registration

MAX_PLAN_BYTES = 400 * 1024
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

Shares = Mapping[str, Mapping[TopicPartition, int]]
"""Member -> its partitions, each with the stream that reads it."""


def thread_id(consumer_id: str, stream: int) -> str:
    """The name of a stream in owner nodes and in Algorithm 1, as in Kafka 0.8."""
    return f"{consumer_id}-{stream}"


def threads_of(plan: Plan) -> list[tuple[str, int]]:
    """(member, stream) in the order that `previous` counts them."""
    return [(member.consumer_id, stream) for member in plan.members for stream in range(member.streams)]


def shares_of(plan: Plan) -> Shares:
    """Everybody's share: the same for all who read the same plan."""
    threads = threads_of(plan)
    names = {thread_id(*thread): thread for thread in threads}
    wanted = {member.consumer_id: plan.subscriptions[member.subscription] for member in plan.members}
    previous = {
        TopicPartition(topic, index): thread_id(*threads[had])
        for topic, partitions in plan.previous.items()
        for index, had in enumerate(partitions)
        if 0 <= had < len(threads)
    }
    assign = STRATEGIES.get(plan.strategy, STRATEGIES[RANGE])
    assigned = assign(
        {name: wanted[member] for name, (member, _) in names.items()},
        {topic: one.partitions for topic, one in plan.topics.items()},
        previous,
    )
    shares: dict[str, dict[TopicPartition, int]] = {member.consumer_id: {} for member in plan.members}
    for name, partitions in assigned.items():
        member, stream = names[name]
        shares[member].update(dict.fromkeys(partitions, stream))
    return shares


def subscribed_topics(registration: Registration, known: Mapping[str, PlanTopic]) -> tuple[str, ...]:
    """The existing topics that a member wants. A pattern matches whole names and never Kafka's internal topics."""
    if registration.pattern is None:
        return tuple(sorted(topic for topic in registration.topics if topic in known))
    return matching_topics(registration.pattern, known)


def matching_topics(pattern: str, known: Iterable[str]) -> tuple[str, ...]:
    """The topics whose whole name a pattern matches, Kafka's internal ones never."""
    compiled = re.compile(pattern)
    return tuple(sorted(topic for topic in known if topic not in INTERNAL_TOPICS and compiled.fullmatch(topic)))


def agreed_strategy(registrations: Mapping[str, Registration]) -> str:
    """The strategy that all name; range, the paper's, where they differ or name an unknown one (B4)."""
    named = {registration.strategy for registration in registrations.values()}
    only = named.pop() if len(named) == 1 else RANGE
    return only if only in STRATEGIES else RANGE


def next_plan(
    group_id: str, last: Plan | None, registrations: Mapping[str, Registration], known: Mapping[str, PlanTopic]
) -> Plan | None:
    """The plan for these members and topics; None if the last one says the same already.

    A topic that was re-created has another id, and that alone makes a new plan.
    """
    wanted = {member: subscribed_topics(one, known) for member, one in registrations.items()}
    subscriptions = tuple(sorted(set(wanted.values())))
    members = tuple(
        PlanMember(member, subscriptions.index(wanted[member]), registrations[member].streams)
        for member in sorted(registrations)
    )
    read = sorted({topic for topics in wanted.values() for topic in topics})
    topics = {topic: known[topic] for topic in read}
    generation = 1 if last is None else last.generation + 1
    plan = Plan(group_id, generation, members, subscriptions, topics, agreed_strategy(registrations))
    if last is not None and _inputs(plan) == _inputs(last):
        return None
    return attrs.evolve(plan, previous=_previous(last, plan))


def newest_first(registrations: Mapping[str, Registration]) -> list[str]:
    """The order in which members are refused when a plan grows too large (B4)."""
    return sorted(registrations, key=lambda member: (-registrations[member].timestamp_ms, member))


def _inputs(plan: Plan) -> tuple[object, ...]:
    return plan.members, plan.subscriptions, dict(plan.topics), plan.strategy


def _previous(last: Plan | None, plan: Plan) -> dict[str, tuple[int, ...]]:
    """The last plan's result in terms of the new plan's members: only what sticky needs, so nothing for the others."""
    if last is None or plan.strategy != "sticky":
        return {}
    places = {thread: index for index, thread in enumerate(threads_of(plan))}
    had = {
        partition: places.get((member, stream), -1)
        for member, share in shares_of(last).items()
        for partition, stream in share.items()
    }
    previous: dict[str, tuple[int, ...]] = {}
    for topic, one in plan.topics.items():
        before = last.topics.get(topic)
        if before is not None and before.topic_id == one.topic_id:
            previous[topic] = tuple(had.get(TopicPartition(topic, index), -1) for index in range(one.partitions))
    return previous
