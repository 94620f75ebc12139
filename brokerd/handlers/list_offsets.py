"""ListOffsets: earliest, latest, newest by time, or first at or after a time; never beyond the high watermark (V3).

Version 0 is answered with a list of at most one offset: it was meant for the starts of several segments, which
nobody asks for any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerd import topic_rules
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.partition import Partition

API = Api.LIST_OFFSETS
VERSIONS = (0, 7)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3


class _Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


_NOTHING = _Found(-1, -1, -1)


def handle(broker: Broker, request: Request) -> ListOffsetsResponse:
    """Answers at once, an error for each partition that has one."""
    body: ListOffsetsRequest = request.body
    twice = topic_rules.repeated(
        (topic.name, asked.partition_index) for topic in body.topics for asked in topic.partitions
    )
    topics = []
    for topic in body.topics:
        answers = tuple(
            _failed(asked.partition_index, errors.INVALID_REQUEST)
            if (topic.name, asked.partition_index) in twice
            else _answer(broker, topic.name or "", asked)
            for asked in topic.partitions
        )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=tuple(topics))


def _answer(broker: Broker, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    try:
        partition = broker.partition(topic, asked.partition_index)
        partition.check_leader(asked.current_leader_epoch)
        found = _look_up(partition, asked.timestamp)
    except errors.KafkaError as problem:
        return _failed(asked.partition_index, problem.code)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=errors.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
        old_style_offsets=(found.offset,) if found.offset >= 0 and asked.max_num_offsets > 0 else (),
    )


def _look_up(partition: Partition, timestamp: int) -> _Found:
    log, end = partition.log, partition.high_watermark
    if timestamp == EARLIEST:
        return _Found(-1, log.log_start, -1)
    if timestamp == LATEST:
        _check_settled(partition)
        return _Found(-1, end, partition.leader_epoch)
    if timestamp < MAX_TIMESTAMP:
        raise errors.InvalidRequest(f"{timestamp} is neither a time nor a special offset")
    found = log.max_timestamp(end) if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp, end)
    if found is None:
        _check_settled(partition)
        return _NOTHING
    return _Found(*found)


def _check_settled(partition: Partition) -> None:
    """V6: a new leader's high watermark may lag what consumers have seen until it reaches the start of its epoch."""
    if partition.high_watermark < partition.epoch_start:
        raise errors.OffsetNotAvailable("the new leader does not know the high watermark yet")


def _failed(index: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=code, timestamp=-1, offset=-1, leader_epoch=-1
    )
