"""Promises of what stands between engine and application: who gets what, when, and what counts as handled."""

from __future__ import annotations

import threading

import pytest

from consumer_group.chunks import Chunk
from consumer_group.deliveries import Deliveries, Flow, FlowState, Slice, TaskKind
from kafka_wire.ids import TopicPartition
from kafka_wire.records import Record, encode_batch

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def chunk_of(start: int, count: int) -> Chunk:
    """A chunk with one batch."""
    data = encode_batch([Record(0, 0, None, b"%d" % (start + n)) for n in range(count)], base_offset=start)
    return Chunk(data, start, start + count)


class Scene:
    """Deliveries with one flow, which the application has been told of."""

    def __init__(self, **options: object) -> None:
        self.lease = True
        self.hunger = 0
        self.deliveries = Deliveries(lease_valid=lambda: self.lease, on_hunger=self._hungry, **options)  # type: ignore[arg-type]
        self.lane = self.deliveries.lane(0)
        self.flow = self.open(TP)
        self.deliveries.begin_poll(self.lane)

    def _hungry(self) -> None:
        self.hunger += 1

    def open(self, partition: TopicPartition, position: int = 0) -> Flow:
        """A claim that has begun."""
        flow = Flow(partition, b"", 0)
        self.deliveries.open(flow)
        self.deliveries.started(flow, position, position)
        return flow

    def deliver(self, upto: int | None = None) -> None:
        """One poll: everything, or up to an offset, of the first chunk."""
        taken = self.deliveries.take(self.lane)
        assert taken is not None
        flow, chunk = taken
        chunk.take(flow.partition, 100 if upto is None else upto - chunk.offset)
        assert self.deliveries.delivered(flow, chunk, chunk.next_offset if upto is None else upto)


@pytest.fixture
def scene() -> Scene:
    """A scene."""
    return Scene()


def test_nothing_is_delivered_before_the_application_was_told() -> None:
    """`assigned` comes first, so that it may seek."""
    deliveries = Deliveries()
    flow = Flow(TP, b"", 0)
    deliveries.open(flow)
    deliveries.started(flow, 0, 0)
    deliveries.add(flow, chunk_of(0, 3), 0)
    lane = deliveries.lane(0)
    assert deliveries.take(lane) is None
    assert [task.kind for task in deliveries.begin_poll(lane)] == [TaskKind.ASSIGNED]
    assert deliveries.take(lane) is not None


def test_B15_delivered_counts_as_handled_at_the_next_poll(scene: Scene) -> None:
    """What an application has just been given is not committed behind its back."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    scene.deliver()
    assert scene.deliveries.position(TP) == 3
    assert scene.deliveries.proven() == {}
    scene.deliveries.begin_poll(scene.lane)
    assert scene.deliveries.proven() == {TP: (scene.flow, 3)}


def test_iterating_everything_before_the_one_in_hand_is_handled(scene: Scene) -> None:
    """An automatic commit in the middle of an iteration leaves out the record being worked on."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    taken = scene.deliveries.take(scene.lane)
    assert taken is not None
    records = taken[1].take(TP, 10)
    held = Slice(scene.flow, taken[1])
    assert scene.deliveries.hold(scene.lane, held)
    held.in_hand = records[1]
    assert scene.deliveries.proven() == {TP: (scene.flow, 1)}
    assert scene.deliveries.position(TP) == 2
    assert scene.deliveries.consumed() == {TP: (scene.flow, 2)}


def test_iteration_broken_off_the_rest_comes_again(scene: Scene) -> None:
    """What was not come to is delivered later, and the one in hand is not taken for handled."""
    scene.deliveries.add(scene.flow, chunk_of(0, 5), 0)
    taken = scene.deliveries.take(scene.lane)
    assert taken is not None
    records = taken[1].take(TP, 10)
    held = Slice(scene.flow, taken[1])
    scene.deliveries.hold(scene.lane, held)
    held.in_hand = records[1]
    held.stop = True
    scene.deliveries.put_down(scene.lane, held, proven=False)
    assert (scene.flow.position, scene.flow.handled) == (2, 1)
    again = scene.deliveries.take(scene.lane)
    assert again is not None
    assert [record.offset for record in again[1].take(TP, 10)] == [2, 3, 4]


def test_B19_lease_over_nothing_is_delivered(scene: Scene) -> None:
    """The lease is asked at the moment of use, also between taking and delivering."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    taken = scene.deliveries.take(scene.lane)
    assert taken is not None
    scene.lease = False
    assert not scene.deliveries.delivered(scene.flow, taken[1], 3)
    assert not scene.deliveries.hold(scene.lane, Slice(scene.flow, taken[1]))
    assert scene.deliveries.take(scene.lane) is None


def test_B7_revoked_stops_at_once_and_waits_for_the_application(scene: Scene) -> None:
    """Buffered records are dropped, the application is told in its next poll."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    assert scene.deliveries.revoke([scene.flow]) == []
    assert scene.flow.state is FlowState.HANDING
    assert scene.flow.buffered == 0
    assert scene.deliveries.take(scene.lane) is None
    assert not scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    assert [task.kind for task in scene.deliveries.begin_poll(scene.lane)] == [TaskKind.REVOKED]


def test_revoked_before_the_application_heard_of_it_goes_back_at_once(scene: Scene) -> None:
    """Nothing to let go of."""
    flow = Flow(OTHER, b"", 0)
    scene.deliveries.open(flow)
    assert scene.deliveries.revoke([flow]) == [flow]
    assert not flow.live
    assert not scene.deliveries.started(flow, 0, 0)


def test_lost_with_records_in_hand_a_commit_must_say_so(scene: Scene) -> None:
    """B17: until the next poll, what was delivered and not committed is remembered as lost."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    scene.deliver()
    scene.deliveries.lose([scene.flow])
    assert scene.deliveries.lost() == [TP]
    assert scene.deliveries.consumed() == {}
    assert [task.kind for task in scene.deliveries.begin_poll(scene.lane)] == [TaskKind.LOST]
    assert scene.deliveries.lost() == []


def test_seek_voids_what_is_under_way(scene: Scene) -> None:
    """An answer to a request from before the seek is not taken."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    scene.deliveries.seek(TP, 40)
    assert not scene.deliveries.add(scene.flow, chunk_of(3, 3), 0)
    assert scene.deliveries.add(scene.flow, chunk_of(40, 2), scene.flow.seeks)
    assert scene.deliveries.position(TP) == 40


def test_B15_only_a_seek_back_lets_a_commit_go_back(scene: Scene) -> None:
    """Forward is no rewinding."""
    scene.deliveries.seek(TP, 40)
    assert not scene.flow.rewound
    scene.deliveries.seek(TP, 7)
    assert scene.flow.rewound


def test_paused_keeps_its_buffer_and_waits(scene: Scene) -> None:
    """Nothing is lost by a pause."""
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    scene.deliveries.set_paused([TP], True)
    assert scene.deliveries.take(scene.lane) is None
    scene.deliveries.set_paused([TP], False)
    assert scene.deliveries.take(scene.lane) is not None


def test_partitions_take_turns(scene: Scene) -> None:
    """A busy partition does not starve another."""
    scene.open(OTHER)
    scene.deliveries.begin_poll(scene.lane)
    for flow in scene.deliveries.flows():
        scene.deliveries.add(flow, chunk_of(0, 3), 0)
    seen = set()
    for _ in range(2):
        taken = scene.deliveries.take(scene.lane)
        assert taken is not None
        seen.add(taken[0].partition)
    assert seen == {TP, OTHER}


def test_full_buffer_asks_for_more_only_when_there_is_room() -> None:
    """The fetcher is told once, not for every record."""
    scene = Scene(max_bytes=10)
    scene.deliveries.add(scene.flow, chunk_of(0, 3), 0)
    assert scene.deliveries.is_full
    scene.deliver()
    assert scene.hunger == 1
    assert not scene.deliveries.is_full


def test_failure_is_raised_by_the_next_poll_once(scene: Scene) -> None:
    """The application hears of what it must know."""
    scene.deliveries.fail(ValueError("the other kind"))
    with pytest.raises(ValueError, match="other kind"):
        scene.deliveries.begin_poll(scene.lane)
    assert scene.deliveries.begin_poll(scene.lane) == []


def test_waiting_ends_when_something_comes(scene: Scene) -> None:
    """A blocked poll wakes up for data, and for the end."""
    came: list[bool] = []
    waiting = threading.Thread(target=lambda: came.append(scene.deliveries.wait(scene.lane, 10)))
    waiting.start()
    scene.deliveries.add(scene.flow, chunk_of(0, 1), 0)
    waiting.join(10)
    assert came == [True]
    scene.deliveries.close()
    assert scene.deliveries.take(scene.lane) is None
    assert scene.deliveries.wait(scene.lane, 10)
