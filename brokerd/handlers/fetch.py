"""Fetch: ranges of the log files, sent as they are; waits until there is enough or the time is up.

Consumers see what is below the high watermark (V3) and always get at least one whole batch, however large
(KIP-74). A fetch above the high watermark but within the log waits like one at its end (V6); beyond
the log it is OFFSET_OUT_OF_RANGE. In a session (KIP-227) only partitions with something new are answered.

Fetches of other brokers, which follow what this one leads, are served by replication/serving.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from brokerd.fetch_sessions import NO_SESSION, Entry, Session
from brokerd.handlers.types import LATER, Later, Request
from brokerd.waiting import Wait
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.partition import Partition

API = Api.FETCH
VERSIONS = (4, 16)

_NOTHING = b""


class _Part:
    """One partition of a poll and its answer so far."""

    __slots__ = ("answer", "entry", "name", "size")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.name = entry.topic
        self.answer: PartitionData
        self.size = 0


class _Poll:
    """One fetch request: reads, and reads again what has grown, until there are min_bytes, an error or no more time."""

    __slots__ = (
        "_broker",
        "_bytes",
        "_grown",
        "_left",
        "_parts",
        "_request",
        "_session",
        "_settled",
        "_wait",
        "_watched",
    )

    def __init__(self, broker: Broker, request: Request, session: Session | None, entries: Iterable[Entry]) -> None:
        body: FetchRequest = request.body
        self._broker = broker
        self._request = request
        self._session = session
        self._parts = [_Part(entry) for entry in entries]
        self._left = min(body.max_bytes, broker.config.fetch_max_bytes)
        self._bytes = 0
        self._settled = False
        self._wait: Wait | None = None
        self._watched: dict[Partition, list[_Part]] = {}
        self._grown: dict[Partition, None] = {}

    def start(self) -> None:
        """Answers at once or waits for the partitions to grow."""
        body: FetchRequest = self._request.body
        found = [(part, self._read(part)) for part in self._parts]
        if self._settled or self._bytes >= body.min_bytes or body.max_wait_ms <= 0 or not found:
            self._answer()
            return
        for part, partition in found:
            assert partition is not None
            self._watched.setdefault(partition, []).append(part)
        for partition in self._watched:
            partition.watch_growth(self.grown)
        self._wait = Wait(self._broker.reactor, body.max_wait_ms / 1000, self._over)

    def _read(self, part: _Part) -> Partition | None:
        """Reads one partition within the limits; what it read before is replaced."""
        self._bytes -= part.size
        self._left += part.size
        part.size = 0
        asked = part.entry.asked
        try:
            if not part.name:
                part.name = self._broker.topic_name(part.entry.topic_id)
            partition = self._broker.partition(part.name, asked.partition)
            partition.check_leader(asked.current_leader_epoch)
            records = self._records(partition, part)
        except errors.KafkaError as problem:
            self._settled = True
            self._broker.metrics.fetch_failed(part.name)
            self._broker.metrics.request_failed(API, problem.code)
            part.answer = _failed(asked.partition, problem)
            return None
        high_watermark = partition.high_watermark
        part.answer = PartitionData(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=partition.log.log_start,
            aborted_transactions=None,
            records=records,
        )
        part.size = len(records)
        self._bytes += part.size
        self._left -= part.size
        return partition

    def _records(self, partition: Partition, part: _Part) -> Any:
        log, end, asked = partition.log, partition.high_watermark, part.entry.asked
        offset = asked.fetch_offset
        if not log.log_start <= offset <= log.log_end:
            raise errors.OffsetOutOfRange(f"offset {offset} is outside {log.log_start} to {log.log_end}")
        first = not self._bytes
        if offset >= end:
            partition.check_gate()  # A16: if another broker leads, there may be more to read than we know
            return _NOTHING
        if self._left <= 0 and not first:
            return _NOTHING
        return log.read(offset, min(asked.partition_max_bytes, max(self._left, 0)), end, min_one=first)

    def grown(self, partition: Partition) -> None:
        """A partition has more to read, or is no longer led here."""
        self._grown[partition] = None
        self._broker.wake(self)

    def look(self) -> None:
        """At the end of the turn: reads what has grown."""
        if self._wait is None or self._wait.finished:
            return
        if self._request.gone:
            self._wait.cancel()
            self._leave()
            return
        grown, self._grown = self._grown, {}
        for partition in grown:
            for part in self._watched[partition]:
                self._read(part)
        if self._settled or self._bytes >= self._request.body.min_bytes:
            self._wait.finish()

    def _over(self, _timed_out: bool) -> None:
        self._leave()
        self._answer()

    def _leave(self) -> None:
        for partition in self._watched:
            partition.unwatch_growth(self.grown)
        self._watched.clear()

    def _answer(self) -> None:
        metrics = self._broker.metrics
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        incremental = self._session is not None and self._request.body.session_epoch > 0
        for part in self._parts:
            metrics.fetched(part.name, part.size)
            entry, answer = part.entry, part.answer
            if self._session is not None:
                if incremental and not _is_news(entry, answer, part.size):
                    continue
                entry.high_watermark, entry.log_start = answer.high_watermark, answer.log_start_offset
            key = entry.topic or entry.topic_id
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse(topic=part.name, topic_id=entry.topic_id, partitions=[])
            topic.partitions.append(answer)  # type: ignore[attr-defined]
        session_id = NO_SESSION
        if self._session is not None:
            session_id = self._session.session_id
            self._session.served(
                (part.entry.topic_id if self._session.uses_ids else part.entry.topic, part.entry.asked.partition)
                for part in self._parts
                if part.size
            )
        self._request.respond(FetchResponse(session_id=session_id, responses=list(topics.values())))


def handle(broker: Broker, request: Request) -> Later | FetchResponse:
    """Reads, or waits and reads."""
    body: FetchRequest = request.body
    if body.replica_state.replica_id >= 0 or body.replica_id >= 0:
        return broker.replica_fetches.handle(request)
    uses_ids = any(not topic.topic for topic in body.topics) or any(not t.topic for t in body.forgotten_topics_data)
    try:
        session = broker.fetch_sessions.find(
            body, uses_ids or _goes_on_with_ids(broker, body), broker.reactor.seconds()
        )
    except errors.KafkaError as problem:
        broker.metrics.request_failed(API, problem.code)
        return FetchResponse(error_code=problem.code)
    entries: Iterable[Entry]
    if session is None:
        entries = [Entry(topic.topic, topic.topic_id, asked) for topic in body.topics for asked in topic.partitions]
    else:
        entries = session.entries.values()
    _Poll(broker, request, session, entries).start()
    return LATER


def _goes_on_with_ids(broker: Broker, body: FetchRequest) -> bool:
    """A request that changes nothing names no topic: it goes on in whichever way its session was opened."""
    return not body.topics and not body.forgotten_topics_data and broker.fetch_sessions.uses_ids(body.session_id)


def _is_news(entry: Entry, answer: PartitionData, size: int) -> bool:
    return bool(
        size
        or answer.error_code
        or answer.high_watermark != entry.high_watermark
        or answer.log_start_offset != entry.log_start
    )


def _failed(index: int, problem: errors.KafkaError) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=problem.code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=_NOTHING,
    )
