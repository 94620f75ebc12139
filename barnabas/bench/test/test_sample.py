"""What several runs say together."""

from typing import Any

from barnabas.bench.alternate import alternate
from barnabas.bench.sample import Latencies, Outcome, Sample, Series


def sample(rate: int, cpu: float | None = 1.0, p99: float | None = None) -> Sample:
    latencies = None if p99 is None else Latencies(p99 / 2, p99, p99 * 2, p99 * 3)
    return Sample(seconds=2.0, operations=rate * 2, bytes=rate * 400, broker_cpu=cpu, latencies=latencies)


def test_one_run_gives_rates_and_cpu_per_operation() -> None:
    """Rates are per second, CPU is per message."""
    one = sample(1000, cpu=0.5)
    assert (one.rate, one.megabytes, one.broker_micros, one.broker_cores) == (1000, 0.2, 250.0, 0.25)


def test_ratio_is_the_median_of_neighbouring_pairs() -> None:
    """A machine that slows down for both brokers leaves the ratio alone."""
    first = Series("a", (sample(200), sample(20), sample(2000)))
    second = Series("b", (sample(100), sample(10), sample(4000)))
    ratios = Outcome("case", "msg", first, second).ratios
    assert ratios is not None
    assert ratios.rate == 2.0


def test_ratio_without_second_broker_is_none() -> None:
    """One broker alone has no ratio."""
    assert Outcome("case", "msg", Series("a", (sample(1),))).ratios is None


def test_unknown_process_of_one_broker_gives_no_cpu_ratio() -> None:
    """A broker elsewhere has no CPU here, and no CPU ratio."""
    ratios = Outcome("case", "msg", Series("a", (sample(1),)), Series("b", (sample(1, cpu=None),))).ratios
    assert ratios is not None
    assert ratios.broker_micros is None


def test_percentiles_are_compared_one_by_one() -> None:
    """Latency ratios are of the same percentile."""
    outcome = Outcome("case", "msg", Series("a", (sample(1, p99=100),)), Series("b", (sample(1, p99=400),)))
    assert outcome.ratios is not None
    assert (outcome.ratios.p50, outcome.ratios.p99, outcome.ratios.p999) == (0.25, 0.25, 0.25)


def test_json_has_raw_samples_and_medians() -> None:
    """A program finds every run and what they say together."""
    found: dict[str, Any] = Outcome("case", "msg", Series("a", (sample(10), sample(30), sample(20)))).as_json()
    (broker,) = found["brokers"]
    assert broker["rate"] == 20
    assert [one["operations"] for one in broker["samples"]] == [20, 60, 40]


def test_runs_alternate_between_two_brokers() -> None:
    """A, B, A, B: neither broker gets the quiet half-hour."""
    order: list[str] = []

    def measure(target: str) -> Sample:
        order.append(target)
        return sample(len(order))

    outcome = alternate("case", "msg", [("one", "A"), ("two", "B")], measure, 2)
    assert order == ["A", "B", "A", "B"]
    assert [one.rate for one in outcome.first.samples] == [1, 3]
    assert outcome.second is not None
    assert outcome.second.name == "two"
