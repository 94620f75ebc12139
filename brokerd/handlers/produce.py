"""Produce: append one batch per partition, answer when it is as safe as asked for.

acks=0: no answer at all, and a failed append closes the connection (R36). acks=1: when the turn's write is
done. acks=-1: when the high watermark has passed the batch, which in `flushed` topics means that it is on the
disk (V2). The records are never looked into; the log checks the batch header and its CRC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd.handlers.types import LATER, Later, Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.PRODUCE
VERSIONS = (3, 11)
ADVERTISED_MIN = 0
"""Old librdkafka looks for exact versions and stops compressing when version 0 is not listed (KAFKA-18659)."""


class _Pending:
    """A request whose partitions are on their way; answers when the last of them is settled or the time is up."""

    __slots__ = ("_asked", "_left", "_request", "_results", "done")

    def __init__(self, request: Request, count: int) -> None:
        body: ProduceRequest = request.body
        self._request: Request | None = request
        self._asked = [(topic.name, [data.index for data in topic.partition_data]) for topic in body.topic_data]
        self._results: list[PartitionProduceResponse | None] = [None] * count
        self._left = count
        self.done = False

    def settle(self, place: int, answer: PartitionProduceResponse) -> None:
        """One partition is done; `place` counts the partitions of the whole request."""
        if self.done:
            return
        self._results[place] = answer
        self._left -= 1
        if not self._left:
            self._answer()

    def expire(self) -> None:
        """The time is up: what is not settled is answered as late (it stays in the log, R37)."""
        self._answer()

    def _answer(self) -> None:
        request, self._request = self._request, None
        assert request is not None
        self.done = True
        results = iter(self._results)
        topics = [
            TopicProduceResponse(name, [next(results) or _late(index) for index in indexes])
            for name, indexes in self._asked
        ]
        request.respond(ProduceResponse(topics))


def _late(index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=errors.REQUEST_TIMED_OUT,
        base_offset=-1,
        error_message="the records are written, but were not replicated or flushed in time",
    )


def handle(broker: Broker, request: Request) -> Later | ProduceResponse | None:
    """Queues the batches and arranges for the answer."""
    body: ProduceRequest = request.body
    acks = body.acks
    refused = _refusal(body)
    count = sum(len(topic.partition_data) for topic in body.topic_data)
    if not count and acks:
        return ProduceResponse()
    pending = _Pending(request, count) if acks else None
    failed = False
    place = 0
    for topic in body.topic_data:
        name = topic.name
        for data in topic.partition_data:
            try:
                if refused is not None:
                    raise refused
                _append(broker, pending, place, name, data.index, data.records, acks)
            except errors.KafkaError as problem:
                failed = True
                broker.metrics.produce_failed(name, len(data.records or b""))
                broker.metrics.request_failed(API, problem.code)
                if pending is not None:
                    pending.settle(place, _failed(data.index, problem))
            place += 1
    if pending is None:
        if failed:
            raise errors.InvalidRequest("a batch sent with acks=0 could not be appended")
        return None
    if acks == -1 and not pending.done:
        broker.deadlines.add(body.timeout_ms / 1000, pending)
    return LATER


def _refusal(body: ProduceRequest) -> errors.KafkaError | None:
    """Why nothing of the request can be taken."""
    if body.acks not in (-1, 0, 1):
        return errors.InvalidRequiredAcks(f"acks must be -1, 0 or 1, not {body.acks}")
    if body.transactional_id is not None:
        return errors.TransactionalIdAuthorizationFailed("transactions are not served by this broker")
    return None


def _append(
    broker: Broker, pending: _Pending | None, place: int, topic: str, index: int, records: memoryview | None, acks: int
) -> None:
    """Appends to one partition and arranges for its part of the answer."""
    partition = broker.partition(topic, index)
    partition.check_leader()
    if records is None:
        raise errors.CorruptMessage("no records")
    if acks == -1:
        partition.check_enough_replicas()
    appended = partition.append(records, broker.now_ms())
    first, last, time_ms, duplicate = appended
    if not duplicate:
        broker.mark_dirty(partition)
        broker.metrics.appended(topic, len(records), last - first + 1)
    if pending is None:
        return
    start = partition.log.log_start

    def tell(problem: errors.KafkaError | None) -> None:
        if problem is None:
            pending.settle(place, PartitionProduceResponse(index, errors.NONE, first, time_ms, start))
        else:
            pending.settle(place, _failed(index, problem))

    if acks == 1:
        partition.when_written(last + 1, tell)
    else:
        partition.when_committed(last + 1, tell)


def _failed(index: int, problem: errors.KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=problem.code, base_offset=-1, log_append_time_ms=-1, error_message=problem.message
    )
