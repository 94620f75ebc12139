"""How long a message takes from the producer's call to the consumer's hands, at a given rate.

Producer and consumer are two processes on librdkafka, set for latency (no linger). Every message carries the time at
which it was due, not the time at which the producer got round to it: a stall is counted against all the messages it
delayed. The monotonic clock is one for all processes of a machine.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence

import attrs
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from hdrh.histogram import HdrHistogram

from barnabas.bench.payload import log_lines
from barnabas.bench.sample import Latencies, Sample
from barnabas.bench.target import Target
from barnabas.bench.topics import temporary_topic
from barnabas.bench.workers import Begin, Tally, run_workers
from barnabas.errors import UserError

_DUE = struct.Struct(">Q")
_LONGEST_NS = 60 * 1_000_000_000
_DIGITS = 3
_SILENCE_SECONDS = 60.0


@attrs.frozen(slots=True, kw_only=True)
class LatencyCase:
    """`rate` messages a second of `size` bytes, round robin over the partitions."""

    rate: int = 1000
    size: int = 200
    partitions: int = 1
    codec: str = "none"
    acks: str = "all"
    seconds: float = 5.0
    warm_up: float = 1.0

    @property
    def warm_up_messages(self) -> int:
        """Messages that are sent and received, and not counted."""
        return int(self.rate * self.warm_up)

    @property
    def messages(self) -> int:
        """Messages that count."""
        return int(self.rate * self.seconds)


@attrs.frozen(slots=True)
class LatencyPlan:
    """One of the two processes."""

    produces: bool
    bootstrap: str
    topic: str
    case: LatencyCase


def measure_latency(target: Target, case: LatencyCase) -> Sample:
    """One run in a topic of its own."""
    with temporary_topic(target, case.partitions) as topic:
        plans = [LatencyPlan(produces, target.bootstrap, topic, case) for produces in (False, True)]
        run = run_workers(target, work, plans)
    return Sample(
        seconds=run.seconds,
        operations=run.operations,
        bytes=run.operations * case.size,
        broker_cpu=run.broker_cpu,
        client_cpu=run.client_cpu,
        latencies=percentiles(pair for one in run.finished for pair in one.tally.values),
    )


def percentiles(values: Iterable[tuple[int, int]]) -> Latencies:
    """Of (nanoseconds, how often)."""
    histogram = HdrHistogram(1000, _LONGEST_NS, _DIGITS)
    for value, count in values:
        histogram.record_value(value, count)
    p50, p99, p999 = (histogram.get_value_at_percentile(percent) / 1000 for percent in (50, 99, 99.9))
    return Latencies(p50, p99, p999, histogram.get_max_value() / 1000)


def work(plan: LatencyPlan, begin: Begin) -> Tally:
    """Either process."""
    return produce_at_rate(plan, begin) if plan.produces else consume(plan, begin)


def produce_at_rate(plan: LatencyPlan, begin: Begin) -> Tally:
    """Sends every message when it is due, late ones at once."""
    case = plan.case
    producer = Producer(
        {
            "bootstrap.servers": plan.bootstrap,
            "acks": case.acks,
            "compression.codec": case.codec,
            "linger.ms": 0,
            "delivery.report.only.error": True,
            "log_level": 2,
        }
    )
    producer.list_topics(plan.topic, timeout=_SILENCE_SECONDS)
    filling = log_lines(case.size - _DUE.size, 1)[0]
    failed: list[str] = []

    def on_delivery(error: object, _message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    begin()
    start, interval = time.monotonic_ns(), 1_000_000_000 / case.rate
    total = case.warm_up_messages + case.messages
    for index in range(total):
        due = start + int(index * interval)
        while (ahead := due - time.monotonic_ns()) > 0:
            time.sleep(ahead / 1e9)
        value, partition = _DUE.pack(due) + filling, index % case.partitions
        producer.produce(plan.topic, value, partition=partition, on_delivery=on_delivery)
        producer.poll(0)
    if producer.flush(_SILENCE_SECONDS) or failed:
        raise UserError(f"messages were not delivered: {failed[0] if failed else 'no answer'}")
    return Tally(0, 0)


def consume(plan: LatencyPlan, begin: Begin) -> Tally:
    """Receives all messages; the latencies of those after the warm-up."""
    case = plan.case
    consumer = Consumer(
        {
            "bootstrap.servers": plan.bootstrap,
            "group.id": "barnabas-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 2,
        }
    )
    try:
        consumer.assign([TopicPartition(plan.topic, partition, 0) for partition in range(case.partitions)])
        consumer.poll(0.5)  # the fetches are on their way before the first message is
        begin()
        found = _receive(consumer, case.warm_up_messages + case.messages)
        return Tally(len(found), 0, [(value, 1) for value in found[case.warm_up_messages :]])
    finally:
        consumer.close()


def _receive(consumer: Consumer, total: int) -> Sequence[int]:
    found: list[int] = []
    while len(found) < total:
        message = consumer.poll(_SILENCE_SECONDS)
        now = time.monotonic_ns()
        if message is None:
            raise UserError(f"only {len(found)} of {total} messages arrived")
        if (error := message.error()) is not None:
            raise UserError(f"the consumer got an error: {error.str()}")
        found.append(now - int(_DUE.unpack_from(message.value() or b"")[0]))
    return found
