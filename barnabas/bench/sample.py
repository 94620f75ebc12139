"""What one run found, and what several runs say together. Pure: the command line prints it, tests check it.

A ratio is taken pair by pair (the runs that stood next to each other in time) and then the median of the pairs: a
machine that slows down half-way moves both sides of a pair.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import attrs


@attrs.frozen(slots=True)
class Latencies:
    """Percentiles in microseconds."""

    p50: float
    p99: float
    p999: float
    max: float


@attrs.frozen(slots=True, kw_only=True)
class Sample:
    """One run against one broker. CPU in seconds over the measured time; None where its process is not known."""

    seconds: float
    operations: int
    bytes: int = 0
    broker_cpu: float | None = None
    client_cpu: float = 0.0
    latencies: Latencies | None = None

    @property
    def rate(self) -> float:
        """Operations (messages or requests) a second."""
        return self.operations / self.seconds

    @property
    def megabytes(self) -> float:
        """Payload in MB a second."""
        return self.bytes / self.seconds / 1e6

    @property
    def broker_micros(self) -> float | None:
        """Broker CPU in microseconds for one operation."""
        return None if self.broker_cpu is None else self.broker_cpu * 1e6 / max(self.operations, 1)

    @property
    def client_micros(self) -> float:
        """Client CPU in microseconds for one operation."""
        return self.client_cpu * 1e6 / max(self.operations, 1)

    @property
    def broker_cores(self) -> float | None:
        """How many cores the broker kept busy."""
        return None if self.broker_cpu is None else self.broker_cpu / self.seconds


@attrs.frozen(slots=True)
class Series:
    """All runs against one broker in one case, in their order."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def rate(self) -> float:
        """Median of the rates."""
        return statistics.median(sample.rate for sample in self.samples)

    @property
    def megabytes(self) -> float:
        """Median of the MB a second."""
        return statistics.median(sample.megabytes for sample in self.samples)

    @property
    def broker_micros(self) -> float | None:
        """Median of the broker's CPU per operation."""
        return _median([sample.broker_micros for sample in self.samples])

    @property
    def broker_cores(self) -> float | None:
        """Median of the broker's busy cores."""
        return _median([sample.broker_cores for sample in self.samples])

    @property
    def client_micros(self) -> float:
        """Median of the client's CPU per operation."""
        return statistics.median(sample.client_micros for sample in self.samples)

    @property
    def latencies(self) -> Latencies | None:
        """Each percentile's median over the runs."""
        found = [sample.latencies for sample in self.samples if sample.latencies is not None]
        if not found:
            return None
        return Latencies(
            p50=statistics.median(one.p50 for one in found),
            p99=statistics.median(one.p99 for one in found),
            p999=statistics.median(one.p999 for one in found),
            max=statistics.median(one.max for one in found),
        )


@attrs.frozen(slots=True)
class Ratios:
    """First broker over second: above 1 the first has the higher rate, the higher CPU, the longer latency."""

    rate: float
    broker_micros: float | None
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None


@attrs.frozen(slots=True)
class Outcome:
    """One case: the broker under test and, if there was one, the broker it is measured against."""

    case: str
    unit: str
    first: Series
    second: Series | None = None

    @property
    def ratios(self) -> Ratios | None:
        """Medians of the pairwise ratios; None without a second broker."""
        if self.second is None:
            return None
        pairs = list(zip(self.first.samples, self.second.samples, strict=True))
        timed = [(a.latencies, b.latencies) for a, b in pairs]
        return Ratios(
            rate=statistics.median(a.rate / b.rate for a, b in pairs),
            broker_micros=_median([_ratio(a.broker_micros, b.broker_micros) for a, b in pairs]),
            p50=_median([_ratio(a.p50, b.p50) if a and b else None for a, b in timed]),
            p99=_median([_ratio(a.p99, b.p99) if a and b else None for a, b in timed]),
            p999=_median([_ratio(a.p999, b.p999) if a and b else None for a, b in timed]),
        )

    def as_json(self) -> dict[str, object]:
        """Everything found, with the derived numbers beside the raw ones."""
        return {
            "case": self.case,
            "unit": self.unit,
            "brokers": [_series_json(series) for series in (self.first, self.second) if series is not None],
            "ratios": None if self.ratios is None else attrs.asdict(self.ratios),
        }


def _series_json(series: Series) -> dict[str, object]:
    return {
        "name": series.name,
        "rate": series.rate,
        "megabytes_per_second": series.megabytes,
        "broker_cpu_micros": series.broker_micros,
        "client_cpu_micros": series.client_micros,
        "latency_micros": None if series.latencies is None else attrs.asdict(series.latencies),
        "samples": [attrs.asdict(sample) for sample in series.samples],
    }


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None or b == 0 else a / b


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
