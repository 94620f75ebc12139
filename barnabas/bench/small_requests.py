"""How many small Produce requests a second a broker answers, and what each costs it: one record to a request.

This is what a broker's own machinery costs: no client library, no batching, requests encoded once.
"""

from __future__ import annotations

import attrs

from barnabas.bench.frames import encode_produce, filled_batch, produce_answer
from barnabas.bench.latency import percentiles
from barnabas.bench.pipeline import PipelinePlan, run_pipeline
from barnabas.bench.sample import Sample
from barnabas.bench.target import Target
from barnabas.bench.topics import temporary_topic

VERSION = 9


@attrs.frozen(slots=True, kw_only=True)
class SmallRequestsCase:
    """`connections`, each with `in_flight` requests unanswered at any time."""

    connections: int = 1
    in_flight: int = 1
    size: int = 100
    acks: str = "all"
    version: int = VERSION
    processes: int = 1
    seconds: float = 5.0
    warm_up: float = 1.0


def measure_small_requests(target: Target, case: SmallRequestsCase) -> Sample:
    """One run into a topic of its own, with one partition."""
    with temporary_topic(target, 1) as topic:
        plan = PipelinePlan(
            address=target.address,
            request=encode_produce(case.version, topic, {0: filled_batch(case.size, 1)}, case.acks),
            answer=produce_answer(case.version, topic, [0]),
            connections=case.connections,
            in_flight=case.in_flight,
            seconds=case.seconds,
            warm_up=case.warm_up,
            payload=case.size,
        )
        run = run_pipeline(target, plan, case.processes)
    return Sample(
        seconds=run.seconds,
        operations=run.operations,
        bytes=run.bytes,
        broker_cpu=run.broker_cpu,
        client_cpu=run.client_cpu,
        latencies=percentiles(pair for one in run.finished for pair in one.tally.values),
    )
