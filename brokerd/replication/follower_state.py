"""What a follower does with one answer of its leader. Pure: the answer and facts about the local log in, one step out.

The order of the rules (R9, R10, R24, R25): an answer to a question that is no longer ours is dropped; then errors; then
a diverging epoch, after which records and high watermark of the answer mean nothing; then records; then the marks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from kafka_wire import errors
from kafka_wire.schema.fetch import PartitionData

NO_EPOCH = -1


@attrs.frozen
class Question:
    """What was asked for one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    """Epoch of the last record below `offset`; NO_EPOCH if there is none."""
    log_start: int


@attrs.frozen
class Cut:
    """Drop everything from `offset` on and ask again: the leader's history parts from ours there."""

    offset: int


@attrs.frozen
class Restart:
    """Drop everything and begin at `offset`: the leader has nothing that we could go on from (R9)."""

    offset: int


@attrs.frozen
class Take:
    """Append the records (perhaps none), then adopt the leader's marks."""

    high_watermark: int
    log_start: int


class Wait(enum.Enum):
    """Nothing can be done with the answer; when to ask again."""

    SOON = "after a short pause that grows: the leader does not know its role yet, or has trouble"
    LATER = "after a longer one: what we know is old, and news will come (R28)"


Step = Cut | Restart | Take | Wait

_OLD_NEWS = frozenset({errors.FENCED_LEADER_EPOCH, errors.STALE_BROKER_EPOCH})


def next_step(
    asked: Question,
    answer: PartitionData,
    *,
    log_start: int,
    log_end: int,
    epoch_end: Callable[[int], tuple[int, int]],
) -> Step | None:
    """The step, or None if the log has moved since the question (R10). `epoch_end` is R23 for our own log."""
    if asked.offset != log_end:
        return None
    if answer.error_code == errors.OFFSET_OUT_OF_RANGE:
        return _out_of_range(answer, log_start, log_end)
    if answer.error_code:
        return Wait.LATER if answer.error_code in _OLD_NEWS else Wait.SOON
    if answer.diverging_epoch.end_offset >= 0:
        return _diverged(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset, log_end, epoch_end)
    return Take(answer.high_watermark, answer.log_start_offset)


def _diverged(epoch: int, end: int, log_end: int, epoch_end: Callable[[int], tuple[int, int]]) -> Cut:
    """R24: to the leader's end of that epoch, or to the end of our own last epoch up to it, whichever is lower. Where
    we do not know the leader's epoch our own end of an older one is lower, and we ask again from there."""
    _, own_end = epoch_end(epoch)
    limit = min(end, log_end)
    return Cut(limit if own_end < 0 else min(limit, own_end))


def _out_of_range(answer: PartitionData, log_start: int, log_end: int) -> Step:
    """R9, from the bounds of its log that our leaders put into the answer."""
    start, end = answer.log_start_offset, answer.last_stable_offset
    if start < 0 or end < 0:
        return Wait.SOON
    if end < log_end:
        return Cut(end) if end >= log_start else Restart(end)
    if start > log_end:
        return Restart(start)
    return Wait.SOON


def adopted_high_watermark(current: int, leaders: int, log_end: int) -> int:
    """R3: the leader's, as far as our log goes; what was once known to be committed stays so."""
    return max(current, min(leaders, log_end))


def adopted_log_start(current: int, leaders: int, high_watermark: int) -> int:
    """R10: the leader's, but nothing beyond what is known to be committed is given up."""
    return max(current, min(leaders, high_watermark))
