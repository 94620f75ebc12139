"""How many messages a second a broker takes from producers, and what they cost it.

Two clients: librdkafka with its own defaults (a batch up to 1 MB, 5 ms linger), fed by lists so that Python does no
work per message; and `raw`, whole requests encoded once, which asks what the broker could take from a client that
costs nothing.
"""

from __future__ import annotations

import time

import attrs
from confluent_kafka import Message, Producer

from barnabas.bench.frames import encode_produce, filled_batch, produce_answer
from barnabas.bench.payload import log_lines
from barnabas.bench.pipeline import PipelinePlan, run_pipeline
from barnabas.bench.sample import Sample
from barnabas.bench.target import Target
from barnabas.bench.topics import temporary_topic
from barnabas.bench.workers import Begin, Run, Tally, run_workers
from barnabas.errors import UserError

LIST_LENGTH = 1000
RAW_VERSION = 9
DIFFERENT_LINES = 997
_QUEUE_MESSAGES = 300_000
_QUEUE_KBYTES = 512 * 1024
_FLUSH_SECONDS = 120.0


@attrs.frozen(slots=True, kw_only=True)
class ProduceCase:
    """What to send. `messages` ends a run by count, otherwise it lasts `seconds`."""

    partitions: int = 1
    size: int = 200
    codec: str = "none"
    acks: str = "all"
    processes: int = 1
    client: str = "librdkafka"
    connections: int = 2
    in_flight: int = 5
    batch_bytes: int = 250_000
    seconds: float = 5.0
    messages: int | None = None
    warm_up: float = 1.0


@attrs.frozen(slots=True)
class ProducerPlan:
    """One producing process."""

    bootstrap: str
    topic: str
    case: ProduceCase
    messages: int | None


def measure_produce(target: Target, case: ProduceCase) -> Sample:
    """One run into a topic of its own."""
    with temporary_topic(target, case.partitions) as topic:
        if case.client == "raw":
            run = _run_raw(target, topic, case)
        else:
            share = None if case.messages is None else -(-case.messages // case.processes)
            plans = [ProducerPlan(target.bootstrap, topic, case, share)] * case.processes
            run = run_workers(target, produce_with_librdkafka, plans)
    return Sample(
        seconds=run.seconds,
        operations=run.operations,
        bytes=run.bytes,
        broker_cpu=run.broker_cpu,
        client_cpu=run.client_cpu,
    )


def produce_with_librdkafka(plan: ProducerPlan, begin: Begin) -> Tally:
    """The worker: lists of messages round robin over the partitions, until time or count; then all are acked."""
    case = plan.case
    producer = Producer(
        {
            "bootstrap.servers": plan.bootstrap,
            "acks": case.acks,
            "compression.codec": case.codec,
            "queue.buffering.max.messages": _QUEUE_MESSAGES,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "delivery.report.only.error": True,
            "log_level": 2,
        }
    )
    feeder = _Feeder(producer, plan.topic, case)
    feeder.feed(time.monotonic() + case.warm_up, None)
    begin()
    sent = feeder.feed(time.monotonic() + case.seconds, plan.messages)
    return Tally(sent, sent * case.size)


class _Feeder:
    """Feeds one producer and sees to it that nothing was lost on the way."""

    def __init__(self, producer: Producer, topic: str, case: ProduceCase) -> None:
        self._producer = producer
        self._topic = topic
        self._partitions = case.partitions
        lines = log_lines(case.size, DIFFERENT_LINES)
        self._list = [{"value": lines[index % DIFFERENT_LINES]} for index in range(LIST_LENGTH)]
        self._failed: str | None = None

    def feed(self, deadline: float, messages: int | None) -> int:
        """Messages accepted until `deadline` (or, given a number, that many) and acknowledged since."""
        producer, partition, sent = self._producer, 0, 0
        left = self._list  # of the list that goes to this partition
        while sent < messages if messages is not None else time.monotonic() < deadline:
            if messages is not None and messages - sent < len(left):
                left = left[: messages - sent]
            accepted = producer.produce_batch(self._topic, left, partition, self._on_delivery)
            sent += accepted
            if accepted < len(left):
                left = left[accepted:]
                producer.poll(0.002)  # its queue is full: let it work
            else:
                left = self._list
                partition = (partition + 1) % self._partitions
                producer.poll(0)
            if self._failed is not None:
                raise UserError(f"a message was not delivered: {self._failed}")
        if producer.flush(_FLUSH_SECONDS) or self._failed is not None:
            raise UserError(f"messages were not delivered: {self._failed or 'no answer'}")
        return sent

    def _on_delivery(self, error: object, _message: Message) -> None:
        if error is not None:
            self._failed = str(error)


def _run_raw(target: Target, topic: str, case: ProduceCase) -> Run:
    count = max(1, case.batch_bytes // case.size)
    batch = filled_batch(case.size, count, case.codec)
    partitions = range(case.partitions)
    plan = PipelinePlan(
        address=target.address,
        request=encode_produce(RAW_VERSION, topic, dict.fromkeys(partitions, batch), case.acks),
        answer=produce_answer(RAW_VERSION, topic, partitions),
        connections=case.connections,
        in_flight=case.in_flight,
        seconds=case.seconds,
        warm_up=case.warm_up,
        operations=count * case.partitions,
        payload=count * case.partitions * case.size,
    )
    return run_pipeline(target, plan, case.processes)
