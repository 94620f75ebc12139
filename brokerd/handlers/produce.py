"""Produce: append one batch per partition, answer when it is as safe as asked for.

acks=0: no answer at all, and a failed append closes the connection (R36). acks=1: when the turn's write is
done. acks=-1: when the high watermark has passed the batch, which in `flushed` topics means that it is on the
disk (V2). The records are never looked into; the log checks the batch header and its CRC.

`handle` serves every request; `Again` is the short way of one for a partition that its connection has produced to
before (kafka_wire/repeats.py). It takes the usual case only and leaves everything else to `handle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brokerd.handlers.types import LATER, Later, Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.messages import encode_response
from kafka_wire.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from kafka_wire.repeats import Repeat

API = Api.PRODUCE
VERSIONS = (3, 11)
ADVERTISED_MIN = 0
"""Old librdkafka looks for exact versions and stops compressing when version 0 is not listed (KAFKA-18659)."""


class _Pending:
    """A request whose partitions are on their way; answers when the last of them is settled or the time is up."""

    __slots__ = ("_left", "_request", "_results", "done")

    def __init__(self, request: Request, count: int) -> None:
        self._request: Request | None = request
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
        request.respond(
            ProduceResponse(
                [
                    TopicProduceResponse(name, [next(results) or _late(data.index) for data in partition_data])
                    for name, partition_data in request.body.topic_data
                ]
            )
        )


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
    count = 0
    for topic in body.topic_data:
        count += len(topic.partition_data)
    if not count and acks:
        return ProduceResponse()
    pending = _Pending(request, count) if acks else None
    failed = False
    place = 0
    for name, partition_data in body.topic_data:
        for index, records in partition_data:
            try:
                if refused is not None:
                    raise refused
                _append(broker, pending, place, name, index, records, acks)
            except errors.KafkaError as problem:
                failed = True
                broker.metrics.produce_failed(name, len(records or b""))
                broker.metrics.request_failed(API, problem.code)
                if pending is not None:
                    pending.settle(place, _failed(index, problem))
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


class Again:
    """A recognised request on its way. It stands in the order of its connection like a Request: `parts` is its answer
    once it has one."""

    __slots__ = ("_answered", "_first", "_repeat", "_start", "_time_ms", "done", "gone", "number", "parts", "received")

    def __init__(
        self, repeat: Repeat, number: int, received: float, answered: Callable[[Again, list[Any]], None]
    ) -> None:
        self.number = number
        self.received = received
        self.parts: list[Any] | None = None
        self.gone = False
        self.done = False
        self._repeat = repeat
        self._answered = answered

    def start(self, broker: Broker, records: memoryview) -> bool:
        """Queues the batch and arranges for the answer; False if nothing was done and `handle` is to see to it."""
        repeat = self._repeat
        topic = repeat.topic
        partition = broker.partitions.get((topic, repeat.index))  # type: ignore[call-overload]
        if partition is None or not partition.is_leader:
            return False
        try:
            if repeat.acks == -1:
                partition.check_enough_replicas()
            first, last, self._time_ms, duplicate = partition.append(records, broker.now_ms())
        except errors.KafkaError:
            return False
        self._first = first
        self._start = partition.log.log_start
        if not duplicate:
            broker.mark_dirty(partition)
            broker.metrics.appended(topic, len(records), last - first + 1)
        if repeat.acks == 1:
            partition.when_written(last + 1, self.tell)
        else:
            partition.when_committed(last + 1, self.tell)
            if not self.done:
                broker.deadlines.add(repeat.timeout_ms / 1000, self)
        return True

    def tell(self, problem: errors.KafkaError | None) -> None:
        """The batch is as safe as asked for, or will never be."""
        if self.done:
            return
        if problem is None:
            self.done = True
            self._answered(self, [self._repeat.answer(self.number, self._first, self._time_ms, self._start)])
        else:
            self._answer_error(_failed(self._repeat.index, problem))

    def expire(self) -> None:
        """The time is up."""
        self._answer_error(_late(self._repeat.index))

    def _answer_error(self, answer: PartitionProduceResponse) -> None:
        self.done = True
        repeat = self._repeat
        body = ProduceResponse([TopicProduceResponse(repeat.topic, [answer])])
        self._answered(self, encode_response(API, repeat.version, self.number, body))


def _failed(index: int, problem: errors.KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=problem.code, base_offset=-1, log_append_time_ms=-1, error_message=problem.message
    )
