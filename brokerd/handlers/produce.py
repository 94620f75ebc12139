"""Produce: append one batch per partition, answer when it is as safe as asked for.

acks=0: no answer at all, and a failed append closes the connection (R36). acks=1: when the turn's write is
done. acks=-1: when the high watermark has passed the batch, which in `flushed` topics means that it is on the
disk (V2). The records are never looked into; the log checks the batch header and its CRC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_wire.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

from brokerd.handlers.types import LATER, Later, Request
from brokerd.waiting import Wait
from kafka_wire import errors
from kafka_wire.apis import Api

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.PRODUCE
VERSIONS = (3, 11)
ADVERTISED_MIN = 0
"""Old librdkafka looks for exact versions and stops compressing when version 0 is not listed (KAFKA-18659)."""


class _Pending:
    """A request whose partitions are on their way; answers when the last of them is settled or the time is up."""

    __slots__ = ("broker", "left", "request", "results", "wait")

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.results: list[tuple[str, list[PartitionProduceResponse | None]]] = []
        self.left = 0
        self.wait: Wait | None = None

    def settle(self, topic: int, place: int, answer: PartitionProduceResponse) -> None:
        """One partition is done."""
        answers = self.results[topic][1]
        if answers[place] is not None:
            return
        answers[place] = answer
        self.left -= 1
        if not self.left:
            if self.wait is None:
                self.answer()
            else:
                self.wait.finish()

    def answer(self) -> None:
        """Sends the response."""
        body: ProduceRequest = self.request.body
        topics = []
        for (name, answers), asked in zip(self.results, body.topic_data, strict=True):
            done = [
                answer
                or PartitionProduceResponse(
                    index=data.index,
                    error_code=errors.REQUEST_TIMED_OUT,
                    base_offset=-1,
                    error_message="not replicated or flushed in time",
                )
                for answer, data in zip(answers, asked.partition_data, strict=True)
            ]
            topics.append(TopicProduceResponse(name=name, partition_responses=done))
        self.request.respond(ProduceResponse(responses=topics))

    def timed_out(self, _expired: bool) -> None:
        """The wait is over, by success or by time."""
        self.answer()


def handle(broker: Broker, request: Request) -> Later | None:
    """Queues the batches and arranges for the answer."""
    body: ProduceRequest = request.body
    pending = _Pending(broker, request)
    if body.acks not in (-1, 0, 1):
        problem: errors.KafkaError | None = errors.InvalidRequiredAcks(f"acks must be -1, 0 or 1, not {body.acks}")
    elif body.transactional_id is not None:
        problem = errors.TransactionalIdAuthorizationFailed("transactions are not served by this broker")
    else:
        problem = None
    for topic in body.topic_data:
        pending.results.append((topic.name, [None] * len(topic.partition_data)))
        pending.left += len(topic.partition_data)
    if not pending.left:
        if body.acks == 0:
            return None
        pending.answer()
        return LATER
    failed = False
    for number, topic in enumerate(body.topic_data):
        for place, data in enumerate(topic.partition_data):
            if problem is not None:
                failed = True
                pending.settle(number, place, _failed(data.index, problem))
                continue
            failed |= _append(broker, pending, number, place, topic.name, data.index, data.records, body.acks)
    if body.acks == 0:
        if failed:
            raise errors.InvalidRequest("a batch sent with acks=0 could not be appended")
        return None
    if pending.left and body.acks == -1:
        pending.wait = Wait(broker.reactor, max(body.timeout_ms, 0) / 1000, pending.timed_out)
    return LATER


def _append(
    broker: Broker,
    pending: _Pending,
    number: int,
    place: int,
    topic: str,
    index: int,
    records: memoryview | None,
    acks: int,
) -> bool:
    """Appends to one partition; True if it was refused."""
    metrics = broker.metrics
    try:
        partition = broker.partition(topic, index)
        partition.check_leader()
        if records is None:
            raise errors.CorruptMessage("no records")
        if acks == -1 and len(partition.isr) < min(partition.log.config.min_insync_replicas, len(partition.replicas)):
            raise errors.NotEnoughReplicas(f"{len(partition.isr)} in-sync replicas are fewer than min.insync.replicas")
        appended = partition.append(records, broker.now_ms())
    except errors.KafkaError as problem:
        metrics.produce_failed(topic)
        if acks == 0:
            return True
        pending.settle(number, place, _failed(index, problem))
        return True
    broker.mark_dirty(partition)
    if not appended.duplicate:
        metrics.appended(topic, len(records), appended.last_offset - appended.first_offset + 1)
    if acks == 0:
        return False
    start = partition.log.log_start

    def tell(problem: errors.KafkaError | None) -> None:
        pending.settle(
            number,
            place,
            PartitionProduceResponse(
                index=index,
                error_code=0,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.log_append_time_ms,
                log_start_offset=start,
            )
            if problem is None
            else _failed(index, problem),
        )

    if acks == 1:
        partition.when_written(appended.last_offset + 1, tell)
    else:
        partition.when_committed(appended.last_offset + 1, tell)
    return False


def _failed(index: int, problem: errors.KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=problem.code, base_offset=-1, log_append_time_ms=-1, error_message=problem.message
    )
