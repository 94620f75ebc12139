"""DeleteRecords: moves the start of the log forward; -1 means up to the high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from brokerd import topic_rules
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.DELETE_RECORDS
VERSIONS = (0, 2)

HIGH_WATERMARK = -1

log = Logger()


def handle(broker: Broker, request: Request) -> DeleteRecordsResponse:
    """Answers at once, an error for each partition that has one."""
    body: DeleteRecordsRequest = request.body
    twice = topic_rules.repeated(
        (topic.name, asked.partition_index) for topic in body.topics for asked in topic.partitions
    )
    topics = []
    for topic in body.topics:
        results = tuple(
            _failed(asked.partition_index, errors.INVALID_REQUEST)
            if (topic.name, asked.partition_index) in twice
            else _delete(broker, topic.name or "", asked)
            for asked in topic.partitions
        )
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return DeleteRecordsResponse(topics=tuple(topics))


def _delete(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        start = _advance(broker, topic, asked)
    except errors.KafkaError as problem:
        return _failed(asked.partition_index, problem.code)
    except Exception as problem:
        log.error(
            "records of {topic}-{index} were not deleted: {problem}",
            topic=topic,
            index=asked.partition_index,
            problem=problem,
        )
        return _failed(asked.partition_index, errors.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=start, error_code=errors.NONE
    )


def _advance(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> int:
    """The new start of the log; what is not committed yet cannot be deleted, and a compacted topic's records are
    not deleted by offset.
    """
    known = broker.view.topics.get(topic)
    if known is not None and known.internal:
        raise errors.InvalidTopic("Records of internal topics cannot be deleted.")
    partition = broker.partition(topic, asked.partition_index)
    partition.check_leader()
    if "delete" not in partition.log.config.cleanup_policy:
        raise errors.PolicyViolation("The topic's cleanup.policy is not delete.")
    target = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if target < 0 or target > partition.high_watermark:
        raise errors.OffsetOutOfRange(f"{target} is not below the high watermark {partition.high_watermark}")
    if target > partition.log.log_start:
        partition.log.advance_log_start(target)
    start: int = partition.log.log_start
    return start


def _failed(index: int, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=code)
