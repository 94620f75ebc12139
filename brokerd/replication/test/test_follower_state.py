"""What a follower does with its leader's answers, rule by rule and over random histories of epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.replication.follower_state import (
    Cut,
    Question,
    Restart,
    Step,
    Take,
    Wait,
    adopted_high_watermark,
    adopted_log_start,
    next_step,
)
from brokerd.replication.test.model_log import Entry, ModelLog
from brokerd.topic_config import TopicConfig
from kafka_wire import errors
from kafka_wire.schema.fetch import EpochEndOffset, PartitionData

ASKED = Question(leader_epoch=5, offset=10, last_epoch=4, log_start=2)


def step(answer: PartitionData, *, log_end: int = 10, epochs: tuple[tuple[int, int], ...] = ((3, 0), (4, 6))) -> object:
    """With a log from 2 to `log_end`."""
    log = ModelLog(TopicConfig())
    log.history.entries = list(epochs)
    return next_step(
        ASKED,
        answer,
        log_start=2,
        log_end=log_end,
        epoch_end=lambda epoch: log.history.end_offset(epoch, log_end),
    )


def test_answer_brings_records_and_marks() -> None:
    assert step(PartitionData(0, 0, 9, 9, 3)) == Take(9, 3)


def test_answer_to_an_older_question_is_dropped() -> None:
    """R10: the log has moved since."""
    assert step(PartitionData(0, 0, 9, 9, 3), log_end=11) is None


@pytest.mark.parametrize(
    ("epoch", "end", "cut"),
    [
        (4, 8, 8),  # the same epoch, and the leader's ended earlier
        (3, 20, 6),  # it does not have our last epoch: to where that began
        (3, 4, 4),  # nor all of the one before
        (2, 3, 0),  # an epoch that we do not know: everything that may be younger
    ],
)
def test_diverging_history_is_cut(epoch: int, end: int, cut: int) -> None:
    """R24, R25: records and marks of such an answer mean nothing."""
    assert step(PartitionData(0, 0, 9, 9, 3, EpochEndOffset(epoch, end), records=b"x")) == Cut(cut)


@pytest.mark.parametrize(
    ("code", "wait"),
    [
        (errors.NOT_LEADER_OR_FOLLOWER, Wait.SOON),
        (errors.UNKNOWN_LEADER_EPOCH, Wait.SOON),
        (errors.UNKNOWN_TOPIC_ID, Wait.SOON),
        (errors.KAFKA_STORAGE_ERROR, Wait.SOON),
        (errors.FENCED_LEADER_EPOCH, Wait.LATER),
    ],
)
def test_error_is_waited_out(code: int, wait: Wait) -> None:
    assert step(PartitionData(0, code, -1, -1, -1)) is wait


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 8, Cut(8)),  # the leader's log ends before ours
        (0, 1, Restart(1)),  # and before ours begins
        (20, 30, Restart(20)),  # it has forgotten what comes after ours
        (5, 30, Wait.SOON),  # it was so when it answered, it is not any more
        (-1, -1, Wait.SOON),  # it does not say
    ],
)
def test_offset_out_of_range_moves_to_where_the_leader_is(start: int, end: int, expected: Step) -> None:
    """R9."""
    assert step(PartitionData(0, errors.OFFSET_OUT_OF_RANGE, -1, end, start)) == expected


def test_marks_never_go_back_and_never_beyond_the_log() -> None:
    """R3, R10."""
    assert adopted_high_watermark(5, 9, 7) == 7
    assert adopted_high_watermark(5, 3, 7) == 5
    assert adopted_log_start(1, 9, 7) == 7
    assert adopted_log_start(4, 3, 7) == 4


@st.composite
def histories(draw: st.DrawFn) -> tuple[ModelLog, ModelLog]:
    """(leader's log, follower's log): each epoch has one leader, whose log is some earlier log cut at a batch."""
    logs = [ModelLog(TopicConfig())]
    for epoch in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from(logs))
        log = ModelLog(TopicConfig())
        log.append_as_follower(tuple(parent.entries[: draw(st.integers(0, len(parent.entries)))]))
        if draw(st.booleans()):
            log.start_epoch(epoch)
        for _ in range(draw(st.integers(0, 3))):
            log.append_as_leader(f"{epoch}", epoch, 0)
        logs.append(log)
    leader, follower = draw(st.sampled_from(logs)), draw(st.sampled_from(logs))
    leader.start_epoch(100) if leader.latest_epoch < 100 else None
    copy = ModelLog(TopicConfig())
    copy.append_as_follower(tuple(follower.entries))
    copy.history.entries = list(follower.history.entries)
    return leader, copy


def answer(leader: ModelLog, question: Question) -> PartitionData:
    """R25, as Partition.asked does it."""
    if question.last_epoch >= 0:
        epoch, end = leader.epoch_end_offset(question.last_epoch)
        if epoch < question.last_epoch or end < question.offset:
            return PartitionData(0, 0, 0, 0, 0, EpochEndOffset(epoch, end))
    if question.offset > leader.log_end:
        return PartitionData(0, errors.OFFSET_OUT_OF_RANGE, -1, leader.log_end, 0)
    return PartitionData(0, 0, 0, 0, 0)


@given(histories())
def test_follower_ends_as_a_prefix_of_its_leader_and_keeps_what_they_share(logs: tuple[ModelLog, ModelLog]) -> None:
    """However their histories parted: cut until the leader agrees, and not below the last record they have in common
    but for batches of an epoch that the leader has cut as well."""
    leader, follower = logs
    leader.write()
    shared = 0
    for mine, theirs in zip(follower.entries, leader.entries, strict=False):
        if mine != theirs:
            break
        shared += 1
    for _ in range(30):
        question = Question(100, follower.log_end, follower.last_record_epoch, 0)
        found = next_step(
            question,
            answer(leader, question),
            log_start=0,
            log_end=follower.log_end,
            epoch_end=follower.epoch_end_offset,
        )
        if isinstance(found, Take):
            break
        assert isinstance(found, Cut)
        assert found.offset < follower.log_end, "no progress"
        follower.truncate_to(found.offset)
    else:
        raise AssertionError("it never ends")
    assert follower.entries == leader.entries[: follower.log_end]
    assert follower.log_end == shared
    records: tuple[Entry, ...] = leader.read(follower.log_end, 1000)
    follower.append_as_follower(records)
    assert follower.entries == leader.entries
    assert [entry for entry in follower.history.entries if entry[1] < follower.log_end] == [
        entry for entry in leader.history.entries if entry[1] < leader.log_end
    ]
