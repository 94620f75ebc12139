"""Tables of outcomes."""

import pytest

from barnabas.bench.cases import MODES, all_cases
from barnabas.bench.compare import Comparison, Rest
from barnabas.bench.report import COLUMNS, rows, rst
from barnabas.bench.sample import Latencies, Outcome, Sample, Series


def outcome(case: str, *, timed: bool = False) -> Outcome:
    latencies = Latencies(100, 200, 300, 400) if timed else None
    samples = tuple(
        Sample(seconds=1.0, operations=count, bytes=count, broker_cpu=0.5, latencies=latencies) for count in (1000, 500)
    )
    return Outcome(case, "msg", Series("Barnabas", samples[:1]), Series("Kafka", samples[1:]))


def test_two_brokers_give_two_rows_and_their_ratio() -> None:
    """The ratio stands under the numbers that it is of."""
    first, second, ratio = rows(outcome("produce, 1 partition"))
    assert first[:3] == ("produce, 1 partition", "Barnabas", "1,000")
    assert second[:3] == ("", "Kafka", "500")
    assert ratio[1:5] == ("ratio", "× 2.00", None, "× 0.50")
    assert {len(first), len(second), len(ratio)} == {len(COLUMNS)}


def test_whole_table_is_valid_restructuredtext() -> None:
    """The documentation is built with warnings as errors."""
    cases = [
        (mode, group, outcome(title, timed=group == "latency"))
        for mode in MODES
        for group, title, _ in all_cases(4.0, 1.0)
    ]
    rest = Rest(name="Barnabas", ready_seconds=0.5, memory=50_000_000, memory_after_load=60_000_000)
    text = rst(
        Comparison(
            machine={"CPU": "2 cores"}, kafka_version="3.9", rounds=3, seconds=4.0, outcomes=tuple(cases), rest=(rest,)
        )
    )
    docutils = pytest.importorskip("docutils.core")
    html = docutils.publish_string(text, writer="html", settings_overrides={"halt_level": 2}).decode()
    assert html.count("<table") == 2 + 2 * 4
    assert "50 MB" in html
    assert "8 connections, 16 in flight" in html
