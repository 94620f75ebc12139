"""When logs are flushed. The clock is a model; the logs only say what they would say."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from brokerd.flush_schedule import FlushSchedule


class WrittenLog:
    """A log that was written `dirty_since` on the clock; None: nothing is dirty."""

    def __init__(self, clock: Clock, flush_ms: int | None) -> None:
        self._clock = clock
        self.flush_ms = flush_ms
        self.dirty_since: float | None = clock.seconds()

    def is_flush_due(self) -> bool:
        """By the time alone; None means at once."""
        return self.dirty_since is not None and (self.flush_ms is None or self._left_ms() <= 0)

    def flush_due_in_ms(self) -> int | None:
        """As the real one."""
        return None if self.dirty_since is None or self.flush_ms is None else max(self._left_ms(), 1)

    def _left_ms(self) -> int:
        assert self.dirty_since is not None
        assert self.flush_ms is not None
        return round((self.dirty_since - self._clock.seconds()) * 1000) + self.flush_ms


class Bench:
    """A schedule, and what it had flushed."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.flushed: list[Any] = []
        self.dropped: set[Any] = set()
        self.schedule = FlushSchedule(self.clock, self._flush, lambda log: log not in self.dropped)

    def _flush(self, log: Any) -> None:
        self.flushed.append(log)
        log.dirty_since = None

    def written(self, flush_ms: int | None) -> Any:
        """A log, just written."""
        log: Any = WrittenLog(self.clock, flush_ms)
        self.schedule.request(log)
        return log


@pytest.fixture
def bench() -> Bench:
    """A schedule."""
    return Bench()


def test_log_that_is_due_is_flushed_at_once(bench: Bench) -> None:
    """No timer is made."""
    log = bench.written(None)

    assert bench.flushed == [log]
    assert bench.clock.getDelayedCalls() == []


def test_log_that_is_not_due_is_flushed_when_its_time_is_over(bench: Bench) -> None:
    """One timer, however often it is written meanwhile."""
    log = bench.written(500)
    for _ in range(5):
        bench.schedule.request(log)
    assert len(bench.clock.getDelayedCalls()) == 1

    bench.clock.advance(0.4)
    assert bench.flushed == []
    bench.clock.advance(0.1)
    assert bench.flushed == [log]
    assert bench.clock.getDelayedCalls() == []


def test_log_that_was_flushed_meanwhile_waits_its_own_time(bench: Bench) -> None:
    """The timer of the first write finds the later one not due."""
    log = bench.written(500)
    bench.clock.advance(0.3)
    log.dirty_since = bench.clock.seconds()
    bench.clock.advance(0.2)
    assert bench.flushed == []

    bench.clock.advance(0.3)
    assert bench.flushed == [log]


def test_shorter_time_holds_at_once(bench: Bench) -> None:
    """The settings were changed while the log waited."""
    log = bench.written(60_000)
    log.flush_ms = 500
    bench.schedule.request(log)

    bench.clock.advance(0.5)
    assert bench.flushed == [log]


def test_log_that_is_gone_is_left_alone(bench: Bench) -> None:
    """Its topic was deleted, or the broker stops."""
    bench.dropped.add(bench.written(500))
    bench.clock.advance(0.5)
    bench.written(500)
    bench.schedule.stop()
    bench.clock.advance(0.5)

    assert bench.flushed == []
