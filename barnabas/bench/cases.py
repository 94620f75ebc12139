"""The whole table against Apache Kafka: which cases, in which of the two modes of durability.

`replicated` is Kafka's own behaviour (an answer when the page cache has the data); `flushed`, our default, answers
after the disk has it, and stands beside Kafka with flush.messages=1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import attrs

from barnabas.bench.fetch import FetchCase
from barnabas.bench.latency import LatencyCase
from barnabas.bench.produce import ProduceCase
from barnabas.bench.small_requests import SmallRequestsCase

Case = ProduceCase | FetchCase | LatencyCase | SmallRequestsCase
SHAPES = tuple(itertools.product((1, 6), (200, 1000), ("none", "snappy")))  # partitions, bytes, codec
FETCH_BYTES = 600_000_000


@attrs.frozen(slots=True)
class Mode:
    """One mode of durability: what the topics get at either broker."""

    name: str
    text: str
    barnabas: Mapping[str, str]
    kafka: Mapping[str, str]


MODES = {
    mode.name: mode
    for mode in (
        Mode("replicated", "durability=replicated against Kafka's default", {"durability": "replicated"}, {}),
        Mode(
            "flushed",
            "durability=flushed against Kafka with flush.messages=1",
            {"durability": "flushed"},
            {"flush.messages": "1"},
        ),
    )
}


def all_cases(seconds: float, warm_up: float) -> Iterator[tuple[str, str, Case]]:
    """(group, title, case) of one mode, in the order of the table."""
    for partitions, size, codec in SHAPES:
        case = ProduceCase(partitions=partitions, size=size, codec=codec, seconds=seconds, warm_up=warm_up)
        yield "produce", title(case), case
    for partitions, size, codec in SHAPES:
        messages = max(1000, int(FETCH_BYTES * min(1.0, seconds / 4)) // size)
        fetch = FetchCase(partitions=partitions, size=size, codec=codec, messages=messages)
        yield "fetch", title(fetch), fetch
    for connections in (1, 8, 64):
        for in_flight in (1, 16):
            small = SmallRequestsCase(connections=connections, in_flight=in_flight, seconds=seconds, warm_up=warm_up)
            yield "small-requests", title(small), small
    for rate in (1000, 10_000):
        latency = LatencyCase(rate=rate, seconds=max(seconds, 1.0), warm_up=warm_up)
        yield "latency", title(latency), latency


def title(case: Case) -> str:
    """A case in a few words."""
    if isinstance(case, ProduceCase):
        return (
            f"produce, {_partitions(case.partitions)}, {case.size} B, {case.codec}{_client(case.client)}{_acks(case)}"
        )
    if isinstance(case, FetchCase):
        return f"fetch, {_partitions(case.partitions)}, {case.size} B, {case.codec}{_client(case.client)}"
    if isinstance(case, LatencyCase):
        return f"latency, {case.rate:,}/s, {_partitions(case.partitions)}, {case.size} B{_acks(case)}"
    noun = "connection" if case.connections == 1 else "connections"
    return f"small requests, {case.connections} {noun}, {case.in_flight} in flight, {case.size} B{_acks(case)}"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _client(client: str) -> str:
    return "" if client == "librdkafka" else f", {client} client"


def _acks(case: ProduceCase | LatencyCase | SmallRequestsCase) -> str:
    return "" if case.acks == "all" else f", acks={case.acks}"
