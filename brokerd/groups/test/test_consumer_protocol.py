"""What consumers write into metadata and assignments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerd.groups.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)

TOPICS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)


@given(st.lists(TOPICS))
def test_subscription_is_read_back(topics: list[str]) -> None:
    """Its topics in their order."""
    assert subscribed_topics(encode_subscription(topics)) == tuple(topics)


@given(st.dictionaries(TOPICS, st.frozensets(st.integers(0, 1000))))
def test_assignment_is_read_back(partitions: dict[str, frozenset[int]]) -> None:
    """Its partitions by topic."""
    expected = {topic: tuple(sorted(found)) for topic, found in partitions.items()}
    assert assigned_partitions(encode_assignment(partitions)) == expected


def test_kafkas_own_bytes_are_read() -> None:
    """A subscription of version 3 as the Java client writes it: what follows the topics is left alone."""
    subscription = (
        b"\x00\x03"  # version
        b"\x00\x00\x00\x01\x00\x04logs"  # topics
        b"\xff\xff\xff\xff"  # user data
        b"\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff"  # owned partitions, generation, rack
    )
    assert subscribed_topics(subscription) == ("logs",)


@given(st.binary())
def test_foreign_bytes_are_no_subscription(data: bytes) -> None:
    """Anything may stand there; nothing of it may raise or fill the memory."""
    subscribed_topics(data)
    assigned_partitions(data)
    assert subscribed_topics(b"\x00\x00\x7f\xff\xff\xff") is None
    assert assigned_partitions(b"\x00\x00\x7f\xff\xff\xff") is None


def test_nothing_assigned_is_no_partition() -> None:
    """The leader may give a member no bytes at all."""
    assert assigned_partitions(b"") == {}
