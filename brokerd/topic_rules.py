"""What a topic may be called, how many partitions and which replicas it may have, and which settings it may carry.

Pure: every rule gets what it judges and raises the `KafkaError` that Kafka itself answers in that case, so that the
tools and clients written for Kafka tell their users the right thing. The rules read the cluster from a
`ClusterView` and change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from brokerd import topic_config
from brokerd.config_keys import ConfigError
from brokerd.metadata import TopicInfo
from kafka_wire import errors

LONGEST_NAME = 249
"""A directory is called `<topic>-<partition>`, while it is being deleted with a suffix more, and file names end at
255 bytes.
"""

MOST_PARTITIONS = 10_000
"""In one request: the whole assignment of a topic is one ZooKeeper node, which must stay well below 1 MiB (F5)."""

UNSET = -1
"""The number that means: the broker's default."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


@attrs.frozen
class NewTopic:
    """A topic that may be created: every default is filled in."""

    name: str
    partitions: int
    replication_factor: int
    assignment: Mapping[int, Sequence[int]] | None
    overrides: Mapping[str, str]


# ---- names


def check_name(name: str | None) -> str:
    """The name, if a topic may have it."""
    if not name:
        raise errors.InvalidTopic("Topic name is invalid: it is empty")
    if name in (".", ".."):
        raise errors.InvalidTopic(f"Topic name is invalid: {name!r} is not allowed")
    if len(name) > LONGEST_NAME:
        raise errors.InvalidTopic(f"Topic name is invalid: its {len(name)} characters are more than {LONGEST_NAME}")
    if not _LEGAL.match(name):
        raise errors.InvalidTopic(
            f"Topic name is invalid: {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
        )
    return name


def check_new_name(name: str | None, existing: Collection[str]) -> str:
    """The name, if a new topic may have it: metric names fold '.' and '_' together, so two topics may not differ in
    these alone.
    """
    legal = check_name(name)
    if legal in existing:
        raise errors.TopicAlreadyExists(f"Topic '{legal}' already exists.")
    if "." in legal or "_" in legal:
        folded = legal.replace(".", "_")
        rivals = sorted(other for other in existing if other.replace(".", "_") == folded)
        if rivals:
            raise errors.InvalidTopic(f"Topic '{legal}' collides with existing topics: {', '.join(rivals)}")
    return legal


def repeated(names: Iterable[object]) -> set[object]:
    """Those that come more than once; which of the entries was meant is not for us to guess."""
    seen: set[object] = set()
    twice: set[object] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice


# ---- partitions and replicas


def check_partitions(count: int) -> int:
    """The number of partitions of a new topic."""
    if count <= 0:
        raise errors.InvalidPartitions("Number of partitions must be larger than 0.")
    if count > MOST_PARTITIONS:
        raise errors.InvalidPartitions(
            f"{count} partitions are more than the {MOST_PARTITIONS} that one request may ask for."
        )
    return count


def check_replication_factor(factor: int, alive: Collection[int]) -> int:
    """The number of replicas: no two on one broker, and only registered brokers are given any."""
    if factor <= 0:
        raise errors.InvalidReplicationFactor("Replication factor must be larger than 0.")
    if factor > len(alive):
        raise errors.InvalidReplicationFactor(
            f"Replication factor: {factor} larger than available brokers: {len(alive)}."
        )
    return factor


def check_assignment(
    assignment: Mapping[int, Sequence[int]], alive: Collection[int], first: int = 0
) -> Mapping[int, tuple[int, ...]]:
    """An assignment by hand: partitions `first`, `first` + 1, ... without a gap, each with the same number of
    different registered brokers.
    """
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise errors.InvalidReplicaAssignment(
            f"The partitions of an assignment must be consecutive numbers from {first}."
        )
    if len(assignment) > MOST_PARTITIONS:
        raise errors.InvalidPartitions(
            f"{len(assignment)} partitions are more than the {MOST_PARTITIONS} that one request may ask for."
        )
    if len({len(replicas) for replicas in assignment.values()}) > 1:
        raise errors.InvalidReplicaAssignment("All partitions of a topic must have the same number of replicas.")
    for partition, replicas in sorted(assignment.items()):
        if not replicas:
            raise errors.InvalidReplicaAssignment(f"Partition {partition} has no replicas.")
        if len(set(replicas)) != len(replicas):
            raise errors.InvalidReplicaAssignment(
                f"Partition {partition} has a broker more than once: {list(replicas)}."
            )
        unknown = sorted(set(replicas) - set(alive))
        if unknown:
            raise errors.InvalidReplicaAssignment(f"Partition {partition} is assigned to unknown brokers: {unknown}.")
    return {partition: tuple(replicas) for partition, replicas in assignment.items()}


def check_increase(
    topic: TopicInfo, total: int, assignments: Sequence[Sequence[int]] | None, alive: Collection[int]
) -> None:
    """More partitions for a topic; partitions never go away, keys would move without a trace."""
    now = len(topic.partitions)
    if total == now:
        raise errors.InvalidPartitions(f"Topic already has {now} partition(s).")
    if total < now:
        raise errors.InvalidPartitions(
            f"The topic {topic.name} currently has {now} partition(s); {total} would not be an increase."
        )
    if total > MOST_PARTITIONS:
        raise errors.InvalidPartitions(f"{total} partitions are more than the {MOST_PARTITIONS} that a topic may have.")
    factor = len(topic.partitions[0].replicas) if topic.partitions else 1
    if assignments is None:
        check_replication_factor(factor, alive)
        return
    if len(assignments) != total - now:
        raise errors.InvalidReplicaAssignment(
            f"Increasing by {total - now} partition(s) but {len(assignments)} assignment(s) provided."
        )
    check_assignment(dict(enumerate(assignments, now)), alive, now)
    if len(assignments[0]) != factor:
        raise errors.InvalidReplicaAssignment(
            f"The topic has replication factor {factor}, the new partitions have {len(assignments[0])}."
        )


# ---- settings


def check_overrides(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """The settings of a topic, if each is known and has a legal value."""
    given: dict[str, str] = {}
    for name, value in overrides.items():
        if value is None:
            raise errors.InvalidConfig(f"Null value not supported for topic configs: {name}")
        given[name] = value
    try:
        topic_config.validate(given)
    except ConfigError as problem:
        raise errors.InvalidConfig(str(problem)) from problem
    return given


# ---- a new topic


def check_new_topic(
    wanted: NewTopic,
    existing: Collection[str],
    alive: Collection[int],
    *,
    default_partitions: int,
    default_replication_factor: int,
) -> NewTopic:
    """What is to be created, with the broker's defaults filled in; `UNSET` numbers mean these defaults, or that the
    assignment tells them.
    """
    name = check_new_name(wanted.name, existing)
    overrides = check_overrides(wanted.overrides)
    if wanted.assignment:
        if wanted.partitions != UNSET or wanted.replication_factor != UNSET:
            raise errors.InvalidRequest(
                "Both an assignment and a number of partitions or a replication factor were given; only one may be."
            )
        assignment = check_assignment(wanted.assignment, alive)
        return NewTopic(name, len(assignment), len(assignment[0]), assignment, overrides)
    partitions = default_partitions if wanted.partitions == UNSET else wanted.partitions
    factor = default_replication_factor if wanted.replication_factor == UNSET else wanted.replication_factor
    return NewTopic(name, check_partitions(partitions), check_replication_factor(factor, alive), None, overrides)
