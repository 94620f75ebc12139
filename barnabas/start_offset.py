"""Where to begin reading: what a user writes after `--offset`, and the offset that it means in a partition."""

import re
from datetime import datetime
from enum import Enum
from typing import NamedTuple

EARLIEST_TIMESTAMP = -2  # ListOffsets' names for both ends of a log
LATEST_TIMESTAMP = -1


class Kind(Enum):
    """What the number of a Start counts."""

    BEGINNING = "the first message that there is"
    END = "only what comes from now on"
    OFFSET = "this offset"
    BEFORE_END = "so many messages before the end"
    TIME = "the first message at or after this time in ms"


class Start(NamedTuple):
    """Where to begin, for any partition."""

    kind: Kind
    value: int = 0


class Bounds(NamedTuple):
    """What a partition holds: offsets from `first` up to, not including, `end`; `at_time` answers a TIME, if asked."""

    first: int
    end: int
    at_time: int | None = None


_WORDS = {
    "beginning": Kind.BEGINNING,
    "earliest": Kind.BEGINNING,
    "start": Kind.BEGINNING,
    "end": Kind.END,
    "latest": Kind.END,
}
_NUMBER = re.compile(r"-?\d+")
_MILLISECONDS = re.compile(r"(?:s?@)(\d+)")


def parse_start(text: str) -> Start:
    """beginning, end, N, -N, s@MILLISECONDS or an ISO 8601 time (local unless it says); ValueError says so."""
    if text.lower() in _WORDS:
        return Start(_WORDS[text.lower()])
    if _NUMBER.fullmatch(text):
        number = int(text)
        return Start(Kind.BEFORE_END, -number) if text.startswith("-") else Start(Kind.OFFSET, number)
    if found := _MILLISECONDS.fullmatch(text):
        return Start(Kind.TIME, int(found[1]))
    try:
        return Start(Kind.TIME, int(datetime.fromisoformat(text.removeprefix("s@")).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is none of: beginning, end, N, -N (before the end), s@MILLISECONDS, 2026-11-18T12:00:00"
        ) from None


def resolve(start: Start, bounds: Bounds) -> int:
    """The offset to begin at. ValueError for an OFFSET that the partition does not have."""
    if start.kind is Kind.BEGINNING:
        return bounds.first
    if start.kind is Kind.BEFORE_END:
        return max(bounds.first, bounds.end - start.value)
    if start.kind is Kind.TIME and bounds.at_time is not None:
        return bounds.at_time
    if start.kind is Kind.OFFSET:
        if not bounds.first <= start.value <= bounds.end:
            raise ValueError(f"offset {start.value} is out of range, it has {bounds.first} to {bounds.end}")
        return start.value
    return bounds.end  # END, or a time after the last message


def timestamps_to_ask(start: Start) -> list[int]:
    """What ListOffsets must be asked to resolve a Start: both ends, and the time if there is one."""
    return [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP] + ([start.value] if start.kind is Kind.TIME else [])
