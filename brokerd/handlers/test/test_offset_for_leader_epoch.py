"""OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

from brokerd.handlers import offset_for_leader_epoch
from brokerd.handlers.test.fakes import FakeBroker, request
from kafka_wire import errors
from kafka_wire.schema.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def _ask(*asked: OffsetForLeaderPartition) -> Any:
    body = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="logs", partitions=asked),))
    (answer,) = offset_for_leader_epoch.handle(FakeBroker(), request(body)).topics
    return [(one.error_code, one.leader_epoch, one.end_offset) for one in answer.partitions]


def _of(partition: int, epoch: int, current: int = -1) -> OffsetForLeaderPartition:
    return OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)


def test_end_of_a_known_epoch_is_told() -> None:
    """And an unknown one is undefined."""
    assert _ask(_of(0, 3)) == [(0, 3, 20)]
    assert _ask(_of(0, 8)) == [(0, -1, -1)]


def test_wrong_leader_epoch_is_fenced_or_unknown() -> None:
    """R27: the client or this broker is behind."""
    assert _ask(_of(0, 3, current=2)) == [(errors.FENCED_LEADER_EPOCH, -1, -1)]
    assert _ask(_of(0, 3, current=4)) == [(errors.UNKNOWN_LEADER_EPOCH, -1, -1)]


def test_errors_are_per_partition() -> None:
    """One unknown partition and one given twice."""
    assert _ask(_of(9, 3), _of(0, 3), _of(0, 3)) == [
        (errors.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        (errors.INVALID_REQUEST, -1, -1),
        (errors.INVALID_REQUEST, -1, -1),
    ]
