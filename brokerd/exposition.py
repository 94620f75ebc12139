"""The broker's metrics as Prometheus text, in slices short enough to be made between two turns of the reactor.

Ten thousand partitions are a hundred thousand lines. A generator makes some hundreds at a time; whoever sends them
lets the reactor turn in between. A scrape is therefore not one moment: a partition that appears meanwhile is in the
next one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, generate_latest

from brokerd import metric_families as families
from brokerd.metadata import NO_LEADER
from brokerd.metric_families import Family, Read, Totals
from brokerd.process_stats import read_process_stats
from brokerd.topic_counts import TopicCounts
from kafka_wire.apis import Api
from kafka_wire.errors import for_code
from kafka_wire.ids import TopicPartition

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.durations import Durations
    from brokerd.metadata import PartitionInfo
    from brokerd.metrics import Metrics
    from brokerd.partition import Partition

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLICE = 200
"""Lines, or partitions looked at, in one slice: well under a millisecond."""
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

Thing = TypeVar("Thing")

_PYTHON = CollectorRegistry()
"""python_*, as every Python program has them."""
GCCollector(_PYTHON)
PlatformCollector(_PYTHON)


class Labelled(Generic[Thing]):
    """Things and their labels, ready to print. Two lists, for a hundred thousand pairs would wake the collector of
    garbage, which stops the broker for longer than all the rest."""

    __slots__ = ("labels", "things")

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.things: list[Thing] = []

    def add(self, labels: str, thing: Thing) -> None:
        """One more."""
        self.labels.append(labels)
        self.things.append(thing)


def slices(broker: Broker, metrics: Metrics) -> Iterator[str]:
    """The whole exposition; some slices are empty (there was something to look at, and nothing to say yet)."""
    now = time.monotonic()
    yield from _topics(broker, metrics)
    yield _requests(metrics, now)
    totals = Totals(broker, metrics)
    here: Labelled[Partition] = Labelled()
    led: Labelled[Partition] = Labelled()
    told: Labelled[PartitionInfo] = Labelled()
    yield from _walk_here(totals, here)
    yield from _walk_cluster(totals, led, told)
    yield _broker(totals, now)
    if totals.is_controller:
        yield from _controller(totals)
    for log in families.LOG:
        yield from _series(log, here)
    for offset in families.LED:
        yield from _series(offset, led)
    for state in families.STATE:
        yield from _series(state, told)
    process = read_process_stats()
    yield "".join(_single(family, family.value(process)) for family in families.PROCESS)
    yield generate_latest(_PYTHON).decode()


def escape(label: str) -> str:
    """A label's value as it stands between quotes."""
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def request_name(api_key: int) -> str:
    """Kafka's name of an API: ListOffsets for LIST_OFFSETS."""
    try:
        return "".join(word.capitalize() for word in Api(api_key).name.split("_"))
    except ValueError:
        return str(api_key)


# ---- writing


def _head(family: Family) -> str:
    return f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n"


def _single(family: Family, value: float) -> str:
    return f"{_head(family)}{family.name} {value}\n"


def _series(family: Read[Thing], subjects: Labelled[Thing]) -> Iterator[str]:
    """One line per subject."""
    if not subjects.things:
        return
    yield _head(family)
    name, value, pairs = family.name, family.value, zip(subjects.labels, subjects.things, strict=True)
    while lines := "".join([f"{name}{labels} {value(subject)}\n" for labels, subject in islice(pairs, SLICE)]):
        yield lines


def _sliced(things: Iterable[Thing]) -> Iterator[list[Thing]]:
    rest = iter(things)
    while some := list(islice(rest, SLICE)):
        yield some


def _summary(family: Family, labels: str, durations: Durations, now: float) -> str:
    """Milliseconds, as Kafka counts."""
    durations.turn_window(now)
    name, comma = family.name, "," if labels else ""
    lines = [
        f'{name}{{{labels}{comma}quantile="{share}"}} {_number(seconds * 1000)}'
        for share, seconds in zip(QUANTILES, durations.quantiles(QUANTILES), strict=True)
    ]
    around = f"{{{labels}}}" if labels else ""
    lines += [f"{name}_sum{around} {durations.seconds * 1000}", f"{name}_count{around} {durations.count}"]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "NaN" if value != value else f"{value:.6g}"


# ---- what there is to say


def _topics(broker: Broker, metrics: Metrics) -> Iterator[str]:
    """Per topic and, without a label, over all topics, those included that are gone."""
    known = broker.view.topics
    for gone in [name for name in metrics.topics if name not in known]:
        metrics.forget_topic(gone)
    total = TopicCounts()
    total.add(metrics.others)
    subjects: Labelled[TopicCounts] = Labelled()
    subjects.add("", total)
    for some in _sliced(list(metrics.topics)):
        for name in some:
            topic = metrics.topics.get(name)
            if topic is not None:
                total.add(topic)
                subjects.add(f'{{topic="{escape(name)}"}}', topic)
        yield ""
    for family in families.TOPIC:
        yield from _series(family, subjects)


def _requests(metrics: Metrics, now: float) -> str:
    lines = [_head(families.REQUESTS)]
    unversioned = dict(metrics.requests)
    for (api_key, version), count in sorted(metrics.versions.items()):
        unversioned[api_key] = unversioned.get(api_key, 0) - count
        lines.append(f'{families.REQUESTS.name}{{request="{request_name(api_key)}",version="{version}"}} {count}\n')
    for api_key, count in sorted(unversioned.items()):
        if count > 0:
            lines.append(f'{families.REQUESTS.name}{{request="{request_name(api_key)}",version=""}} {count}\n')
    lines.append(_head(families.ERRORS))
    for (api_key, code), count in sorted(metrics.errors.items()):
        lines.append(
            f'{families.ERRORS.name}{{request="{request_name(api_key)}",error="{for_code(code).name}"}} {count}\n'
        )
    lines.append(_head(families.REQUEST_TIME))
    for api_key, durations in sorted(metrics.durations.items()):
        lines.append(_summary(families.REQUEST_TIME, f'request="{request_name(api_key)}"', durations, now))
    if metrics.flushes.count:
        lines += [_head(families.FLUSH_TIME), _summary(families.FLUSH_TIME, "", metrics.flushes, now)]
    return "".join(lines)


def _labels(topic: str, partition: int) -> str:
    return f'{{topic="{escape(topic)}",partition="{partition}"}}'


def _walk_here(totals: Totals, here: Labelled[Partition]) -> Iterator[str]:
    """Counts the partitions of this broker and remembers them with their labels."""
    for some in _sliced(list(totals.broker.partitions.values())):
        for partition in some:
            here.add(_labels(partition.tp.topic, partition.tp.partition), partition)
            totals.partitions += 1
            if not partition.is_leader:
                continue
            totals.leaders += 1
            in_sync = len(partition.isr)
            least = min(partition.log.config.min_insync_replicas, len(partition.replicas))
            totals.under_replicated += in_sync < len(partition.replicas)
            totals.under_min_isr += in_sync < least
            totals.at_min_isr += in_sync == least
        yield ""


def _walk_cluster(totals: Totals, led: Labelled[Partition], told: Labelled[PartitionInfo]) -> Iterator[str]:
    """Counts the cluster's partitions and remembers those that are ours to tell of, and which of them we lead."""
    broker, me, is_controller = totals.broker, totals.broker.config.broker_id, totals.is_controller
    places = ((topic, info) for topic in list(broker.view.topics.values()) for info in topic.partitions)
    for some in _sliced(places):
        for topic, info in some:
            totals.known_partitions += 1
            totals.leaderless += info.leader == NO_LEADER
            totals.not_preferred += info.leader != info.replicas[0]
            if info.leader != me and not (info.leader == NO_LEADER and is_controller):
                continue
            labels = _labels(topic.name, info.index)
            told.add(labels, info)
            local = broker.partitions.get(TopicPartition(topic.name, info.index))
            if local is not None and local.is_leader:
                led.add(labels, local)
        yield ""


def _broker(totals: Totals, now: float) -> str:
    lines = [_single(family, family.value(totals)) for family in families.BROKER]
    metrics = totals.metrics
    for name, value in metrics.watched.items():
        lines.append(_single(families.WATCHED[name], value()))
    if metrics.turns is not None:
        lines.append(_single(families.LONGEST_TURN, round(metrics.turns.longest(now), 6)))
        lines.append(_single(families.TURNS, metrics.turns.turns))
        lines.append(_single(families.WAITED, round(metrics.turns.waited, 6)))
    return "".join(lines)


def _controller(totals: Totals) -> Iterator[str]:
    view = totals.broker.view
    yield "".join(_single(family, family.value(totals)) for family in families.CONTROLLER)
    yield _head(families.BROKER_INFO)
    for brokers in _sliced(list(view.brokers.values())):
        yield "".join(
            f'{families.BROKER_INFO.name}{{id="{one.broker_id}",address="{escape(one.host)}:{one.port}"}} 1\n'
            for one in brokers
        )
    yield _head(families.TOPIC_PARTITIONS)
    for topics in _sliced(list(view.topics.values())):
        yield "".join(
            f'{families.TOPIC_PARTITIONS.name}{{topic="{escape(topic.name)}"}} {len(topic.partitions)}\n'
            for topic in topics
        )
