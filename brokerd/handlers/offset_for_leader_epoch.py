"""OffsetForLeaderEpoch: where a leader epoch ended in this leader's log (R23), so that a consumer or follower sees
where its own history parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd import topic_rules
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.OFFSET_FOR_LEADER_EPOCH
VERSIONS = (2, 4)


def handle(broker: Broker, request: Request) -> OffsetForLeaderEpochResponse:
    """Answers at once, an error for each partition that has one."""
    body: OffsetForLeaderEpochRequest = request.body
    twice = topic_rules.repeated((topic.topic, asked.partition) for topic in body.topics for asked in topic.partitions)
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    EpochEndOffset(partition=asked.partition, error_code=errors.INVALID_REQUEST)
                    if (topic.topic, asked.partition) in twice
                    else _look_up(broker, topic.topic or "", asked)
                    for asked in topic.partitions
                ),
            )
            for topic in body.topics
        )
    )


def _look_up(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.partition(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        epoch, end = partition.log.epoch_end_offset(asked.leader_epoch)
    except errors.KafkaError as problem:
        return EpochEndOffset(partition=asked.partition, error_code=problem.code, leader_epoch=-1, end_offset=-1)
    return EpochEndOffset(partition=asked.partition, error_code=errors.NONE, leader_epoch=epoch, end_offset=end)
