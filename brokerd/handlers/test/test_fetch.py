"""Fetch over real logs: what is seen, what is waited for, and how sessions are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.handlers.test.fakes import topic_id
from brokerd.handlers.test.real_logs import RealBroker, batch, poll, records_of, send
from kafka_wire import errors
from kafka_wire.batches import walk
from kafka_wire.ids import TopicPartition
from kafka_wire.records import decode_batches
from kafka_wire.schema.fetch import FetchPartition, FetchTopic, ForgottenTopic

P0 = TopicPartition("logs", 0)


def filled(path: Path, *values: bytes, durability: str = "replicated") -> RealBroker:
    """A broker whose partition 0 holds these values, a batch each."""
    broker = RealBroker(path, durability=durability)
    for value in values:
        send(broker, batch(value), acks=1)
    broker.turn()
    return broker


def values(data: bytes, offset: int = 0) -> list[bytes | None]:
    """The values that a consumer at `offset` gets."""
    return [record.value for record in decode_batches(data, from_offset=offset)]


def test_records_are_there_at_once(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a", b"b", b"c")
    response = poll(broker, 1).answer
    assert values(records_of(response), 1) == [b"b", b"c"]
    part = response.responses[0].partitions[0]
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset, part.error_code) == (3, 3, 0, 0)


def test_consumer_sees_nothing_above_the_high_watermark(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a", durability="flushed")
    asked = poll(broker, 0)
    assert asked.answer is None
    broker.flush()
    assert values(records_of(asked.answer)) == [b"a"]


def test_poll_at_the_end_waits_for_the_next_record(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a")
    asked = poll(broker, 1)
    broker.clock.advance(0.4)
    assert asked.answer is None
    send(broker, batch(b"b"))
    broker.turn()
    broker.turn()
    assert values(records_of(asked.answer), 1) == [b"b"]
    assert not broker.partitions[P0]._growth_watchers


def test_poll_that_waits_in_vain_is_answered_empty_in_time(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a")
    asked = poll(broker, 1)
    broker.clock.advance(0.5)
    assert records_of(asked.answer) == b""
    assert not broker.partitions[P0]._growth_watchers


def test_poll_waits_for_min_bytes_over_all_partitions(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    size = len(batch(b"a"))
    asked = poll(broker, 0, 0, min_bytes=2 * size)
    send(broker, batch(b"a"), index=0)
    broker.turn()
    broker.turn()
    assert asked.answer is None
    send(broker, batch(b"b"), index=1)
    broker.turn()
    broker.turn()
    assert (values(records_of(asked.answer, 0)), values(records_of(asked.answer, 1))) == ([b"a"], [b"b"])


def test_partitions_that_grow_in_one_turn_are_answered_together(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    asked = poll(broker, 0, 0)
    send(broker, batch(b"a"), index=0)
    send(broker, batch(b"b"), index=1)
    broker.turn()
    broker.turn()
    assert (values(records_of(asked.answer, 0)), values(records_of(asked.answer, 1))) == ([b"a"], [b"b"])


def test_first_batch_comes_whole_however_large(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"x" * 1000, b"y")
    send(broker, batch(b"z" * 1000), index=1)
    broker.turn()
    response = poll(broker, 0, 0, max_bytes=10).answer
    assert values(records_of(response, 0)) == [b"x" * 1000]
    assert records_of(response, 1) == b""


def test_max_bytes_holds_over_all_partitions(tmp_path: Path) -> None:
    broker = filled(tmp_path, *[b"x" * 100] * 50)
    for _ in range(50):
        send(broker, batch(b"y" * 100), index=1)
    broker.turn()
    response = poll(broker, 0, 0, max_bytes=10_000).answer
    assert len(records_of(response, 0)) + len(records_of(response, 1)) <= 10_000
    assert len(list(walk(records_of(response, 0), 0, len(records_of(response, 0))))) > 40


@pytest.mark.parametrize("offset", [-1, 4])
def test_offset_outside_the_log_is_out_of_range(tmp_path: Path, offset: int) -> None:
    broker = filled(tmp_path, b"a", b"b", b"c")
    assert poll(broker, offset).answer.responses[0].partitions[0].error_code == errors.OFFSET_OUT_OF_RANGE


def test_offset_above_the_high_watermark_within_the_log_waits(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a", b"b", durability="flushed")
    asked = poll(broker, 2)
    assert asked.answer is None


@pytest.mark.parametrize(("epoch", "code"), [(2, errors.FENCED_LEADER_EPOCH), (4, errors.UNKNOWN_LEADER_EPOCH), (3, 0)])
def test_epoch_of_the_client_is_compared(tmp_path: Path, epoch: int, code: int) -> None:
    broker = filled(tmp_path, b"a")
    asked = FetchTopic(topic="logs", partitions=[FetchPartition(0, epoch, 0, -1, -1, 1000)])
    assert poll(broker, 0, topics=[asked]).answer.responses[0].partitions[0].error_code == code


def test_topic_is_found_by_id_and_an_unknown_id_is_an_error(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a")
    response = poll(broker, 0, by_id=True).answer
    assert response.responses[0].topic_id == topic_id(5)
    assert values(records_of(response)) == [b"a"]
    unknown = FetchTopic(topic_id=topic_id(99), partitions=[FetchPartition(0)])
    answer = poll(broker, 0, topics=[unknown]).answer.responses[0]
    assert (answer.topic_id, answer.partitions[0].error_code) == (topic_id(99), errors.UNKNOWN_TOPIC_ID)


def test_leader_that_resigns_ends_the_wait(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a")
    asked = poll(broker, 1)
    broker.partitions[P0].resign()
    broker.turn()
    assert asked.answer.responses[0].partitions[0].error_code == errors.NOT_LEADER_OR_FOLLOWER


def test_poll_of_a_client_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a")
    asked = poll(broker, 1)
    asked.request.gone = True
    send(broker, batch(b"b"))
    broker.turn()
    broker.turn()
    assert asked.answer is None
    assert not broker.partitions[P0]._growth_watchers


def test_session_answers_only_what_is_new(tmp_path: Path) -> None:
    broker = filled(tmp_path, b"a")
    first = poll(broker, 1, 0, session_epoch=0, max_wait_ms=0).answer
    assert first.session_id
    assert len(first.responses[0].partitions) == 2
    quiet = poll(broker, session_id=first.session_id, session_epoch=1, max_wait_ms=0).answer
    assert (quiet.session_id, quiet.responses) == (first.session_id, [])
    send(broker, batch(b"b"), index=1)
    broker.turn()
    grown = poll(broker, session_id=first.session_id, session_epoch=2, max_wait_ms=0).answer
    assert [part.partition_index for part in grown.responses[0].partitions] == [1]
    assert values(records_of(grown, 1)) == [b"b"]


def test_session_forgets_and_waits_like_any_poll(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    opened = poll(broker, 0, 0, session_epoch=0, max_wait_ms=0, by_id=True).answer.session_id
    forgotten = [ForgottenTopic(topic_id=topic_id(5), partitions=[0])]
    asked = poll(broker, session_id=opened, session_epoch=1, forgotten_topics_data=forgotten)
    send(broker, batch(b"a"), index=0)
    broker.turn()
    broker.turn()
    assert asked.answer is None
    send(broker, batch(b"b"), index=1)
    broker.turn()
    broker.turn()
    assert values(records_of(asked.answer, 1)) == [b"b"]


def test_session_that_is_not_known_begins_anew(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    assert poll(broker, session_id=77, session_epoch=3).answer.error_code == errors.FETCH_SESSION_ID_NOT_FOUND
    opened = poll(broker, 0, session_epoch=0, max_wait_ms=0).answer.session_id
    wrong = poll(broker, session_id=opened, session_epoch=9).answer
    assert wrong.error_code == errors.INVALID_FETCH_SESSION_EPOCH
