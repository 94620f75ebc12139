"""Produce over real logs: when it is answered, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerd.handlers import produce
from brokerd.handlers.test.real_logs import Asked, RealBroker, batch, result, send
from brokerd.storage.errors import StorageError
from brokerd.waiting import SWEEP_SECONDS
from kafka_wire import errors
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

P0 = TopicPartition("logs", 0)


@pytest.mark.parametrize("acks", [1, -1])
def test_batch_is_answered_after_the_write_of_its_turn(tmp_path: Path, acks: int) -> None:
    broker = RealBroker(tmp_path)
    first, second = send(broker, batch(b"a", b"b"), acks=acks), send(broker, batch(b"c"), acks=acks)
    assert first.answer is None
    assert second.answer is None
    broker.turn()
    assert (result(first).error_code, result(first).base_offset) == (0, 0)
    assert (result(second).error_code, result(second).base_offset) == (0, 2)
    assert broker.partitions[P0].high_watermark == 3


def test_flushed_topic_answers_acks_1_when_written_and_acks_all_when_flushed(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, durability="flushed")
    one, everyone = send(broker, batch(b"a"), acks=1), send(broker, batch(b"b"), acks=-1)
    broker.turn()
    assert result(one).base_offset == 0
    assert everyone.answer is None
    assert broker.partitions[P0].high_watermark == 0
    broker.flush()
    assert result(everyone).base_offset == 1
    assert broker.partitions[P0].high_watermark == 2


def test_acks_all_that_takes_too_long_is_told_so_and_stays_in_the_log(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, durability="flushed")
    asked = send(broker, batch(b"a"))
    broker.turn()
    broker.clock.pump([SWEEP_SECONDS] * 8)
    assert result(asked).error_code == errors.REQUEST_TIMED_OUT
    broker.flush()  # it does come through, and is not answered a second time
    assert broker.partitions[P0].high_watermark == 1


def test_acks_0_is_not_answered(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    asked = send(broker, batch(b"a"), acks=0)
    broker.turn()
    assert asked.answer is None
    assert broker.partitions[P0].high_watermark == 1


def test_refused_acks_0_raises_to_close_the_connection(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    with pytest.raises(errors.InvalidRequest):
        send(broker, batch(b"a"), acks=0, index=9)


def _bad_crc() -> memoryview:
    data = bytearray(batch(b"abc"))
    data[-1] ^= 1
    return memoryview(data)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"records": batch(b"a"), "index": 9}, errors.UNKNOWN_TOPIC_OR_PARTITION),
        ({"records": batch(b"a"), "name": "none"}, errors.UNKNOWN_TOPIC_OR_PARTITION),
        ({"records": None}, errors.CORRUPT_MESSAGE),
        ({"records": _bad_crc()}, errors.CORRUPT_MESSAGE),
        ({"records": memoryview(bytes(batch(b"a")) * 2)}, errors.INVALID_RECORD),
        ({"records": batch(b"x" * (2 << 20))}, errors.MESSAGE_TOO_LARGE),
        ({"records": batch(b"a"), "acks": 2}, errors.INVALID_REQUIRED_ACKS),
        ({"records": batch(b"a"), "transactional_id": "t"}, errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_what_cannot_be_appended_is_refused_with_its_reason(tmp_path: Path, fields: dict[str, Any], code: int) -> None:
    broker = RealBroker(tmp_path)
    asked = send(broker, **fields)
    assert (result(asked).error_code, result(asked).base_offset) == (code, -1)
    assert result(asked).error_message
    broker.turn()
    assert broker.partitions[P0].log.log_end == 0


def test_too_few_in_sync_replicas_refuse_acks_all_only(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, overrides={"min.insync.replicas": "2"})
    assert result(send(broker, batch(b"a"))).error_code == errors.NOT_ENOUGH_REPLICAS
    asked = send(broker, batch(b"a"), acks=1)
    broker.turn()
    assert result(asked).error_code == 0


def test_min_insync_replicas_never_asks_for_more_than_there_are(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, overrides={"min.insync.replicas": "2"})
    broker.partitions[P0].replicas = (1,)
    asked = send(broker, batch(b"a"))
    broker.turn()
    assert result(asked).error_code == 0


def test_one_bad_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    data = [
        PartitionProduceData(0, batch(b"a")),
        PartitionProduceData(7, batch(b"a")),
        PartitionProduceData(1, batch(b"b")),
    ]
    asked = Asked(broker, produce, ProduceRequest(acks=1, topic_data=[TopicProduceData("logs", data)]))
    broker.turn()
    codes = [one.error_code for one in asked.answer.responses[0].partition_responses]
    assert codes == [0, errors.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_request_without_partitions_is_answered_at_once(tmp_path: Path) -> None:
    assert Asked(RealBroker(tmp_path), produce, ProduceRequest(acks=-1)).answer.responses == ()


def test_repeat_of_an_idempotent_batch_gets_the_old_offset_once_that_is_safe(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, durability="flushed")
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    first, again = send(broker, records), send(broker, records)
    broker.turn()
    assert again.answer is None
    broker.flush()
    assert result(first).base_offset == result(again).base_offset == 0
    assert broker.partitions[P0].log.log_end == 1


def test_disk_that_refuses_a_write_is_told_to_every_producer_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = RealBroker(tmp_path)
    kept = send(broker, batch(b"a"))
    broker.turn()

    def full() -> None:
        raise StorageError("full", "no space left")

    log = broker.partitions[P0].log
    one, two = send(broker, batch(b"b"), acks=1), send(broker, batch(b"c"), acks=-1)
    with monkeypatch.context() as patch:
        patch.setattr(log, "write", full)
        broker.turn()
    assert result(kept).error_code == 0
    assert result(one).error_code == result(two).error_code == errors.KAFKA_STORAGE_ERROR


def test_leader_that_resigns_fails_who_waits(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, durability="flushed")
    asked = send(broker, batch(b"a"))
    broker.turn()
    broker.partitions[P0].resign()
    assert result(asked).error_code == errors.NOT_LEADER_OR_FOLLOWER
    assert result(send(broker, batch(b"b"))).error_code == errors.NOT_LEADER_OR_FOLLOWER
