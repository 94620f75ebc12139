"""Outcomes as rows of a table for the terminal, and the whole comparison as reStructuredText for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.bench.cases import MODES
from barnabas.bench.compare import Comparison
from barnabas.bench.sample import Outcome, Ratios, Series

COLUMNS = (
    "case", "broker", "per second", "MB/s", "broker µs", "broker cores", "client µs", "p50 µs", "p99 µs", "p99.9 µs"
)  # fmt: skip


def rows(outcome: Outcome) -> Iterator[Sequence[str | None]]:
    """A row for each broker, then the ratio of the first over the second."""
    yield _series_row(outcome.case, outcome.first)
    if outcome.second is not None and outcome.ratios is not None:
        yield _series_row("", outcome.second)
        yield _ratio_row(outcome.ratios)


def _series_row(case: str, series: Series) -> Sequence[str | None]:
    found = series.latencies
    percentiles = (None, None, None) if found is None else (found.p50, found.p99, found.p999)
    return (
        case,
        series.name,
        f"{series.rate:,.0f}",
        f"{series.megabytes:,.1f}",
        _number(series.broker_micros, "{:.2f}"),
        _number(series.broker_cores, "{:.2f}"),
        f"{series.client_micros:.2f}",
        *(_number(value, "{:,.0f}") for value in percentiles),
    )


def _ratio_row(ratios: Ratios) -> Sequence[str | None]:
    def times(value: float | None) -> str | None:
        return _number(value, "× {:.2f}")

    return (
        "", "ratio", times(ratios.rate), None, times(ratios.broker_micros), None, None,
        times(ratios.p50), times(ratios.p99), times(ratios.p999),
    )  # fmt: skip


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)


# --- reStructuredText ---

GROUPS = {
    "produce": "Produce",
    "fetch": "Fetch",
    "small-requests": "Small requests (Produce, one record each)",
    "latency": "End to end latency",
}
_NOTICE = "..\n   Written by `barnabas bench compare`; not edited by hand.\n"
_THROUGHPUT = ("case", "Barnabas/s", "Kafka/s", "ratio", "Barnabas µs", "Kafka µs", "CPU ratio")
_LATENCY = (
    "case",
    "Barnabas p50",
    "Kafka p50",
    "Barnabas p99",
    "Kafka p99",
    "p99 ratio",
    "Barnabas p99.9",
    "Kafka p99.9",
)


def rst(comparison: Comparison) -> str:
    """Tables by mode and group, to be included in a page."""
    parts = [
        "..\n   Written by `barnabas bench compare`; not edited by hand.\n",
        _machine(comparison),
        _rest(comparison),
    ]
    for name, mode in MODES.items():
        for group, heading in GROUPS.items():
            found = [one for in_mode, in_group, one in comparison.outcomes if (in_mode, in_group) == (name, group)]
            if found:
                columns = _LATENCY if group == "latency" else _THROUGHPUT
                row = _latency_cells if group == "latency" else _throughput_cells
                parts.append(list_table(f"{heading}: {mode.text}", columns, [row(one) for one in found]))
    return "\n".join(parts)


def list_table(title: str, columns: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """A list-table: no column to align, any text in a cell."""
    lines = [f".. list-table:: {title}", "   :header-rows: 1", ""]
    for row in (columns, *table):
        lines += [f"   {'*' if index == 0 else ' '} - {text}" for index, text in enumerate(row)]
    return "\n".join(lines) + "\n"


def _machine(comparison: Comparison) -> str:
    facts = list(comparison.machine.items())
    facts.append(("Kafka", f"{comparison.kafka_version}, ZooKeeper mode, 1 GiB of heap"))
    facts.append(("runs", f"{comparison.rounds} of each broker in turn, {comparison.seconds:g} s each; medians"))
    return list_table("The machine and the runs", ("what", "value"), facts)


def _rest(comparison: Comparison) -> str:
    table = [
        (
            one.name,
            f"{one.ready_seconds:.2f} s",
            f"{one.memory / 1e6:,.0f} MB",
            f"{one.memory_after_load / 1e6:,.0f} MB",
        )
        for one in comparison.rest
    ]
    return list_table("Without load", ("broker", "ready after", "memory at rest", "memory after the load"), table)


def _throughput_cells(outcome: Outcome) -> Sequence[str]:
    first, second, ratios = outcome.first, outcome.second, outcome.ratios
    if second is None or ratios is None:
        raise ValueError("a comparison has two brokers")
    return (
        _short(outcome.case),
        f"{first.rate:,.0f}",
        f"{second.rate:,.0f}",
        f"**{ratios.rate:.2f}**",
        _number(first.broker_micros, "{:.2f}") or "-",
        _number(second.broker_micros, "{:.2f}") or "-",
        _number(ratios.broker_micros, "**{:.2f}**") or "-",
    )


def _latency_cells(outcome: Outcome) -> Sequence[str]:
    ratios = outcome.ratios
    first, second = outcome.first.latencies, outcome.second.latencies if outcome.second else None
    if first is None or second is None or ratios is None:
        raise ValueError("a comparison of latencies has two brokers")
    return (
        _short(outcome.case),
        *(f"{value:,.0f}" for value in (first.p50, second.p50, first.p99, second.p99)),
        _number(ratios.p99, "**{:.2f}**") or "-",
        *(f"{value:,.0f}" for value in (first.p999, second.p999)),
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _short(case: str) -> str:
    """A case without its group, which the table's title has."""
    return case.partition(", ")[2]
