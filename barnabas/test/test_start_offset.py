"""What `--offset` understands."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.start_offset import Bounds, Kind, Start, parse_start, resolve, timestamps_to_ask

NOON = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start(Kind.BEGINNING)),
        ("Earliest", Start(Kind.BEGINNING)),
        ("end", Start(Kind.END)),
        ("17", Start(Kind.OFFSET, 17)),
        ("-5", Start(Kind.BEFORE_END, 5)),
        ("-0", Start(Kind.BEFORE_END, 0)),
        ("s@1234", Start(Kind.TIME, 1234)),
        ("@1234", Start(Kind.TIME, 1234)),
        ("2026-11-18T12:00Z", Start(Kind.TIME, NOON)),
        ("2026-11-18 13:00:00+01:00", Start(Kind.TIME, NOON)),
        ("s@2026-11-18T12:00:00.250Z", Start(Kind.TIME, NOON + 250)),
    ],
)
def test_text_is_understood(text: str, start: Start) -> None:
    """Words, numbers from both ends, milliseconds and dates."""
    assert parse_start(text) == start


def test_time_without_zone_is_local() -> None:
    """As on the clock of whoever writes it."""
    assert parse_start("2026-11-18T12:00").value == int(datetime(2026, 11, 18, 12).astimezone().timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "yesterday", "1.5", "s@", "--3", "2026-13-01"])
def test_other_text_is_refused(text: str) -> None:
    """The error lists what there is."""
    with pytest.raises(ValueError, match="none of"):
        parse_start(text)


@pytest.mark.parametrize(
    ("start", "bounds", "offset"),
    [
        (Start(Kind.BEGINNING), Bounds(3, 9), 3),
        (Start(Kind.END), Bounds(3, 9), 9),
        (Start(Kind.OFFSET, 5), Bounds(3, 9), 5),
        (Start(Kind.OFFSET, 9), Bounds(3, 9), 9),
        (Start(Kind.BEFORE_END, 2), Bounds(3, 9), 7),
        (Start(Kind.BEFORE_END, 100), Bounds(3, 9), 3),
        (Start(Kind.TIME, 1), Bounds(3, 9, 6), 6),
        (Start(Kind.TIME, 1), Bounds(3, 9, None), 9),
    ],
)
def test_start_is_found_in_a_partition(start: Start, bounds: Bounds, offset: int) -> None:
    """Each kind within what the partition holds; a time after all messages is the end."""
    assert resolve(start, bounds) == offset


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 300))
def test_offset_outside_is_refused_with_the_range(first: int, count: int, offset: int) -> None:
    """Explicit offsets are taken exactly or not at all."""
    bounds = Bounds(first, first + count)
    if first <= offset <= first + count:
        assert resolve(Start(Kind.OFFSET, offset), bounds) == offset
    else:
        with pytest.raises(ValueError, match=f"{first} to {first + count}"):
            resolve(Start(Kind.OFFSET, offset), bounds)


def test_time_is_asked_only_when_needed() -> None:
    """Both ends always; the time if the user gave one."""
    assert timestamps_to_ask(Start(Kind.END)) == [-2, -1]
    assert timestamps_to_ask(Start(Kind.TIME, 7)) == [-2, -1, 7]
