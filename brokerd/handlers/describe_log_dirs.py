"""DescribeLogDirs: the sizes of this broker's partitions by log directory, and how full the disks are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.partition import Partition

API = Api.DESCRIBE_LOG_DIRS
VERSIONS = (1, 4)


def handle(broker: Broker, request: Request) -> DescribeLogDirsResponse:
    """Null topics mean all; partitions that are not here are left out, as Kafka does."""
    body: DescribeLogDirsRequest = request.body
    if body.topics is None:
        chosen = list(broker.partitions.items())
    else:
        asked = dict.fromkeys(
            TopicPartition(topic.topic or "", index) for topic in body.topics for index in topic.partitions
        )
        chosen = [(tp, broker.partitions[tp]) for tp in asked if tp in broker.partitions]
    by_dir: dict[Path, list[tuple[TopicPartition, Partition]]] = {}
    for tp, partition in chosen:
        by_dir.setdefault(partition.log.directory.parent, []).append((tp, partition))
    return DescribeLogDirsResponse(
        error_code=errors.NONE,
        results=tuple(
            _describe(Path(one.path), one.online, by_dir.get(Path(one.path), [])) for one in broker.logs.dirs
        ),
    )


def _describe(path: Path, online: bool, held: list[tuple[TopicPartition, Partition]]) -> DescribeLogDirsResult:
    if not online:
        return DescribeLogDirsResult(error_code=errors.KAFKA_STORAGE_ERROR, log_dir=str(path), topics=())
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for tp, partition in sorted(held, key=lambda pair: pair[0]):
        behind = max(partition.high_watermark - partition.log.log_end, 0)
        topics.setdefault(tp.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=tp.partition, partition_size=partition.log.size, offset_lag=behind, is_future_key=False
            )
        )
    total, usable = _room(path)
    return DescribeLogDirsResult(
        error_code=errors.NONE,
        log_dir=str(path),
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()
        ),
        total_bytes=total,
        usable_bytes=usable,
    )


def _room(path: Path) -> tuple[int, int]:
    """Size of the disk and what is free; -1 where the system does not say."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return -1, -1
    return usage.total, usage.free
