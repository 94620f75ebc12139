"""The table that the project promises."""

from collections import Counter

from barnabas.bench.cases import MODES, all_cases
from barnabas.bench.produce import ProduceCase


def test_table_has_every_promised_case() -> None:
    """1 and 6 partitions, 200 B and 1 KB, none and snappy; 1, 8, 64 connections; two rates."""
    groups = Counter(group for group, _, _ in all_cases(4.0, 1.0))
    assert groups == {"produce": 8, "fetch": 8, "small-requests": 6, "latency": 2}
    shapes = {
        (case.partitions, case.size, case.codec) for _, _, case in all_cases(4.0, 1.0) if isinstance(case, ProduceCase)
    }
    assert len(shapes) == 8


def test_titles_differ() -> None:
    """A row is known by its title."""
    titles = [title for _, title, _ in all_cases(4.0, 1.0)]
    assert len(set(titles)) == len(titles)


def test_flushed_stands_beside_kafka_flushing_every_message() -> None:
    """Durability is compared with the same durability."""
    assert MODES["flushed"].kafka == {"flush.messages": "1"}
    assert MODES["replicated"].kafka == {}
