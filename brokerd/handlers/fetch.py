"""Fetch: ranges of the log files, sent as they are; waits until there is enough or the time is up.

Consumers see what is below the high watermark (V3) and always get at least one whole batch, however large
(KIP-74). Every answer is a full one: fetch sessions are declined with session id 0, which every client takes
as "no session". A fetch above the high watermark but within the log waits like one at its end (V6); beyond
the log it is OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_wire.schema.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse, PartitionData

from brokerd.handlers.types import LATER, Later, Request
from brokerd.waiting import Wait
from kafka_wire import errors
from kafka_wire.apis import Api

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.partition import Partition

API = Api.FETCH
VERSIONS = (4, 16)

NO_SESSION = 0
_NOTHING = b""


class _Poll:
    """One fetch request: reads, and reads again when a partition grows, until there are min_bytes or an error or the
    time is up."""

    __slots__ = ("broker", "bytes", "request", "settled", "topics", "wait", "watched")

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.wait: Wait | None = None
        self.watched: list[Partition] = []
        self.topics: list[FetchableTopicResponse] = []
        self.bytes = 0
        self.settled = False

    def read(self) -> bool:
        """Reads every partition within the byte limits; True if this must be answered now."""
        body: FetchRequest = self.request.body
        left = min(body.max_bytes, self.broker.config.fetch_max_bytes)
        self.topics, self.bytes, self.settled = [], 0, False
        for topic in body.topics:
            try:
                name = topic.topic or self.broker.topic_name(topic.topic_id)
            except errors.KafkaError as problem:
                self.settled = True
                failed = [_failed(asked.partition, problem) for asked in topic.partitions]
                self.topics.append(
                    FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=failed)
                )
                continue
            answers = self._read_topic(name, topic.partitions, left)
            left -= sum(len(answer.records or _NOTHING) for answer in answers)
            self.topics.append(FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=answers))
        return self.settled or self.bytes >= body.min_bytes

    def _read_topic(self, name: str, asked: Sequence[FetchPartition], left: int) -> list[PartitionData]:
        answers = []
        for one in asked:
            try:
                answer = self._read_partition(name, one, left)
            except errors.KafkaError as problem:
                self.settled = True
                self.broker.metrics.fetch_failed(name)
                answer = _failed(one.partition, problem)
            size = len(answer.records or _NOTHING)
            self.bytes += size
            left -= size
            answers.append(answer)
        return answers

    def _read_partition(self, name: str, asked: FetchPartition, left: int) -> PartitionData:
        partition = self.broker.partition(name, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        log, end = partition.log, partition.high_watermark
        if not log.log_start <= asked.fetch_offset <= log.log_end:
            raise errors.OffsetOutOfRange(f"offset {asked.fetch_offset} is outside {log.log_start} to {log.log_end}")
        records: object = _NOTHING
        if asked.fetch_offset < end and (left > 0 or not self.bytes):
            records = log.read(
                asked.fetch_offset, min(asked.partition_max_bytes, max(left, 0)), end, min_one=not self.bytes
            )
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.log_start,
            aborted_transactions=None,
            records=records,
        )

    def start(self) -> None:
        """Answers at once or waits for the partitions to grow."""
        body: FetchRequest = self.request.body
        if self.read() or body.max_wait_ms <= 0 or not body.topics:
            self.answer()
            return
        self.wait = Wait(self.broker.reactor, body.max_wait_ms / 1000, self._over)
        for topic in body.topics:
            name = topic.topic or self.broker.topic_name(topic.topic_id)
            for asked in topic.partitions:
                partition = self.broker.partition(name, asked.partition)
                partition.watch_growth(self._grown)
                self.watched.append(partition)

    def _grown(self) -> None:
        if self.wait is None or self.wait.finished:
            return
        if self.request.gone:
            self.wait.cancel()
            self._leave()
        elif self.read():
            self.wait.finish()

    def _over(self, expired: bool) -> None:
        self._leave()
        if expired:
            self.read()
        self.answer()

    def _leave(self) -> None:
        for partition in self.watched:
            partition.unwatch_growth(self._grown)
        self.watched.clear()

    def answer(self) -> None:
        """Sends what the last read found."""
        for topic in self.topics:
            for answer in topic.partitions:
                self.broker.metrics.fetched(topic.topic, len(answer.records or _NOTHING))
        self.request.respond(FetchResponse(session_id=NO_SESSION, responses=self.topics))


def handle(broker: Broker, request: Request) -> Later | FetchResponse:
    """Reads, or waits and reads."""
    body: FetchRequest = request.body
    if body.session_id and body.session_epoch > 0:
        return FetchResponse(error_code=errors.FETCH_SESSION_ID_NOT_FOUND)
    _Poll(broker, request).start()
    return LATER


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
