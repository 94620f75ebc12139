"""The reference of metrics, from the table that a scrape is made from."""

from __future__ import annotations

from typing import Any

from brokerd import metric_families as families
from docs._ext.generated import Generated, code, plain, table

GROUPS: tuple[tuple[str, tuple[families.Family, ...]], ...] = (
    ("Topics (and, without a label, all of them together)", families.TOPIC),
    ("Requests and flushes", (families.REQUESTS, families.ERRORS, families.REQUEST_TIME, families.FLUSH_TIME)),
    ("The broker", families.BROKER),
    ("The cluster, told by the controller", (*families.CONTROLLER, families.BROKER_INFO, families.TOPIC_PARTITIONS)),
    ("Partitions, told by their leader", (*families.LED, *families.STATE)),
    ("Logs on this broker", families.LOG),
    (
        "The process",
        (families.LONGEST_TURN, families.TURNS, families.WAITED, *families.WATCHED.values(), *families.PROCESS),
    ),
)


class MetricsReference(Generated):
    """Every metric with its labels."""

    def make(self) -> str:
        parts = []
        for title, group in GROUPS:
            rows = [
                (code(one.name), one.kind, ", ".join(code(label) for label in one.labels) or code(""), plain(one.text))
                for one in group
            ]
            parts.append(
                f".. rubric:: {title}\n\n{table(('Metric', 'Kind', 'Labels', 'What it says'), rows, '44 8 14 34')}"
            )
        return "\n".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive; a metric that stands in no group would be missing from the manual."""
    documented = {one.name for _, group in GROUPS for one in group}
    missing = [one.name for one in families.ALL if one.name not in documented]
    if missing:
        raise ValueError(f"docs/_ext/metrics.py: no group for {', '.join(missing)}")
    app.add_directive("metrics-reference", MetricsReference)
    return {"parallel_read_safe": True}
