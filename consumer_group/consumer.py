"""The paper's consumer for applications: kafka-python's names and meanings, blocking, safe to use from several threads.

    with Consumer("logs", group_id="reports", zookeeper_connect="localhost:2181") as consumer:
        for record in consumer:
            handle(record.value)

Brokers are found through ZooKeeper, and so are the other members of the group: no broker decides anything for it. The
group is joined at the first poll, iteration or `create_streams`. At least once: what an automatic commit commits was
handled, because the application came back for more (B15); `close` counts as coming back, leaving a `with` block by an
exception does not.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from consumer_group import reactor_thread
from consumer_group.asynchronous import spawn
from consumer_group.chunks import MessageBatch
from consumer_group.deliveries import Flow, FlowState
from consumer_group.errors import CommitFailedError, IllegalStateError, KafkaTimeoutError
from consumer_group.life import ConsumerLife
from consumer_group.polling import NEVER, Poller, milliseconds
from consumer_group.settings import Settings
from consumer_group.streams import MessageStream
from consumer_group.types import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from kafka_wire.ids import TopicPartition
from zk_schema.consumer_nodes import Registration

T = TypeVar("T")

_EARLIEST, _LATEST = -2, -1
_STEP_SECONDS = 0.05


class Consumer:
    """A member of a consumer group; or, without `group_id`, a reader of partitions that it is given by `assign`."""

    def __init__(
        self,
        *topics: str,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        consumer_timeout_ms: float | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are those of `Settings`; TypeError names one that there is not. After `consumer_timeout_ms`
        without a message an iteration ends; without it, it never does."""
        self.settings = Settings.of(settings)
        self._deserializers = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        self._patience = NEVER if consumer_timeout_ms is None else consumer_timeout_ms / 1000
        self._lock = threading.RLock()
        self._life: ConsumerLife | None = None
        self._closing = False
        self._closed = False
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._listener: ConsumerRebalanceListener | None = None
        self._streams = 1
        self._pollers: list[Poller] = []
        self._iterator: Iterator[ConsumerRecord] | None = None
        if topics:
            self.subscribe(topics)

    # --- subscription ---

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches a regular expression, also those that appear later.

        It replaces the subscription before it; what stays subscribed stays assigned.
        """
        if isinstance(topics, str):
            raise TypeError("topics are a list of names, not one text")
        if bool(topics) == (pattern is not None):
            raise IllegalStateError("subscribe to topics or to a pattern")
        if pattern is not None:
            re.compile(pattern)
        with self._lock:
            self._check_open()
            if self._assigned is not None:
                raise IllegalStateError("partitions were assigned by hand; unsubscribe first")
            self._topics, self._pattern, self._listener = tuple(sorted(set(topics))), pattern, listener
            self._registration_changed()

    def unsubscribe(self) -> None:
        """Read nothing any more; the group goes on without this member's share."""
        with self._lock:
            self._topics, self._pattern, self._assigned = (), None, None
            self._registration_changed()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, whatever others read; only for a consumer without a group."""
        if self.settings.group_id is not None:
            raise IllegalStateError("members of a group do not assign by hand; make a consumer without group_id")
        with self._lock:
            self._check_open()
            self._assigned = tuple(sorted(set(partitions)))
            if self._life is not None:
                self._call(self._life.assign, self._assigned)

    def subscription(self) -> set[str]:
        """The topics that it subscribes to by name."""
        return set(self._topics)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that it owns now and that the application was told of."""
        life = self._life
        if life is None:
            return set()
        return {flow.partition for flow in life.deliveries.flows() if flow.state is not FlowState.STARTING}

    def create_streams(self, count: int) -> list[MessageStream]:
        """The paper's message streams: so many iterators that never end, one for each thread of the application.

        The member's partitions are spread evenly over them; in Algorithm 1 each counts as a consumer of its own.
        """
        if count < 1:
            raise ValueError("at least one stream")
        with self._lock:
            self._check_open()
            self._streams = count
            life = self._started()
            life.deliveries.set_lanes(count)
            while len(self._pollers) < count:
                self._pollers.append(self._poller(len(self._pollers)))
            self._registration_changed()
            return [MessageStream(poller, self._patience) for poller in self._pollers[:count]]

    # --- messages ---

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Messages by partition, as soon as there are any; an empty dict after `timeout_ms`."""
        limit = self.settings.max_poll_records if max_records is None else max_records
        return self._main().poll(milliseconds(timeout_ms, 0.0), limit)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self._main().records(self._patience)

    def __next__(self) -> ConsumerRecord:
        if self._iterator is None:
            self._iterator = iter(self)
        try:
            return next(self._iterator)
        except BaseException:
            self._iterator = None
            raise

    def batches(self) -> Iterator[MessageBatch]:
        """Messages as they were written, a batch at a time: for those who want speed."""
        return self._main().batches(self._patience)

    def values(self) -> Iterator[bytes | None]:
        """Only the values, one by one, as bytes: much faster than whole records."""
        return self._main().values(self._patience)

    # --- offsets ---

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit these, or everything that was delivered, and wait for it. CommitFailedError if a partition is not
        ours any more: others may have read on from the last commit; KafkaTimeoutError."""
        life, done = self._commit(offsets)
        if done is not None:
            self._wait_for(done, self._seconds(timeout_ms))
        self._check_lost(life, offsets)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata] | None, Exception | None], None] | None = None,
    ) -> None:
        """Commit without waiting. The callback gets (offsets, None) or (offsets, error), on the engine's thread."""
        _, done = self._commit(offsets)
        if done is None:
            if callback is not None:
                callback(offsets, None)
            return
        if callback is not None:
            done.add_done_callback(lambda future: callback(offsets, future.exception()))

    def committed(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset that the group would go on from, as ZooKeeper has it; None for none."""
        found = self._call_in(self._seconds(timeout_ms), lambda life: life.committed(partition))
        return None if found is None else found.offset

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next message; waits until it is known."""
        life, deadline = self._started(), time.monotonic() + self._seconds(timeout_ms)
        while True:
            try:
                position = life.deliveries.position(partition)
            except KeyError:
                raise IllegalStateError(f"{partition} is not assigned to this consumer") from None
            if position >= 0:
                return position
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"the position of {partition} is not known yet")
            time.sleep(_STEP_SECONDS)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset; a commit after it may go back (B15)."""
        if offset < 0:
            raise ValueError(f"an offset of {offset}")
        life = self._started()
        try:
            life.deliveries.seek(partition, offset)
        except KeyError:
            raise IllegalStateError(f"{partition} is not assigned to this consumer") from None
        life.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go back to the first message that there is; of all partitions if none are named."""
        for partition, offset in self.beginning_offsets(partitions or self.assignment()).items():
            self.seek(partition, offset)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Skip to what is yet to come."""
        for partition, offset in self.end_offsets(partitions or self.assignment()).items():
            self.seek(partition, offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver nothing of these until `resume`; they stay ours."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Reverse of `pause`."""
        self._set_paused(partitions, False)

    def paused(self) -> set[TopicPartition]:
        """What is paused."""
        flows = [] if self._life is None else self._life.deliveries.flows()
        return {flow.partition for flow in flows if flow.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last message, as the last answer of a broker had it; None before the first."""
        flow = None if self._life is None else self._life.deliveries.flow(partition)
        return None if flow is None or flow.high_watermark < 0 else flow.high_watermark

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each that there is."""
        return self._offsets(dict.fromkeys(partitions, _EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last message of each."""
        return self._offsets(dict.fromkeys(partitions, _LATEST))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first message at or after a time (in ms) of each; None where there is none so late."""
        times = dict(timestamps)
        return self._call_in(self._seconds(timeout_ms), lambda life: life.offsets_at(times, self._seconds(timeout_ms)))

    # --- the cluster ---

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """All topics that there are."""
        return self._call_in(self._seconds(timeout_ms), lambda life: life.topics())

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """The numbers of a topic's partitions; None if there is no such topic."""
        return self._call_in(self._seconds(timeout_ms), lambda life: life.partitions_of(topic))

    def metrics(self) -> dict[str, Any]:
        """State of the member, generation of the group's plan, blocked partitions, bytes in store (B24)."""
        life = self._life
        return {} if life is None else life.metrics()

    # --- the end ---

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Give back the partitions, commit what was handled, and leave the group. A second call does nothing."""
        self._close(self._seconds(timeout_ms), proven=autocommit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(self._seconds(None), proven=kind is None)

    # --- inside ---

    def _main(self) -> Poller:
        with self._lock:
            self._started()
            return self._pollers[0]

    def _started(self) -> ConsumerLife:
        """The engine, started by whoever needs it first."""
        with self._lock:
            self._check_open()
            if self._life is None:
                self._life = life = ConsumerLife(reactor_thread.shared(), self.settings, self._registration())
                self._pollers = [self._poller(0)]
                if self.settings.group_id is None and self._assigned is not None:
                    self._call(life.assign, self._assigned)
                life.start()
            return self._life

    def _poller(self, lane: int) -> Poller:
        life = self._life
        assert life is not None
        return Poller(
            life.deliveries,
            life.deliveries.lane(lane),
            life.handed_over,
            listener=lambda: self._listener,
            slice_size=self.settings.max_poll_records,
            **self._deserializers,
        )

    def _registration(self) -> Registration:
        return Registration(
            self._topics,
            self._pattern,
            self.settings.assignment_strategy,
            self._streams,
            round(time.time() * 1000),
            self.settings.client_id,
            socket.gethostname(),
        )

    def _registration_changed(self) -> None:
        if self._life is not None:
            self._life.thread.post(self._life.resubscribe, self._registration())

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> tuple[ConsumerLife, Any]:
        if self.settings.group_id is None:
            raise IllegalStateError("a consumer without group_id has nowhere to commit")
        life = self._started()
        wanted: dict[TopicPartition, tuple[Flow, OffsetAndMetadata]] = {}
        if offsets is None:
            for partition, (flow, position) in life.deliveries.consumed().items():
                if position != flow.committed:
                    wanted[partition] = (flow, OffsetAndMetadata(position))
        else:
            for partition, commit in offsets.items():
                flow_now = life.deliveries.flow(partition)
                if flow_now is None:
                    raise CommitFailedError(f"not committed: this consumer does not own {partition}")
                wanted[partition] = (flow_now, commit)
        return life, life.thread.submit(life.commit, wanted) if wanted else None

    def _check_lost(self, life: ConsumerLife, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        lost = [str(one) for one in life.deliveries.lost() if offsets is None or one in offsets]
        if lost:
            raise CommitFailedError(f"not committed: {', '.join(lost)} were lost, and may have other owners by now")

    def _set_paused(self, partitions: Sequence[TopicPartition], paused: bool) -> None:
        life = self._started()
        try:
            life.deliveries.set_paused(partitions, paused)
        except KeyError as unknown:
            raise IllegalStateError(f"{unknown.args[0]} is not assigned to this consumer") from None

    def _offsets(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        seconds = self._seconds(None)
        found = self._call_in(seconds, lambda life: life.offsets_at(times, seconds))
        return {partition: 0 if one is None else one.offset for partition, one in found.items()}

    def _call_in(self, seconds: float, work: Callable[[ConsumerLife], Coroutine[Any, Any, T]]) -> T:
        life = self._started()
        return life.thread.call(seconds, lambda: spawn(work(life)))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        assert self._life is not None
        self._life.thread.post(function, *arguments)

    def _wait_for(self, future: Any, seconds: float) -> Any:
        try:
            return future.result(seconds)
        except TimeoutError:
            raise KafkaTimeoutError(f"not within {seconds:g} s; it may still happen") from None

    def _seconds(self, timeout_ms: float | None) -> float:
        return milliseconds(timeout_ms, self.settings.default_api_timeout_ms / 1000)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the consumer is closed")

    def _close(self, seconds: float, *, proven: bool) -> None:
        with self._lock:
            if self._closing:
                return
            self._closing = True
            life = self._life
            self._closed = life is None
        if life is None:
            return
        if proven and self._streams == 1:
            self._prove(life)
        stopped: Future[None] = life.thread.submit(life.stop)
        deadline = time.monotonic() + seconds
        while not stopped.done():
            for poller in self._pollers:
                self._work_for(poller, life)
            if time.monotonic() > deadline:
                life.thread.post(life.abandon)
                deadline = float("inf")
            life.deliveries.wait(self._pollers[0].lane, _STEP_SECONDS)
        self._closed = True
        life.deliveries.close()

    def _prove(self, life: ConsumerLife) -> None:
        """Closing says that what was delivered is handled."""
        lane = self._pollers[0].lane
        if lane.owner.acquire(blocking=False):
            try:
                self._pollers[0].work(life.deliveries.begin_poll(lane))
            except Exception as problem:
                life.complain(problem)
            finally:
                lane.owner.release()

    def _work_for(self, poller: Poller, life: ConsumerLife) -> None:
        """Do what a stream's thread would do, unless it is there to do it itself."""
        if poller.lane.tasks and poller.lane.owner.acquire(blocking=False):
            try:
                poller.work(life.deliveries.take_tasks(poller.lane))
            except Exception as problem:
                life.complain(problem)
            finally:
                poller.lane.owner.release()


