"""DeleteRecords moves the start of the log."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from brokerd.handlers import delete_records
from brokerd.handlers.test.fakes import FakeBroker, request
from kafka_wire import errors
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


def _ask(broker: FakeBroker, *asked: tuple[int, int], topic: str = "logs") -> Any:
    partitions = tuple(DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in asked)
    body = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=partitions),), timeout_ms=1000)
    (answer,) = delete_records.handle(broker, request(body)).topics
    return [(one.error_code, one.low_watermark) for one in answer.partitions]


@pytest.mark.parametrize(("offset", "start"), [(15, 15), (-1, 20), (20, 20), (3, 10)])
def test_start_moves_forward_only(offset: int, start: int) -> None:
    """-1 means the high watermark; an offset before the start changes nothing."""
    assert _ask(FakeBroker(), (0, offset)) == [(0, start)]


@pytest.mark.parametrize("offset", [21, -2])
def test_offset_outside_the_committed_log_is_out_of_range(offset: int) -> None:
    """What is not committed cannot be deleted."""
    assert _ask(FakeBroker(), (0, offset)) == [(errors.OFFSET_OUT_OF_RANGE, -1)]


def test_partition_elsewhere_has_its_own_error() -> None:
    """Partition 1 is this broker's replica but not set up yet, then offline; partition 7 does not exist."""
    broker = FakeBroker()
    assert _ask(broker, (1, 15), (7, 15)) == [
        (errors.NOT_LEADER_OR_FOLLOWER, -1),
        (errors.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]

    broker.fake_logs.offline[TopicPartition("logs", 1)] = "damaged"
    assert _ask(broker, (1, 15)) == [(errors.KAFKA_STORAGE_ERROR, -1)]


def test_compacted_topic_is_a_policy_violation() -> None:
    """Its records go by key, not by offset."""
    broker = FakeBroker()
    broker.fake_log.config = attrs.evolve(broker.fake_log.config, cleanup_policy=("compact",))

    assert _ask(broker, (0, 15)) == [(errors.POLICY_VIOLATION, -1)]


def test_partition_given_twice_is_an_invalid_request() -> None:
    """Nothing is deleted."""
    broker = FakeBroker()

    assert _ask(broker, (0, 15), (0, 16)) == [(errors.INVALID_REQUEST, -1)] * 2
    assert broker.fake_log.log_start == 10


def test_failing_disk_is_a_storage_error() -> None:
    """The client is told, the broker goes on."""
    broker = FakeBroker()
    broker.fake_log.advance_problem = OSError("disk")

    assert _ask(broker, (0, 15)) == [(errors.KAFKA_STORAGE_ERROR, -1)]
