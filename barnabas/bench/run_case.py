"""One case against one or two brokers, whatever kind of case it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from barnabas.bench.alternate import alternate
from barnabas.bench.cases import Case, title
from barnabas.bench.fetch import FetchCase, filled_topic, measure_fetch
from barnabas.bench.latency import LatencyCase, measure_latency
from barnabas.bench.produce import ProduceCase, measure_produce
from barnabas.bench.sample import Outcome, Sample
from barnabas.bench.small_requests import measure_small_requests
from barnabas.bench.target import Target

Report = Callable[[str, str, Sample], None]


def run_case(case: Case, targets: Sequence[Target], rounds: int, report: Report = lambda *_: None) -> Outcome:
    """`rounds` alternating runs; `report` gets the case, the broker and the sample of each."""
    name = title(case)

    def tell(broker: str, sample: Sample) -> None:
        report(name, broker, sample)

    if isinstance(case, FetchCase):
        with contextlib.ExitStack() as stack:
            filled = [(one.name, (one, stack.enter_context(filled_topic(one, case)))) for one in targets]
            return alternate(name, "msg", filled, lambda pair: measure_fetch(*pair, case), rounds, tell)
    named = [(one.name, one) for one in targets]
    if isinstance(case, ProduceCase):
        return alternate(name, "msg", named, lambda target: measure_produce(target, case), rounds, tell)
    if isinstance(case, LatencyCase):
        return alternate(name, "msg", named, lambda target: measure_latency(target, case), rounds, tell)
    return alternate(name, "req", named, lambda target: measure_small_requests(target, case), rounds, tell)
