"""Jobs that run now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from twisted.internet.task import Clock

from brokerd.config import load
from brokerd.housekeeping import PARTITIONS_PER_TURN, Housekeeping
from kafka_wire.ids import TopicPartition


class _Logs:
    def __init__(self, count: int) -> None:
        self.logs = {TopicPartition("t", index): None for index in range(count)}
        self.retained: list[int] = []

    def apply_retention(
        self, now_ms: int, mark: Callable[[TopicPartition], int], partitions: Iterable[TopicPartition]
    ) -> int:
        assert all(mark(tp) == -1 for tp in partitions)
        self.retained.append(len(list(partitions)))
        return 0


@attrs.define
class _Broker:
    config: Any
    logs: _Logs
    partitions: dict[TopicPartition, Any] = attrs.field(factory=dict)

    def now_ms(self) -> int:
        return 0


def _jobs(count: int, remember: Callable[[], None] = lambda: None) -> tuple[Clock, _Logs, Housekeeping]:
    config, _ = load({"log.retention.check.interval.ms": "1000", "log.flush.offset.checkpoint.interval.ms": "900000"})
    config = attrs.evolve(config, replica_high_watermark_checkpoint_interval_ms=900_000)
    clock, logs = Clock(), _Logs(count)
    broker: Any = _Broker(config, logs)
    return clock, logs, Housekeeping(clock, broker, remember)


def test_retention_looks_at_some_partitions_per_turn() -> None:
    """Ten thousand at once would hold up every client."""
    clock, logs, jobs = _jobs(PARTITIONS_PER_TURN + 5)
    jobs.start()

    clock.advance(1)

    assert logs.retained == [PARTITIONS_PER_TURN, 5, 0]
    jobs.stop()
    assert not clock.getDelayedCalls()


def test_job_that_fails_runs_again() -> None:
    """One full disk or lost session must not end housekeeping."""
    calls: list[None] = []

    def remember() -> None:
        calls.append(None)
        raise OSError("no")

    clock, _, jobs = _jobs(0, remember)
    jobs.start()
    for _ in range(120):
        clock.advance(1)

    assert len(calls) == 2
    jobs.stop()
