"""Promises of polling and iterating: all messages, in order, once per claim; handled is what was returned from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer_group.chunks import Chunk
from consumer_group.deliveries import Deliveries, Flow
from consumer_group.errors import CorruptRecordError
from consumer_group.polling import Poller
from consumer_group.types import ConsumerRebalanceListener
from kafka_wire.ids import TopicPartition
from kafka_wire.records import Record, encode_batch

TP = TopicPartition("t", 0)


def batch(start: int, count: int) -> bytes:
    """A batch whose values are its offsets."""
    return encode_batch([Record(0, 0, None, b"%d" % (start + n)) for n in range(count)], base_offset=start)


class Scene(ConsumerRebalanceListener):
    """A poller over one partition, and what the listener heard."""

    def __init__(self, *sizes: int, start: int = 0, slice_size: int = 3, **options: Any) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []
        self.given: list[Flow] = []
        self.at_assigned: Callable[[], None] = lambda: None
        self.at_revoked: Callable[[], None] = lambda: None
        self.deliveries = Deliveries()
        self.flow = Flow(TP, b"", 0)
        self.poller = Poller(
            self.deliveries,
            self.deliveries.lane(0),
            self._hand_over,
            listener=lambda: self,
            slice_size=slice_size,
            **options,
        )
        self.deliveries.open(self.flow)
        self.deliveries.started(self.flow, start, start)
        data, end = b"", 0
        for size in sizes:
            data += batch(end, size)
            end += size
        if data:
            self.deliveries.add(self.flow, Chunk(data, start, end), 0)

    def _hand_over(self, flows: Sequence[Flow]) -> None:
        self.given += flows

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.heard.append(("assigned", list(assigned)))
        self.at_assigned()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", list(revoked)))
        self.at_revoked()


sizes = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@given(sizes, st.integers(0, 5), st.integers(1, 6))
def test_poll_gives_every_record_from_the_position_once(counts: list[int], start: int, limit: int) -> None:
    """Whatever the batches and the limit, nothing is left out and nothing comes twice."""
    start = min(start, sum(counts) - 1)
    scene = Scene(*counts, start=start)
    offsets: list[int] = []
    while found := scene.poller.poll(0, limit):
        assert sum(map(len, found.values())) <= limit
        offsets += [record.offset for record in found[TP]]
    assert offsets == list(range(start, sum(counts)))
    assert scene.deliveries.position(TP) == sum(counts)


@given(sizes, st.integers(0, 5), st.sampled_from(["records", "values", "batches"]))
def test_any_iteration_gives_every_message_from_the_position_once(counts: list[int], start: int, kind: str) -> None:
    """Records, values and batches are three views of the same."""
    start = min(start, sum(counts) - 1)
    scene = Scene(*counts, start=start)
    if kind == "records":
        offsets = [record.offset for record in scene.poller.records(0)]
    elif kind == "values":
        offsets = [int(value or b"") for value in scene.poller.values(0)]
    else:
        offsets = [record.offset for one in scene.poller.batches(0) for record in one]
    assert offsets == list(range(start, sum(counts)))
    assert scene.flow.handled == sum(counts)


@given(sizes, st.integers(0, 20), st.sampled_from(["records", "values"]))
def test_iteration_interrupted_handles_exactly_what_was_given(counts: list[int], stop_after: int, kind: str) -> None:
    """A revocation in the middle: what the application came back from is committed, and nothing else."""
    scene = Scene(*counts)
    iteration = iter(scene.poller.records(0) if kind == "records" else scene.poller.values(0))
    given_out = 0
    for _ in iteration:
        given_out += 1
        if given_out == stop_after:
            scene.deliveries.revoke([scene.flow])
    if 0 < stop_after <= sum(counts):
        assert given_out == stop_after
        assert scene.given == [scene.flow]
        assert scene.deliveries.proven_of(scene.flow) == stop_after
    else:
        assert given_out == sum(counts)


def test_exception_in_the_loop_the_record_in_hand_is_not_handled() -> None:
    """It comes again after a restart."""
    scene = Scene(5)
    iteration = scene.poller.records(0)
    next(iteration), next(iteration)
    iteration.close()  # type: ignore[attr-defined]
    assert (scene.flow.position, scene.flow.handled) == (2, 1)
    assert [record.offset for record in scene.poller.records(0)] == [2, 3, 4]


def test_listener_is_told_first_and_may_move_the_position() -> None:
    """`assigned` runs before the first record."""
    scene = Scene(5)
    scene.at_assigned = lambda: scene.deliveries.seek(TP, 3)
    assert scene.poller.poll(0, 10) == {}
    assert scene.deliveries.position(TP) == 3


def test_revoked_partition_is_handed_over_even_if_the_listener_fails() -> None:
    """A broken callback must not hold up the group."""
    scene = Scene()
    scene.poller.poll(0, 10)

    def broken() -> None:
        raise ValueError("mine")

    scene.at_revoked = broken
    scene.deliveries.revoke([scene.flow])
    with pytest.raises(ValueError, match="mine"):
        scene.poller.poll(0, 10)
    assert scene.given == [scene.flow]


def test_lost_is_revoked_for_listeners_that_do_not_tell_them_apart() -> None:
    """kafka-python's listeners know no `lost`."""
    scene = Scene()
    scene.poller.poll(0, 10)
    scene.deliveries.lose([scene.flow])
    scene.poller.poll(0, 10)
    assert scene.heard == [("assigned", [TP]), ("revoked", [TP])]


def test_corrupt_batch_good_records_come_first_then_the_error_names_the_offset() -> None:
    """The application learns where, and how to go on."""
    scene = Scene()
    bad = bytearray(batch(2, 3))
    bad[-2] ^= 255
    scene.deliveries.add(scene.flow, Chunk(batch(0, 2) + bytes(bad) + batch(5, 1), 0, 6), 0)
    assert [record.offset for record in scene.poller.poll(0, 10)[TP]] == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="t-0 cannot be read at offset 2") as caught:
            scene.poller.poll(0, 10)
    assert (caught.value.partition, caught.value.offset, caught.value.next_offset) == (TP, 2, 5)
    assert scene.flow.handled == 2


def test_deserializers_functions_and_objects() -> None:
    """As kafka-python takes them."""

    class Upper:
        def deserialize(self, topic: str, data: bytes | None) -> str:
            return f"{topic}:{(data or b'').decode()}"

    scene = Scene(2, value_deserializer=Upper(), key_deserializer=lambda data: "none")
    seen: list[Any] = [(record.key, record.value) for record in scene.poller.poll(0, 5)[TP]]
    assert seen == [("none", "t:0"), ("none", "t:1")]


def test_deserializer_fails_the_record_comes_again() -> None:
    """Nothing is skipped because it could not be read."""

    def fails(data: bytes | None) -> None:
        raise ValueError("not mine")

    scene = Scene(2, value_deserializer=fails)
    for _ in range(2):
        with pytest.raises(ValueError, match="not mine"):
            scene.poller.poll(0, 5)
    assert scene.flow.position == 0


def test_poll_within_an_iteration_goes_on_behind_it() -> None:
    """The iteration gives nothing twice afterwards."""
    scene = Scene(6)
    iteration = scene.poller.records(0)
    assert next(iteration).offset == 0
    assert [record.offset for record in scene.poller.poll(0, 2)[TP]] == [1, 2]
    assert [record.offset for record in iteration] == [3, 4, 5]
