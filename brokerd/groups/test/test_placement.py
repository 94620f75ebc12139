"""Which partition of `__consumer_offsets` a group belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.groups.placement import java_hash, slot_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("my-group", -1906497762),
        ("\U0001f600", 1772899),
    ],
)
def test_hash_is_javas(text: str, value: int) -> None:
    """Values of the JDK; characters beyond 16 bits count as two."""
    assert java_hash(text) == value


def test_least_integer_is_slot_0() -> None:
    """As Kafka's `Utils.abs` has it."""
    assert slot_of("polygenelubricants", 50) == 0


@given(st.text(), st.integers(1, 100))
def test_every_group_has_a_slot(group: str, slots: int) -> None:
    """Whatever its name."""
    assert 0 <= slot_of(group, slots) < slots
