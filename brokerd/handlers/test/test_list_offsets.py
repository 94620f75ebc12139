"""ListOffsets: special offsets, times, and errors for single partitions."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.handlers import list_offsets
from brokerd.handlers.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from brokerd.handlers.test.fakes import FakeBroker, request
from kafka_wire import errors
from kafka_wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


def _ask(broker: FakeBroker, *asked: ListOffsetsPartition) -> Any:
    body = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="logs", partitions=asked),))
    return list_offsets.handle(broker, request(body)).topics[0].partitions


def _of(timestamp: int, partition: int = 0, current: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=current)


@pytest.fixture
def broker() -> FakeBroker:
    """A log from 10 to 20 with times 100 at 12 and 300 at 15, and 200 at 18."""
    made = FakeBroker()
    made.fake_log.by_time = [(100, 12, 2), (300, 15, 3), (200, 18, 3)]
    return made


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (EARLIEST, (-1, 10, -1)),
        (LATEST, (-1, 20, 3)),
        (MAX_TIMESTAMP, (300, 15, 3)),
        (0, (100, 12, 2)),
        (101, (300, 15, 3)),
        (301, (-1, -1, -1)),
    ],
)
def test_offset_is_found(broker: FakeBroker, timestamp: int, found: tuple[int, int, int]) -> None:
    """(timestamp, offset, leader epoch); -1 where there is none."""
    (one,) = _ask(broker, _of(timestamp))

    assert (one.error_code, (one.timestamp, one.offset, one.leader_epoch)) == (0, found)


def test_nothing_beyond_the_high_watermark_is_found(broker: FakeBroker) -> None:
    """V3: consumers see only what is committed."""
    broker.led.high_watermark = 15
    broker.led.epoch_start = 10

    found = [_ask(broker, _of(stamp))[0].offset for stamp in (LATEST, 101, MAX_TIMESTAMP)]

    assert found == [15, -1, 12]


def test_latest_is_not_available_before_the_epoch_is_reached(broker: FakeBroker) -> None:
    """V6: a new leader does not know yet how far consumers had seen; the earliest it does know."""
    broker.led.high_watermark = 15
    broker.led.epoch_start = 16

    codes = [_ask(broker, _of(stamp))[0].error_code for stamp in (LATEST, 301, EARLIEST, 100)]

    assert codes == [errors.OFFSET_NOT_AVAILABLE, errors.OFFSET_NOT_AVAILABLE, 0, 0]


def test_errors_are_per_partition(broker: FakeBroker) -> None:
    """A good partition is answered beside bad ones."""
    answers = _ask(broker, _of(LATEST), _of(LATEST, 9), _of(LATEST, 1), _of(LATEST, 1))

    assert [one.error_code for one in answers] == [
        0,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.INVALID_REQUEST,
        errors.INVALID_REQUEST,
    ]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (_of(LATEST, current=2), errors.FENCED_LEADER_EPOCH),
        (_of(LATEST, current=4), errors.UNKNOWN_LEADER_EPOCH),
        (_of(-9), errors.INVALID_REQUEST),
    ],
)
def test_bad_question_is_refused(broker: FakeBroker, asked: ListOffsetsPartition, code: int) -> None:
    """Wrong epochs, and negative times that mean nothing."""
    assert _ask(broker, asked)[0].error_code == code


def test_follower_sends_clients_on(broker: FakeBroker) -> None:
    """Only the leader answers."""
    broker.led.resign()

    assert _ask(broker, _of(LATEST))[0].error_code == errors.NOT_LEADER_OR_FOLLOWER


def test_old_style_answer_is_a_list_of_one(broker: FakeBroker) -> None:
    """Version 0 reads the list."""
    assert tuple(_ask(broker, _of(EARLIEST))[0].old_style_offsets) == (10,)
    assert tuple(_ask(broker, _of(301))[0].old_style_offsets) == ()
