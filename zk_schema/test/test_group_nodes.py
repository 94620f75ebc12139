"""The znodes of groups."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_schema.group_nodes import (
    PROTOCOL,
    GroupKind,
    MemberCopy,
    OffsetMeta,
    StoredGroup,
    StoredMember,
    decode_offset,
    decode_topic_id,
    encode_offset,
    encode_topic_id,
)
from zk_schema.nodes import BadNode

MEMBERS = st.builds(
    StoredMember,
    st.text(),
    st.none() | st.text(),
    st.text(),
    st.text(),
    st.integers(0),
    st.integers(0),
    st.lists(st.tuples(st.text(), st.binary())).map(tuple),
    st.binary(),
)
GROUPS = st.builds(
    StoredGroup,
    st.text(),
    st.integers(0),
    st.text(),
    st.none() | st.text(),
    st.none() | st.text(),
    st.lists(MEMBERS).map(tuple),
    st.integers(0),
)


@given(GROUPS)
def test_group_is_read_back(group: StoredGroup) -> None:
    """Whatever its members wrote."""
    assert StoredGroup.decode("/x", group.encode()) == group


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        zlib.compress(b"[]"),
        zlib.compress(b'{"version":2}'),
        zlib.compress(b'{"version":1}'),
        zlib.compress(b'{"version":1}')[:-3],
        zlib.compress(b" " * (65 << 20)),
    ],
)
def test_bad_group_names_its_path(data: bytes) -> None:
    """Cut, too large, of another version, or something else: the group is frozen, not guessed."""
    with pytest.raises(BadNode, match=r"^/x: "):
        StoredGroup.decode("/x", data)


def test_thousand_members_fit() -> None:
    """Their metadata is almost the same, and compressed."""
    metadata = b"\x00\x03" + b"some-topic-name" * 20
    members = tuple(
        StoredMember(
            f"consumer-{n}-{n:032x}", None, f"consumer-{n}", "/10.0.0.1", 1, 1, (("range", metadata),), metadata
        )
        for n in range(1000)
    )
    assert len(StoredGroup("g", 1, "consumer", "range", None, members, 0).encode()) < 100_000


def test_kind_is_all_that_is_read_of_a_plan() -> None:
    """The rest is the consumers' own."""
    assert GroupKind.decode("g", GroupKind("g", PROTOCOL).encode()).kind == PROTOCOL
    with pytest.raises(BadNode, match="no kind of group"):
        GroupKind.decode("g", b'{"kind":"else"}')


def test_member_copy_is_what_old_tools_read() -> None:
    """0.8 JSON, version 1."""
    assert json.loads(MemberCopy(("a", "b"), 7).encode()) == {
        "version": 1,
        "subscription": {"a": 1, "b": 1},
        "pattern": "static",
        "timestamp": "7",
    }


@given(st.integers(-1, 2**31 - 1), st.text())
def test_meta_is_read_back(epoch: int, text: str) -> None:
    """Epoch and text."""
    assert OffsetMeta.decode("/x", OffsetMeta(epoch, text).encode()) == OffsetMeta(epoch, text)


def test_offset_is_decimal_text() -> None:
    """And an empty node is none."""
    assert (encode_offset(12), decode_offset("/x", b"12"), decode_offset("/x", b"")) == (b"12", 12, -1)
    with pytest.raises(BadNode):
        decode_offset("/x", b"x")


def test_topic_id_is_read_back_and_other_data_is_none() -> None:
    """Tools of the 0.8 age leave the node empty."""
    identity = bytes(range(16))
    assert decode_topic_id(encode_topic_id(identity)) == identity
    assert decode_topic_id(b"") is None
    assert decode_topic_id(b"\xff") is None
