"""A topic's settings: the broker's defaults with the topic's own values over them.

The same rules as for a broker's settings: one table, unknown names refused with the nearest one, a value that never
changes. What is stored in ZooKeeper are the overrides, as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import attrs

from brokerd.config import BrokerConfig, nearest
from brokerd.config_keys import (
    CLEANUP,
    COMPRESSION,
    DURABILITY,
    INT_MAX,
    LONG_MAX,
    TIMESTAMP_TYPE,
    ConfigError,
    Key,
    between,
)

_natural = between(0)
_positive = between(1)
_unlimited = between(-1)
_MAX = str(LONG_MAX)

_TABLE = (
    Key(
        "retention.ms",
        "long",
        "604800000",
        "Age at which records go; -1 keeps them.",
        _unlimited,
        True,
        "log.retention.ms",
    ),
    Key(
        "retention.bytes",
        "long",
        "-1",
        "Size of a partition above which old segments go; -1: no limit.",
        _unlimited,
        True,
        "log.retention.bytes",
    ),
    Key(
        "segment.bytes", "int", "1073741824", "Size of a segment file.", between(14, INT_MAX), True, "log.segment.bytes"
    ),
    Key("segment.ms", "long", "604800000", "Age at which a segment is closed.", _positive, True, "log.roll.ms"),
    Key(
        "segment.index.bytes", "int", "10485760", "Size of an index file.", between(4), True, "log.index.size.max.bytes"
    ),
    Key(
        "index.interval.bytes",
        "int",
        "4096",
        "Bytes between two index entries.",
        _natural,
        True,
        "log.index.interval.bytes",
    ),
    Key(
        "flush.messages", "long", _MAX, "Records after which to flush.", _positive, True, "log.flush.interval.messages"
    ),
    Key("flush.ms", "long", _MAX, "Time after which to flush.", _natural, True, "log.flush.interval.ms"),
    Key("max.message.bytes", "int", "1048588", "Largest batch.", _natural, True, "message.max.bytes"),
    Key(
        "min.insync.replicas",
        "int",
        "1",
        "In-sync replicas below which acks=all is refused.",
        _positive,
        True,
        "min.insync.replicas",
    ),
    Key("cleanup.policy", "list", "delete", "What happens to old records.", CLEANUP, True, "log.cleanup.policy"),
    Key(
        "compression.type",
        "string",
        "producer",
        "Compression of stored batches.",
        COMPRESSION,
        True,
        "compression.type",
    ),
    Key(
        "message.timestamp.type",
        "string",
        "CreateTime",
        "Whose clock the records carry.",
        TIMESTAMP_TYPE,
        True,
        "log.message.timestamp.type",
    ),
    Key(
        "message.timestamp.before.max.ms",
        "long",
        _MAX,
        "How far a timestamp may lie in the past.",
        _natural,
        True,
        "log.message.timestamp.before.max.ms",
    ),
    Key(
        "message.timestamp.after.max.ms",
        "long",
        _MAX,
        "How far a timestamp may lie in the future.",
        _natural,
        True,
        "log.message.timestamp.after.max.ms",
    ),
    Key(
        "unclean.leader.election.enable",
        "boolean",
        "false",
        "Lets a replica outside the ISR lead.",
        None,
        True,
        "unclean.leader.election.enable",
    ),
    Key(
        "file.delete.delay.ms",
        "long",
        "60000",
        "Time between dropping a file and removing it.",
        _natural,
        True,
        "log.segment.delete.delay.ms",
    ),
    Key(
        "preallocate",
        "boolean",
        "false",
        "Allocates a segment's blocks when it is created.",
        None,
        True,
        "log.preallocate",
    ),
    Key(
        "delete.retention.ms",
        "long",
        "86400000",
        "How long compaction keeps deletion markers.",
        _natural,
        True,
        "log.cleaner.delete.retention.ms",
    ),
    Key(
        "min.cleanable.dirty.ratio",
        "double",
        "0.5",
        "Share of dirty bytes at which a log is compacted.",
        between(0, 1),
        True,
        "log.cleaner.min.cleanable.ratio",
    ),
    Key(
        "min.compaction.lag.ms",
        "long",
        "0",
        "Age below which records are not compacted.",
        _natural,
        True,
        "log.cleaner.min.compaction.lag.ms",
    ),
    Key(
        "max.compaction.lag.ms",
        "long",
        _MAX,
        "Age at which records must be compacted.",
        _positive,
        True,
        "log.cleaner.max.compaction.lag.ms",
    ),
    Key(
        "durability",
        "string",
        "flushed",
        "When a record counts: flushed by every in-sync replica, or only written (Kafka's).",
        DURABILITY,
        True,
        "durability",
    ),
)

TOPIC_KEYS: dict[str, Key] = {key.name: key for key in _TABLE}

TOPIC_NOT_NEEDED = frozenset(
    {
        "segment.jitter.ms",
        "message.downconversion.enable",
        "message.format.version",
        "remote.storage.enable",
        "message.timestamp.difference.max.ms",
        "local.retention.ms",
        "local.retention.bytes",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    }
)
"""Settings of Kafka's topics that are stored and shown, and change nothing here."""


@attrs.frozen(slots=True, kw_only=True)
class TopicConfig:
    """The effective settings of one topic; the meaning of each is in `TOPIC_KEYS` under the name with dots."""

    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = LONG_MAX
    unclean_leader_election_enable: bool = False
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    durability: str = "flushed"

    @classmethod
    def of(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """The broker's defaults with `overrides` over them. An override that cannot be used (a newer broker wrote it)
        is left out: a bad text in ZooKeeper must not stop a partition. New ones go through `validate` first."""
        values = {key.field: getattr(broker, _broker_field(key)) for key in _TABLE}
        for name, text in overrides.items():
            key = TOPIC_KEYS.get(name)
            if key is None:
                continue
            try:
                values[key.field] = key.parse(text)
            except ConfigError:
                continue
        return cls(**values)


def validate(overrides: Mapping[str, str]) -> None:
    """Raises ConfigError for the first override that is unknown or malformed."""
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is not None:
            key.parse(text)
        elif name not in TOPIC_NOT_NEEDED:
            raise ConfigError(name, f"there is no such topic setting{nearest(name, TOPIC_KEYS)}")


@cache
def _broker_field(key: Key) -> str:
    assert key.broker_key is not None
    return key.broker_key.replace(".", "_")
