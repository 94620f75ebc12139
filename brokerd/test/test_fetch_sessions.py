"""Fetch sessions: a model of what the client believes must agree with what the broker keeps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.fetch_sessions import EVICT_AFTER_SECONDS, FetchSessions, Session
from kafka_wire import errors
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


def sessions(slots: int = 2) -> FetchSessions:
    """A cache whose ids are 1, 2, 3, ..."""
    counter = itertools.count(1)
    return FetchSessions(slots, lambda: next(counter))


def asks(
    session_id: int, epoch: int, *partitions: tuple[str, int, int], forget: tuple[str, int] | None = None
) -> FetchRequest:
    """A request for (topic, partition, offset)."""
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic=topic, partitions=[FetchPartition(index, fetch_offset=offset)])
            for topic, index, offset in partitions
        ],
        forgotten_topics_data=[ForgottenTopic(topic=forget[0], partitions=[forget[1]])] if forget else (),
    )


def offsets(session: Session | None) -> dict[tuple[str, int], int]:
    """What a session asks for."""
    assert session is not None
    return {(entry.topic, entry.asked.partition): entry.asked.fetch_offset for entry in session.entries.values()}


def test_request_without_session_opens_none() -> None:
    cache = sessions()
    assert cache.find(asks(0, -1, ("a", 0, 0)), False, 0.0) is None
    assert len(cache) == 0


def test_session_goes_on_with_what_it_was_told() -> None:
    cache = sessions()
    opened = cache.find(asks(0, 0, ("a", 0, 5), ("b", 1, 7)), False, 0.0)
    assert opened is not None
    assert offsets(cache.find(asks(opened.session_id, 1), False, 0.0)) == {("a", 0): 5, ("b", 1): 7}
    assert offsets(cache.find(asks(1, 2, ("a", 0, 6), forget=("b", 1)), False, 0.0)) == {("a", 0): 6}


def test_wrong_epoch_and_unknown_id_are_refused_and_change_nothing() -> None:
    cache = sessions()
    cache.find(asks(0, 0, ("a", 0, 5)), False, 0.0)
    with pytest.raises(errors.InvalidFetchSessionEpoch):
        cache.find(asks(1, 2, ("a", 0, 9)), False, 0.0)
    with pytest.raises(errors.FetchSessionIdNotFound):
        cache.find(asks(9, 1), False, 0.0)
    with pytest.raises(errors.FetchSessionTopicIdError):
        cache.find(asks(1, 1), True, 0.0)
    assert offsets(cache.find(asks(1, 1), False, 0.0)) == {("a", 0): 5}


def test_last_request_closes_the_session() -> None:
    cache = sessions()
    cache.find(asks(0, 0, ("a", 0, 5)), False, 0.0)
    assert cache.find(asks(1, -1, ("a", 0, 5)), False, 0.0) is None
    with pytest.raises(errors.FetchSessionIdNotFound):
        cache.find(asks(1, 1), False, 0.0)


def test_full_cache_refuses_until_a_session_is_old() -> None:
    cache = sessions(slots=1)
    cache.find(asks(0, 0, ("a", 0, 0)), False, 0.0)
    assert cache.find(asks(0, 0, ("b", 0, 0)), False, 10.0) is None
    assert cache.find(asks(0, 0, ("b", 0, 0)), False, EVICT_AFTER_SECONDS) is not None
    assert len(cache) == 1


def test_cache_without_places_opens_none() -> None:
    assert sessions(slots=0).find(asks(0, 0, ("a", 0, 0)), False, 0.0) is None


def test_served_partition_comes_last_next_time() -> None:
    cache = sessions()
    session = cache.find(asks(0, 0, ("a", 0, 0), ("b", 0, 0), ("c", 0, 0)), False, 0.0)
    assert session is not None
    session.served([("a", 0)])
    assert [name for name, _ in offsets(session)] == ["b", "c", "a"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.one_of(st.none(), st.integers(0, 99)))))
def test_any_sequence_of_changes_leaves_what_the_client_believes(changes: list[tuple[str, int, int | None]]) -> None:
    cache = sessions()
    assert cache.find(asks(0, 0), False, 0.0) is not None
    believed: dict[tuple[str, int], int] = {}
    for epoch, (topic, index, offset) in enumerate(changes, 1):
        if offset is None:
            request = asks(1, epoch, forget=(topic, index))
            believed.pop((topic, index), None)
        else:
            request = asks(1, epoch, (topic, index, offset))
            believed[topic, index] = offset
        assert offsets(cache.find(request, False, 0.0)) == believed
