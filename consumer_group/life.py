"""The composition root of one consumer: session, brokers, fetcher and engine, on the reactor's thread.

With a group the Engine decides what is read; without one, what `assign` was given. The public Consumer talks to this
object from application threads through `thread`, and to `deliveries` directly.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed

from consumer_group.asynchronous import pause, spawn
from consumer_group.brokers import Brokers
from consumer_group.deliveries import Deliveries, Flow
from consumer_group.engine import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Commits, Engine
from consumer_group.errors import KafkaTimeoutError
from consumer_group.fetcher import Fetcher
from consumer_group.logs import logger
from consumer_group.offsets import read_committed
from consumer_group.planning import matching_topics
from consumer_group.reactor_thread import ReactorThread
from consumer_group.settings import EARLIEST, Settings
from consumer_group.types import OffsetAndMetadata, OffsetAndTimestamp
from kafka_wire.errors import BROKER_NOT_AVAILABLE, KafkaError, UnknownTopicOrPartition
from kafka_wire.exchange import back_off
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.consumer_nodes import Registration
from zk_schema.operations import CoordinationError
from zk_schema.session import Session

log = logger()

LONGEST_BACK_OFF = 1.0


class ConsumerLife:
    """Everything of one consumer that lives on the reactor's thread, and the deliveries that both sides share."""

    def __init__(self, thread: ReactorThread, settings: Settings, registration: Registration) -> None:
        self.thread = thread
        self._settings = settings
        reactor = thread.reactor
        self._reactor = reactor
        self._session = Session(reactor, settings.zookeeper_connect, settings.session_timeout_ms)
        grouped = settings.group_id is not None
        self.deliveries = Deliveries(
            lease_valid=self._session.lease_valid if grouped else lambda: True,
            on_hunger=self.wake,
            max_bytes=settings.max_buffered_bytes,
        )
        self._brokers = Brokers(reactor, self._session, settings.client_id, settings.request_timeout_ms / 1000)
        reset = EARLIEST_TIMESTAMP if settings.auto_offset_reset == EARLIEST else LATEST_TIMESTAMP
        self._fetcher = Fetcher(reactor, self._brokers, self.deliveries, settings, reset_timestamp=reset)
        self._reset_timestamp = reset
        self._engine: Engine | None = None
        self._registration = registration
        self._connected: Deferred[None] | None = None
        if grouped:
            self._engine = Engine(reactor, self._session, settings, self.deliveries, registration, self._brokers)

    # --- from application threads ---

    def start(self) -> None:
        """Connect, and join the group."""
        self.thread.post(self._start)

    def wake(self) -> None:
        """There is room, or another position: fetch."""
        self.thread.post(self._fetcher.wake)

    def handed_over(self, flows: Sequence[Flow]) -> None:
        """The application let go of these."""
        if self._engine is not None:
            self.thread.post(self._engine.handed_over, tuple(flows))

    def complain(self, problem: Exception) -> None:
        """Something of the application's own failed where it cannot be raised."""
        log.error("while closing: {problem}", problem=repr(problem))

    def metrics(self) -> dict[str, Any]:
        """See Consumer.metrics."""
        flows = self.deliveries.flows()
        found: dict[str, Any] = {
            "connected": self._session.connected,
            "assigned_partitions": len(flows),
            "buffered_bytes": sum(flow.buffered for flow in flows),
            "fetch_requests": self._fetcher.requests,
            "records_lag": {str(f.partition): f.high_watermark - f.position for f in flows if f.high_watermark >= 0},
        }
        if self._engine is not None:
            rebalancer = self._engine.rebalancer
            found["state"] = rebalancer.member.state.value
            found["generation"] = rebalancer.generation
            found["blocked_partitions"] = sorted(map(str, rebalancer.member.blocked))
            found["plans_written"] = rebalancer.scribe.plans_written
            found["audits_healed"] = rebalancer.audits_healed
        return found

    # --- on the reactor's thread ---

    def _start(self) -> None:
        if self._engine is not None:
            self._engine.begin(self._fetcher)
        self._connected = self._session.start()
        self._connected.addErrback(lambda failure: log.failure("ZooKeeper cannot be reached", failure))
        if self._engine is None:
            self.resubscribe(self._registration)

    def resubscribe(self, registration: Registration) -> None:
        """The subscription has changed."""
        self._registration = registration
        if self._engine is not None:
            self._engine.resubscribe(registration)
        elif registration.topics or registration.pattern is not None:
            spawn(self._assign_topics(registration)).addErrback(self._assign_failed)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others, from where auto_offset_reset says; only without a group."""
        wanted = set(partitions)
        have = {flow.partition: flow for flow in self.deliveries.flows()}
        self.deliveries.end([flow for partition, flow in have.items() if partition not in wanted])
        flows = [Flow(partition, b"", 0) for partition in sorted(wanted - set(have))]
        for flow in flows:
            self.deliveries.open(flow)
        if flows:
            spawn(self._begin(flows)).addErrback(lambda failure: log.failure("assign failed", failure))

    async def _assign_topics(self, registration: Registration) -> None:
        await self._connection()
        while True:
            try:
                pattern = registration.pattern
                names = registration.topics if pattern is None else matching_topics(pattern, await self.topics())
                view = await self._brokers.metadata(names, refresh=True)
                self.assign([partition for name in names for partition in view.partitions(name)])
                return
            except (KafkaError, CoordinationError) as problem:
                if isinstance(problem, KafkaError) and not problem.retriable and problem.code != BROKER_NOT_AVAILABLE:
                    raise
                await pause(self._reactor, LONGEST_BACK_OFF / 4)

    def _assign_failed(self, failure: Any) -> None:
        self.deliveries.fail(failure.value)

    async def _begin(self, flows: list[Flow]) -> None:
        """Where a partition without a group begins."""
        failures = 0
        while flows := [flow for flow in flows if flow.live]:
            try:
                found = await self._brokers.offsets([flow.partition for flow in flows], self._reset_timestamp)
            except (KafkaError, CoordinationError) as problem:
                log.debug("no first offset yet: {problem}", problem=str(problem))
                found = {}
            for flow in flows:
                if flow.partition in found:
                    first = found[flow.partition]
                    self.deliveries.started(flow, 0 if first is None else first.offset, -1)
            flows = [flow for flow in flows if flow.partition not in found]
            self._fetcher.wake()
            if flows:
                failures += 1
                await pause(self._reactor, back_off(failures, 0.1, LONGEST_BACK_OFF, random.uniform))

    def commit(self, wanted: Commits) -> Deferred[None]:
        """See Engine.commit."""
        assert self._engine is not None
        return self._engine.commit(wanted)

    def stop(self) -> Deferred[None]:
        """Leave the group, hang up, close the session."""
        if self._engine is not None:
            return self._engine.stop()
        self._fetcher.stop()
        self.deliveries.end(self.deliveries.flows())
        return self._session.stop()

    def abandon(self) -> None:
        """Leave without the application."""
        if self._engine is not None:
            self._engine.abandon()

    # --- questions ---

    async def committed(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """What ZooKeeper has."""
        if self._settings.group_id is None:
            return None
        await self._connection()
        return await read_committed(self._session, self._settings.group_id, partition)

    async def offsets_at(
        self, times: Mapping[TopicPartition, int], seconds: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """ListOffsets of each leader, tried again until all have answered."""
        await self._connection()
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        deadline, failures = time.monotonic() + seconds, 0
        while left := {partition: at for partition, at in times.items() if partition not in found}:
            problem: KafkaError | None = None
            try:
                found.update(await self._brokers.offsets_at(left))
            except KafkaError as error:
                problem = error
                if not error.retriable and error.code != BROKER_NOT_AVAILABLE:
                    raise
            failures += 1
            if time.monotonic() > deadline:
                raise problem or KafkaTimeoutError("not all leaders answered in time")
            if any(partition not in found for partition in left):
                await pause(self._reactor, back_off(failures, 0.1, LONGEST_BACK_OFF, random.uniform))
        return found

    async def topics(self) -> set[str]:
        """Names of all topics."""
        await self._connection()
        return set(await self._session.children(paths.TOPICS))

    async def partitions_of(self, topic: str) -> set[int] | None:
        """Numbers of a topic's partitions."""
        await self._connection()
        try:
            view = await self._brokers.metadata([topic], refresh=True)
            return {partition.partition for partition in view.partitions(topic)}
        except UnknownTopicOrPartition:
            return None

    def _connection(self) -> Deferred[None]:
        """Fires when there was a session."""
        if self._connected is None or self._session.session_id is not None:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._connected.addCallback(lambda _: waiting.callback(None))
        return waiting
