"""DescribeTopicPartitions: topics in the order of their names, a page of partitions at a time; the cursor in an answer
is where the next page begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd.handlers.types import Request
from brokerd.metadata import NO_LEADER, ClusterView, PartitionInfo
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.DESCRIBE_TOPIC_PARTITIONS
VERSIONS = (0, 0)

MOST_PARTITIONS = 2000
"""In one answer, whatever was asked for."""


def handle(broker: Broker, request: Request) -> DescribeTopicPartitionsResponse:
    """Answers at once, from the view of the moment."""
    body: DescribeTopicPartitionsRequest = request.body
    return page(broker.view, [one.name for one in body.topics], body.response_partition_limit, body.cursor)


def page(
    view: ClusterView, asked: list[str], limit: int, cursor: RequestCursor | None
) -> DescribeTopicPartitionsResponse:
    """The topics asked for, or all, from the cursor on. A topic that the cursor names and that is gone is skipped."""
    room = min(limit, MOST_PARTITIONS) if limit > 0 else MOST_PARTITIONS
    first = cursor.topic_name if cursor is not None else ""
    found: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(set(asked) or view.topics):
        if name < first:
            continue
        if name not in view.topics:
            found.append(_unknown(name))
            continue
        begin = max(cursor.partition_index, 0) if cursor is not None and name == first else 0
        if room <= 0:
            return _answer(found, ResponseCursor(name, begin))
        topic = _topic(view, name, begin, begin + room)
        found.append(topic)
        room -= len(topic.partitions)
        end = begin + len(topic.partitions)
        if end < len(view.topics[name].partitions):
            return _answer(found, ResponseCursor(name, end))
    return _answer(found, None)


def _answer(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: ResponseCursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=errors.UNKNOWN_TOPIC_OR_PARTITION, name=name)


def _topic(view: ClusterView, name: str, begin: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    topic = view.topics[name]
    return DescribeTopicPartitionsResponseTopic(
        error_code=errors.NONE,
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=tuple(_partition(view, one) for one in topic.partitions[begin:end]),
    )


def _partition(view: ClusterView, one: PartitionInfo) -> DescribeTopicPartitionsResponsePartition:
    led = one.leader != NO_LEADER and one.leader in view.brokers
    return DescribeTopicPartitionsResponsePartition(
        error_code=errors.NONE if led else errors.LEADER_NOT_AVAILABLE,
        partition_index=one.index,
        leader_id=one.leader if led else NO_LEADER,
        leader_epoch=one.leader_epoch,
        replica_nodes=one.replicas,
        isr_nodes=one.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=one.offline(view.brokers),
    )
