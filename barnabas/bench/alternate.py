"""A, B, A, B, ...: runs of one measurement against one broker or, in turn, against two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.bench.sample import Outcome, Sample, Series

T = TypeVar("T")


def alternate(
    case: str,
    unit: str,
    targets: Sequence[tuple[str, T]],
    measure: Callable[[T], Sample],
    rounds: int,
    report: Callable[[str, Sample], None] = lambda name, sample: None,
) -> Outcome:
    """`rounds` runs against each target (one or two, with their names), next to each other in time."""
    found: list[list[Sample]] = [[] for _ in targets]
    for _ in range(rounds):
        for samples, (name, target) in zip(found, targets, strict=True):
            sample = measure(target)
            samples.append(sample)
            report(name, sample)
    series = [Series(name, tuple(samples)) for samples, (name, _) in zip(found, targets, strict=True)]
    return Outcome(case, unit, series[0], series[1] if len(series) > 1 else None)
