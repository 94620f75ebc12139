"""The paper's consumer, which needs no broker to coordinate it.

    assignment, planning, membership   pure: Algorithm 1 and others; the plan; the member as a machine
    group_session, offsets, ownership, scribe, rebalancer   the group in ZooKeeper
    brokers, fetcher, chunks, decoding   the messages
    deliveries, polling, engine, life   between the engine's thread and the application's
    consumer, streams, types, errors, deduplication   what applications use

The public names are imported when they are first used, so that pure parts are had without Twisted.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consumer_group.chunks import MessageBatch
    from consumer_group.consumer import Consumer
    from consumer_group.streams import MessageStream
    from consumer_group.types import (
        ConsumerRebalanceListener,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
    )
    from kafka_wire.ids import TopicPartition

__all__ = [
    "Consumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "MessageBatch",
    "MessageStream",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]

_HOMES = {
    "Consumer": "consumer_group.consumer",
    "ConsumerRebalanceListener": "consumer_group.types",
    "ConsumerRecord": "consumer_group.types",
    "MessageBatch": "consumer_group.chunks",
    "MessageStream": "consumer_group.streams",
    "OffsetAndMetadata": "consumer_group.types",
    "OffsetAndTimestamp": "consumer_group.types",
    "TopicPartition": "kafka_wire.ids",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
