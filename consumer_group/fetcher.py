"""Pulls: one connection and one request at a time for each leader, for all its partitions that need data (P20, P22).

Fetching knows nothing of the group: a flow that is over takes no data any more, and that is all. Trouble with a broker
causes no rebalance (B12): the partition keeps its owner, metadata is asked for again after a back-off, and fetching
goes on at the new leader. Before the first fetch under a new leader's epoch the position is checked against its log
(R28), so that records which were cut off by an election are noticed.

A request waits at the broker only while every partition there can take more: if some are full the wait is short,
because the application may have made room for them long before the others get data.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from twisted.python.failure import Failure

from consumer_group.asynchronous import pause, spawn, stop_timer
from consumer_group.brokers import Brokers
from consumer_group.chunks import Chunk
from consumer_group.deliveries import Deliveries, Flow, FlowState
from consumer_group.errors import CorruptRecordError, LogTruncationError, OffsetOutOfRangeError
from consumer_group.logs import logger
from consumer_group.settings import NO_RESET, Settings
from kafka_wire import batches, errors
from kafka_wire.apis import Api
from kafka_wire.errors import CorruptMessage, KafkaError
from kafka_wire.exchange import back_off
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import NO_TOPIC_ID, PartitionView
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafka_wire.schema.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logger()

LAST_VERSION_BY_NAME = 12
"""The last version of Fetch that names topics instead of giving ids."""
SHORT_WAIT_MS = 20
LONGEST_BACK_OFF = 1.0
CONSUMER = -1
_MOVED = frozenset(
    {
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.UNKNOWN_TOPIC_ID,
        errors.INCONSISTENT_TOPIC_ID,
        errors.LEADER_NOT_AVAILABLE,
        errors.FENCED_LEADER_EPOCH,
        errors.UNKNOWN_LEADER_EPOCH,
    }
)
"""Metadata is out of date; anything else that is retriable may pass by itself, after fresh metadata all the same."""


class Fetcher:
    """Keeps the flows of one consumer supplied."""

    def __init__(
        self,
        reactor: Any,
        brokers: Brokers,
        deliveries: Deliveries,
        settings: Settings,
        *,
        reset_timestamp: int,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._reactor = reactor
        self._brokers = brokers
        self._deliveries = deliveries
        self._settings = settings
        self._reset_timestamp = reset_timestamp
        self._uniform = uniform
        self._busy: set[int] = set()
        self._away: dict[TopicPartition, Flow] = {}
        """Flows that something other than a fetch is being done for."""
        self._refreshing = False
        self._failures = 0
        self._timer: Any = None
        self._stopped = False
        self.requests = 0

    def wake(self) -> None:
        """Something has changed: there may be more to fetch. Must run on the reactor's thread."""
        if not self._stopped:
            self._send_all()

    def stop(self) -> None:
        """No more."""
        self._stopped = True
        stop_timer(self._timer)
        self._brokers.close()

    # --- asking ---

    def _send_all(self) -> None:
        if self._deliveries.is_full:
            return
        by_leader: dict[int, list[Flow]] = {}
        full: set[int] = set()
        homeless = False
        for flow in self._deliveries.flows():
            if flow.state is not FlowState.FLOWING or flow.fetch_position < 0 or flow.partition in self._away:
                continue
            known = self._known(flow)
            if known is None:
                homeless = True
            elif flow.fetch_epoch >= 0 and known.leader_epoch > max(flow.checked_epoch, flow.fetch_epoch):
                self._do_apart(flow, self._validate(flow, known.leader, known.leader_epoch))
            elif known.leader in self._busy or flow.paused:
                continue
            elif not self._deliveries.hungry_after(flow, self._settings.max_partition_fetch_bytes):
                full.add(known.leader)
            else:
                by_leader.setdefault(known.leader, []).append(flow)
        for leader, flows in by_leader.items():
            self._busy.add(leader)
            spawn(self._fetch(leader, flows, leader in full)).addBoth(self._fetched, leader)
        if homeless:
            self._refresh_soon()

    def _known(self, flow: Flow) -> PartitionView | None:
        """What metadata has of it, if that names a leader."""
        try:
            known = self._brokers.view.partition(flow.partition)
        except KafkaError:
            return None
        return known if known.leader >= 0 else None

    async def _fetch(self, leader: int, flows: list[Flow], some_full: bool) -> None:
        asked = {flow.partition: (flow, flow.fetch_position, flow.seeks) for flow in flows}
        request, by_name = self._request(flows, some_full)
        patience = (self._settings.fetch_max_wait_ms + self._settings.request_timeout_ms) / 1000
        limit = LAST_VERSION_BY_NAME if by_name else None
        self.requests += 1
        response = await self._brokers.request(leader, Api.FETCH, request, patience, max_version=limit)
        if response.error_code:
            raise errors.for_code(response.error_code)(f"broker {leader} refuses to be read")
        names = {topic.topic_id: topic.topic for topic in request.topics}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                known = asked.get(TopicPartition(name, answer.partition_index))
                if known is not None:
                    self._take(*known, answer)

    def _request(self, flows: list[Flow], some_full: bool) -> tuple[FetchRequest, bool]:
        view = self._brokers.view
        topics: dict[str, list[FetchPartition]] = {}
        for flow in flows:
            topics.setdefault(flow.partition.topic, []).append(
                FetchPartition(
                    partition=flow.partition.partition,
                    current_leader_epoch=view.partition(flow.partition).leader_epoch,
                    fetch_offset=flow.fetch_position,
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                )
            )
        ids = {name: view.topic(name).topic_id for name in topics}
        wait = self._settings.fetch_max_wait_ms
        request = FetchRequest(
            max_wait_ms=min(wait, SHORT_WAIT_MS) if some_full else wait,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            topics=[FetchTopic(ids[name], partitions, name) for name, partitions in topics.items()],
        )
        return request, NO_TOPIC_ID in ids.values()

    def _fetched(self, result: Any, leader: int) -> None:
        problem = getattr(result, "value", None)
        if problem is None or self._stopped:
            self._busy.discard(leader)
            self.wake()
            return
        if not isinstance(problem, KafkaError):
            log.failure("a fetch from broker {leader} failed", result, leader=leader)
        else:
            log.debug("broker {leader}: {problem}", leader=leader, problem=problem.message)
        spawn(self._rest()).addBoth(self._rested, leader)

    def _rested(self, _: Any, leader: int) -> None:
        self._busy.discard(leader)
        self.wake()

    # --- answers ---

    def _take(self, flow: Flow, offset: int, seeks: int, answer: PartitionData) -> None:
        if answer.error_code:
            self._refused(flow, offset, seeks, errors.for_code(answer.error_code)(f"{flow.partition} at {offset}"))
            return
        self._failures = 0
        flow.high_watermark = answer.high_watermark
        records = answer.records
        if records is None or not len(records):
            return
        size, end, epoch, problem = _measure(flow.partition, records, offset)
        if problem is not None or end <= offset:
            if problem is None:
                text = f"{flow.partition} at {offset}: the answer holds no whole batch; raise max_partition_fetch_bytes"
                problem = CorruptRecordError(flow.partition, offset, offset + 1, text)
            self._fail(flow, offset, seeks, problem)
            return
        chunk = Chunk(records[:size], offset, end, check_crcs=self._settings.check_crcs)
        if self._deliveries.add(flow, chunk, seeks):
            flow.fetch_epoch = flow.checked_epoch = epoch

    def _refused(self, flow: Flow, offset: int, seeks: int, problem: KafkaError) -> None:
        if problem.code == errors.OFFSET_OUT_OF_RANGE:
            if self._settings.auto_offset_reset == NO_RESET:
                text = f"{flow.partition} does not have offset {offset}, and auto_offset_reset is none"
                self._fail(flow, offset, seeks, OffsetOutOfRangeError(flow.partition, offset, text))
            else:
                self._do_apart(flow, self._reset(flow, offset, seeks))
        elif problem.retriable or problem.code in _MOVED:
            log.debug("{problem}", problem=f"{problem.message}: {problem.name}")
            self._do_apart(flow, self._rest())
        else:
            self._fail(flow, offset, seeks, problem)

    def _fail(self, flow: Flow, offset: int, seeks: int, problem: Exception) -> None:
        """The application hears of it when it comes to this place, and may seek past it."""
        if self._deliveries.add(flow, Chunk(b"", offset, offset, problem=problem), seeks):
            self._deliveries.stop_fetching(flow)

    # --- what is done for one flow apart from the others ---

    def _do_apart(self, flow: Flow, work: Any) -> None:
        if flow.partition in self._away:
            work.close()
            return
        self._away[flow.partition] = flow

        def done(result: Any) -> None:
            if self._away.get(flow.partition) is flow:
                del self._away[flow.partition]
            if isinstance(result, Failure) and not isinstance(result.value, KafkaError):
                log.failure("{partition} cannot be fetched", result, partition=str(flow.partition))
            self.wake()

        async def apart() -> None:
            try:
                await work
            except KafkaError as problem:
                log.debug("{partition}: {why}", partition=str(flow.partition), why=problem.message)
                await self._rest()

        spawn(apart()).addBoth(done)

    async def _rest(self) -> None:
        """A pause and fresh metadata, before what failed is tried again."""
        base = self._settings.retry_backoff_ms / 1000
        await pause(self._reactor, base * self._uniform(0.8, 1.2))
        try:
            await self._metadata()
        except KafkaError as problem:
            log.debug("metadata: {why}", why=problem.message)
            await pause(self._reactor, LONGEST_BACK_OFF * self._uniform(0.4, 0.6))

    async def _reset(self, flow: Flow, offset: int, seeks: int) -> None:
        """B11's other half: the log does not have the position, so go where auto_offset_reset says."""
        found = (await self._brokers.offsets([flow.partition], self._reset_timestamp)).get(flow.partition)
        start = 0 if found is None else found.offset
        if self._deliveries.reposition(flow, start, seeks):
            log.warn(
                "{partition}: offset {offset} is not in the log; going on at {start}",
                partition=str(flow.partition),
                offset=offset,
                start=start,
            )

    async def _validate(self, flow: Flow, leader: int, epoch: int) -> None:
        """R28: does the new leader's log have what we read before our position?"""
        seeks, offset = flow.seeks, flow.fetch_position
        asked = OffsetForLeaderPartition(flow.partition.partition, epoch, flow.fetch_epoch)
        body = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER, topics=[OffsetForLeaderTopic(flow.partition.topic, [asked])]
        )
        response = await self._brokers.request(leader, Api.OFFSET_FOR_LEADER_EPOCH, body)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise errors.for_code(answer.error_code)(f"{flow.partition}: its epoch cannot be checked")
        if seeks != flow.seeks:
            return
        if answer.end_offset < 0 or answer.end_offset >= offset:
            flow.checked_epoch = epoch
            return
        text = (
            f"{flow.partition}: the log was cut to {answer.end_offset} when its leader changed; "
            f"we had read to {offset}, and what came between is gone"
        )
        log.error("{text}", text=text)
        if self._settings.auto_offset_reset == NO_RESET:
            self._fail(flow, offset, seeks, LogTruncationError(flow.partition, answer.end_offset, text))
        else:
            self._deliveries.reposition(flow, answer.end_offset, seeks)

    # --- metadata ---

    def _refresh_soon(self) -> None:
        """Somebody has no leader: at once, and later each time that it does not help."""
        if self._refreshing or self._stopped:
            return
        self._refreshing = True
        self._failures += 1
        base = self._settings.retry_backoff_ms / 1000
        wait = 0.0 if self._failures == 1 else back_off(self._failures - 1, base, LONGEST_BACK_OFF, self._uniform)
        spawn(self._refresh(wait)).addBoth(self._refreshed)

    async def _refresh(self, wait: float) -> None:
        if wait:
            await pause(self._reactor, wait)
        await self._metadata()

    async def _metadata(self) -> None:
        topics = sorted({flow.partition.topic for flow in self._deliveries.flows()})
        await self._brokers.metadata(topics, refresh=True)

    def _refreshed(self, result: Any) -> None:
        self._refreshing = False
        problem = getattr(result, "value", None)
        if problem is not None and not self._stopped:
            if not isinstance(problem, KafkaError):
                log.failure("metadata cannot be read", result)
            self._refresh_soon()
            return
        self.wake()


def _measure(
    partition: TopicPartition, records: Any, offset: int
) -> tuple[int, int, int, CorruptRecordError | None]:
    """(bytes of whole batches, next offset, epoch of the last batch, what is wrong with the bytes) of an answer.

    Damage behind good batches is left to the next answer, which begins with it.
    """
    size, end, epoch = 0, offset, -1
    try:
        for position, header in batches.walk(records, 0, len(records)):
            size, end, epoch = position + header.size, max(end, header.next_offset), header.leader_epoch
    except CorruptMessage as problem:
        if end == offset:
            text = f"{partition} cannot be read at offset {offset}: {problem.message}"
            return size, end, epoch, CorruptRecordError(partition, offset, offset + 1, text)
    return size, end, epoch, None
