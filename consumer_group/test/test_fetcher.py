"""Promises of the fetcher, over brokers that are plain values: leaders that move, logs that were cut, bad bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from consumer_group.deliveries import Deliveries, Flow
from consumer_group.errors import CorruptRecordError, LogTruncationError, OffsetOutOfRangeError
from consumer_group.fetcher import Fetcher
from consumer_group.settings import Settings
from consumer_group.types import OffsetAndTimestamp
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.errors import KafkaError, NetworkException
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import BrokerAddress, MetadataView, PartitionView, TopicView
from kafka_wire.records import Record, encode_batch
from kafka_wire.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

TP = TopicPartition("t", 0)
ID = b"t" * 16


def view_of(leaders: dict[int, tuple[int, int]]) -> MetadataView:
    """Metadata: partition -> (leader, epoch)."""
    partitions = {
        index: PartitionView(leader, epoch, (1, 2), (1, 2), (), 0) for index, (leader, epoch) in leaders.items()
    }
    brokers = {number: BrokerAddress(number, "h", number, None) for number in (1, 2)}
    return MetadataView(brokers, {"t": TopicView("t", ID, False, 0, partitions)}, 1, None, True)


def batch(start: int, count: int = 3, epoch: int = 0) -> bytes:
    """A batch."""
    return encode_batch([Record(0, 0, None, b"v")] * count, base_offset=start, leader_epoch=epoch)


def answer(index: int = 0, records: bytes = b"", error: int = 0) -> FetchResponse:
    """The answer of a leader for one partition."""
    data = PartitionData(partition_index=index, error_code=error, high_watermark=100, records=memoryview(records))
    return FetchResponse(responses=[FetchableTopicResponse(ID, [data])])


@attrs.define(eq=False)
class Asked:
    """A request that waits for its answer."""

    broker: int
    api: Api
    body: Any
    done: Deferred[Any] = attrs.field(factory=Deferred)


class FakeBrokers:
    """Brokers whose answers the test gives."""

    def __init__(self) -> None:
        self.view = view_of({0: (1, 0), 1: (1, 0), 2: (2, 0)})
        self.next_view = self.view
        self.asked: deque[Asked] = deque()
        self.first: dict[TopicPartition, int] = {}
        self.refreshed = 0
        self.problem: KafkaError | None = None
        self.closed = False

    def metadata(self, topics: Iterable[str], refresh: bool = False) -> Deferred[MetadataView]:
        """Fresh metadata."""
        self.refreshed += 1
        if self.problem is not None:
            return fail(self.problem)
        self.view = self.next_view
        return succeed(self.view)

    def request(self, broker: int, api: Api, body: Any, timeout: float | None = None, **options: Any) -> Deferred[Any]:
        """A question to a broker."""
        self.asked.append(Asked(broker, api, body))
        return self.asked[-1].done

    async def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[Any, Any]:
        """ListOffsets."""
        return {one: OffsetAndTimestamp(self.first.get(one, 0), 0, 0) for one in partitions}

    def close(self) -> None:
        """Hang up."""
        self.closed = True


class Scene:
    """A fetcher with flows."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.brokers = FakeBrokers()
        self.settings = Settings(auto_offset_reset=settings.pop("reset", "earliest"), **settings)
        self.deliveries = Deliveries(on_hunger=self._hungry, max_bytes=self.settings.max_buffered_bytes)
        self.fetcher = Fetcher(
            self.clock,
            self.brokers,  # type: ignore[arg-type]
            self.deliveries,
            self.settings,
            reset_timestamp=-2,
            uniform=lambda low, high: 1.0,
        )

    def _hungry(self) -> None:
        self.fetcher.wake()

    def flow(self, partition: TopicPartition = TP, position: int = 0) -> Flow:
        """A flow that the application knows of."""
        flow = Flow(partition, ID, 0)
        self.deliveries.open(flow)
        self.deliveries.started(flow, position, position)
        self.deliveries.begin_poll(self.deliveries.lane(0))
        return flow

    def wake(self) -> Asked:
        """Wakes the fetcher and gives the one request that it sends."""
        self.fetcher.wake()
        return self.only()

    def only(self) -> Asked:
        """The one request under way."""
        assert len(self.brokers.asked) == 1, self.brokers.asked
        return self.brokers.asked.popleft()

    def problem(self) -> Exception:
        """What the application would get."""
        taken = self.deliveries.take(self.deliveries.lane(0))
        assert taken is not None
        assert taken[1].problem is not None
        return taken[1].problem


def offsets_of(request: FetchRequest) -> dict[int, int]:
    """What a request asks for."""
    return {one.partition: one.fetch_offset for topic in request.topics for one in topic.partitions}


def test_one_request_for_each_leader_with_all_its_partitions() -> None:
    """Several partitions in one request; nothing more is asked of a leader that has not answered."""
    scene = Scene()
    for index in range(3):
        scene.flow(TopicPartition("t", index), index * 10)
    scene.fetcher.wake()
    scene.fetcher.wake()
    assert [(one.broker, offsets_of(one.body)) for one in scene.brokers.asked] == [(1, {0: 0, 1: 10}), (2, {2: 20})]


def test_answer_is_stored_and_the_next_offset_is_asked_for() -> None:
    """The consumer works out the next offset itself (P21)."""
    scene = Scene()
    flow = scene.flow()
    scene.wake().done.callback(answer(records=batch(0) + batch(3) + batch(6)[:40]))
    assert (flow.fetch_position, len(flow.chunks), flow.high_watermark) == (6, 1, 100)
    assert offsets_of(scene.only().body) == {0: 6}


def test_prefetch_is_bounded_in_bytes_and_goes_on_when_there_is_room() -> None:
    """A slow application does not fill the memory."""
    scene = Scene(max_buffered_bytes=50)
    flow = scene.flow()
    scene.wake().done.callback(answer(records=batch(0)))
    assert not scene.brokers.asked
    lane = scene.deliveries.lane(0)
    taken = scene.deliveries.take(lane)
    assert taken is not None
    taken[1].take(TP, 10)
    scene.deliveries.delivered(flow, taken[1], 3)
    assert offsets_of(scene.only().body) == {0: 3}


def test_one_partition_full_the_others_are_not_kept_waiting_for_long() -> None:
    """A long poll for idle partitions would hold up the one that the application is emptying."""
    scene = Scene(max_partition_fetch_bytes=50)
    scene.flow()
    scene.flow(TopicPartition("t", 1))
    first = scene.wake()
    assert first.body.max_wait_ms == 500
    first.done.callback(answer(records=batch(0)))
    second = scene.only()
    assert offsets_of(second.body) == {1: 0}
    assert second.body.max_wait_ms == 20


def test_B12_leader_moves_fetching_goes_on_at_the_new_one() -> None:
    """Metadata is asked for again after a pause; the flow stays."""
    scene = Scene()
    flow = scene.flow()
    scene.brokers.next_view = view_of({0: (2, 1)})
    scene.wake().done.callback(answer(error=errors.NOT_LEADER_OR_FOLLOWER))
    assert not scene.brokers.asked
    scene.clock.advance(0.2)
    moved = scene.only()
    assert (moved.broker, offsets_of(moved.body), flow.live) == (2, {0: 0}, True)


def test_broker_does_not_answer_others_are_fetched_meanwhile() -> None:
    """A dead broker is tried again after a pause, and fresh metadata is asked for."""
    scene = Scene()
    scene.flow()
    scene.flow(TopicPartition("t", 2))
    scene.fetcher.wake()
    dead, alive = scene.brokers.asked
    scene.brokers.asked.clear()
    dead.done.errback(NetworkException("gone"))
    assert not scene.brokers.asked
    alive.done.callback(answer(2, batch(0)))
    assert scene.only().broker == 2
    scene.clock.advance(0.2)
    assert (scene.only().broker, scene.brokers.refreshed) == (1, 1)


def test_no_leader_metadata_is_asked_for_with_growing_pauses() -> None:
    """Nobody is hammered."""
    scene = Scene()
    scene.flow()
    scene.brokers.view = scene.brokers.next_view = view_of({0: (-1, 0)})
    scene.fetcher.wake()
    for _ in range(40):
        scene.clock.advance(0.1)
    assert 4 <= scene.brokers.refreshed <= 9
    scene.brokers.next_view = view_of({0: (2, 1)})
    scene.clock.advance(1.5)
    assert scene.only().broker == 2


def moved_after_reading(scene: Scene, end_offset: int) -> Flow:
    """A flow that has read to 3 in epoch 0; the new leader of epoch 1 says where epoch 0 ended."""
    flow = scene.flow()
    scene.wake().done.callback(answer(records=batch(0)))
    scene.only().done.callback(answer(error=errors.FENCED_LEADER_EPOCH))
    scene.brokers.next_view = view_of({0: (2, 1)})
    scene.clock.advance(0.2)
    check = scene.only()
    assert (check.broker, check.api) == (2, Api.OFFSET_FOR_LEADER_EPOCH)
    found = EpochEndOffset(partition=0, leader_epoch=0, end_offset=end_offset)
    check.done.callback(OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", [found])]))
    return flow


def test_R28_new_leader_has_everything_fetching_goes_on() -> None:
    """The position is checked once for each new epoch."""
    scene = Scene()
    moved_after_reading(scene, 3)
    fetch = scene.only()
    assert (fetch.broker, offsets_of(fetch.body)) == (2, {0: 3})
    assert fetch.body.topics[0].partitions[0].current_leader_epoch == 1


def test_R28_new_leader_lacks_what_we_read_go_back_to_where_the_logs_part() -> None:
    """Records that replaced the lost ones are read."""
    scene = Scene()
    moved_after_reading(scene, 1)
    assert offsets_of(scene.only().body) == {0: 1}


def test_R28_reset_none_the_application_is_told_of_the_truncation() -> None:
    """`none` means: never move by yourself."""
    scene = Scene(reset="none")
    flow = moved_after_reading(scene, 1)
    lane = scene.deliveries.lane(0)
    taken = scene.deliveries.take(lane)
    assert taken is not None
    taken[1].take(TP, 10)
    scene.deliveries.delivered(flow, taken[1], 3)
    problem = scene.problem()
    assert isinstance(problem, LogTruncationError)
    assert (problem.partition, problem.offset) == (TP, 1)
    assert not scene.brokers.asked


def test_out_of_range_goes_where_the_setting_says() -> None:
    """Retention was faster than we."""
    scene = Scene()
    scene.brokers.first[TP] = 40
    scene.flow(position=7)
    scene.wake().done.callback(answer(error=errors.OFFSET_OUT_OF_RANGE))
    assert offsets_of(scene.only().body) == {0: 40}
    assert scene.deliveries.position(TP) == 40


def test_out_of_range_reset_none_raises_until_the_application_seeks() -> None:
    """The application decides."""
    scene = Scene(reset="none")
    scene.flow(position=7)
    scene.wake().done.callback(answer(error=errors.OFFSET_OUT_OF_RANGE))
    assert isinstance(scene.problem(), OffsetOutOfRangeError)
    assert not scene.brokers.asked
    scene.deliveries.seek(TP, 2)
    assert offsets_of(scene.wake().body) == {0: 2}


@pytest.mark.parametrize(
    ("records", "text"),
    [(b"\0" * 80, "cannot be read at offset 0"), (batch(0)[:30], "no whole batch")],
    ids=["damaged", "cut"],
)
def test_bytes_that_are_no_batch_the_error_names_the_offset(records: bytes, text: str) -> None:
    """The application may seek past them."""
    scene = Scene()
    scene.flow()
    scene.wake().done.callback(answer(records=records))
    problem = scene.problem()
    assert isinstance(problem, CorruptRecordError)
    assert text in problem.message


def test_seek_while_a_fetch_is_under_way_its_answer_is_void() -> None:
    """Old bytes do not come after a seek."""
    scene = Scene()
    flow = scene.flow()
    under_way = scene.wake()
    scene.deliveries.seek(TP, 50)
    under_way.done.callback(answer(records=batch(0)))
    assert not flow.chunks
    assert offsets_of(scene.only().body) == {0: 50}


def refusals() -> list[Callable[[Scene, Flow], None]]:
    """What makes a flow not be fetched."""
    return [
        lambda scene, flow: scene.deliveries.set_paused([TP], True),
        lambda scene, flow: scene.deliveries.lose([flow]),
        lambda scene, flow: scene.fetcher.stop(),
    ]


@pytest.mark.parametrize("refuse", refusals(), ids=["paused", "lost", "stopped"])
def test_flow_that_wants_nothing_is_not_fetched(refuse: Callable[[Scene, Flow], None]) -> None:
    """Neither paused nor lost partitions, nor anything after the end."""
    scene = Scene()
    refuse(scene, scene.flow())
    scene.fetcher.wake()
    assert not scene.brokers.asked
