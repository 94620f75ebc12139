"""Multis are measured before they are sent, and cut where they would be too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol.serialization import Create as WireCreate
from kazoo.protocol.serialization import MultiHeader, SetData
from kazoo.security import OPEN_ACL_UNSAFE

from zk_schema.operations import (
    MAX_MULTI_BYTES,
    MAX_MULTI_OPERATIONS,
    BadVersion,
    Check,
    Create,
    Delete,
    MultiTooLarge,
    NodeError,
    Operation,
    Set,
    check_size,
    chunks,
    size,
)

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=50).map("/{}".format)
operations = st.one_of(
    st.builds(Create, texts, st.binary(max_size=3000)),
    st.builds(Set, texts, st.binary(max_size=3000), st.integers(0, 9)),
    st.builds(Delete, texts),
    st.builds(Check, texts, st.integers(-1, 9)),
)


@given(texts, st.binary(max_size=200))
def test_measured_size_is_never_below_the_bytes_on_the_wire(path: str, data: bytes) -> None:
    """A multi that passes the measure fits into a request (F5)."""
    header = len(MultiHeader(1, False, -1).serialize())

    assert size(Create(path, data)) >= header + len(WireCreate(path, data, OPEN_ACL_UNSAFE, 0).serialize())
    assert size(Set(path, data, 3)) >= header + len(SetData(path, data, 3).serialize())


@given(st.lists(operations, max_size=300))
def test_chunks_keep_order_and_leave_room_for_what_goes_with_each(work: list[Operation]) -> None:
    """Nothing is lost or moved, and every chunk fits with its reserve."""
    reserve = [Check("/controller_epoch", 7)]

    cut = chunks(work, reserve)

    assert [one for chunk in cut for one in chunk] == work
    for chunk in cut:
        check_size([*reserve, *chunk])


def test_too_many_operations_are_refused() -> None:
    """The limit of operations holds even where the bytes would fit."""
    work = [Delete("/x")] * (MAX_MULTI_OPERATIONS + 1)

    with pytest.raises(MultiTooLarge, match="2001 operations"):
        check_size(work)
    assert [len(chunk) for chunk in chunks(work)] == [MAX_MULTI_OPERATIONS, 1]


def test_chroot_counts_in_every_path() -> None:
    """What fits at the root may be too much below a long chroot."""
    work: list[Operation] = [Create("/x", bytes(MAX_MULTI_BYTES - 200))]
    check_size(work)

    with pytest.raises(MultiTooLarge):
        check_size(work, prefix=200)


def test_error_in_a_multi_names_its_operation() -> None:
    """Whoever reads the log knows which part failed."""
    problem = BadVersion("/a", Set("/a", b"", 1), 2)

    assert isinstance(problem, NodeError)
    assert str(problem) == "/a: not at the expected version (operation 2, Set, of a multi)"
