"""Every ZooKeeper path of the project, built here and nowhere else.

The layout is Kafka's (0.8 to 3.9) wherever Kafka has a path; what is ours lives under /barnabas, which Kafka ignores.
"""

from __future__ import annotations

import re

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
CONFIG_CHANGES = "/config/changes"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONSUMERS = "/consumers"
INCARNATIONS = "/barnabas/brokers"
CHANGES = "/barnabas/changes"
DELETED = "/barnabas/deleted"
LEASE = "/barnabas/lease"

CONFIG_CHANGE_PREFIX = CONFIG_CHANGES + "/config_change_"
CHANGE_PREFIX = CHANGES + "/c-"

FIXED_PARENTS = (
    "/brokers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    "/cluster",
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    "/config/clients",
    "/config/users",
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    "/isr_change_notification",
    "/log_dir_event_notification",
    CONSUMERS,
    "/barnabas",
    INCARNATIONS,
    CHANGES,
    DELETED,
    LEASE,
)
"""Persistent nodes that every broker makes sure of at its start; parents stand before their children."""


def broker(broker_id: int) -> str:
    """Registration of a live broker (ephemeral)."""
    return f"{BROKER_IDS}/{broker_id}"


def incarnation(broker_id: int) -> str:
    """The persistent node whose version is the broker's epoch."""
    return f"{INCARNATIONS}/{broker_id}"


def topic(name: str) -> str:
    """Id and assignment of a topic."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Parent of a topic's partitions (no data)."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """Parent of one partition's state (no data)."""
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    """Leader, epochs and ISR of one partition."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def topic_config(name: str) -> str:
    """Overrides of a topic's settings."""
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(name: str) -> str:
    """Dynamic settings of one broker, or of all (`<default>`)."""
    return f"{BROKER_CONFIGS}/{name}"


def delete_topic(name: str) -> str:
    """A wish, written by tools of the ZooKeeper age, that a topic be deleted."""
    return f"{DELETE_TOPICS}/{name}"


def tombstone(topic_id_text: str) -> str:
    """Says that the topic of this id is dead: the only reason to delete its data (A29)."""
    return f"{DELETED}/{topic_id_text}"


def escape_group(group: str) -> str:
    """A group's name as one path element: percent-encoded outside [A-Za-z0-9._-], and so are "." and ".."."""
    if group in (".", ".."):
        return "%2E" * len(group)
    return re.sub(rb"[^A-Za-z0-9._-]", lambda match: b"%%%02X" % match.group()[0], group.encode()).decode("ascii")


def group(name: str) -> str:
    """Root of one consumer group's registries."""
    return f"{CONSUMERS}/{escape_group(name)}"


def group_ids(name: str) -> str:
    """Parent of the group's live members."""
    return f"{group(name)}/ids"


def group_member(name: str, member: str) -> str:
    """Registration of one member."""
    return f"{group_ids(name)}/{member}"


def group_owners(name: str, topic_name: str) -> str:
    """Parent of the owners of one topic's partitions."""
    return f"{group(name)}/owners/{topic_name}"


def group_owner(name: str, topic_name: str, index: int) -> str:
    """Owner of one partition in the group."""
    return f"{group_owners(name, topic_name)}/{index}"


def group_offsets(name: str, topic_name: str) -> str:
    """Parent of a topic's offsets; its data is the topic's id."""
    return f"{group(name)}/offsets/{topic_name}"


def group_offset(name: str, topic_name: str, index: int) -> str:
    """Next offset to read, as decimal text."""
    return f"{group_offsets(name, topic_name)}/{index}"


def group_offset_meta(name: str, topic_name: str, index: int) -> str:
    """Leader epoch and metadata of a commit, where there are any."""
    return f"{group(name)}/offset_meta/{topic_name}/{index}"


def group_plan(name: str) -> str:
    """The inputs from which every member computes its share (B1)."""
    return f"{group(name)}/plan"


def group_state(name: str) -> str:
    """The truth of a group that uses the JoinGroup protocol (K3)."""
    return f"{group(name)}/group"


def sequence_number(path: str) -> int:
    """Number of a sequential node."""
    return int(path[-10:])
