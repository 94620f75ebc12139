"""When written logs are flushed: at once, or when flush.ms is over, with one timer for each log that has to wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brokerd.storage.partition_log import PartitionLog


class FlushSchedule:
    """Hands logs to `flush` when they are due. `held` says whether a log is still this broker's when its time comes."""

    def __init__(
        self, clock: Any, flush: Callable[[PartitionLog], object], held: Callable[[PartitionLog], bool]
    ) -> None:
        self._clock = clock
        self._flush = flush
        self._held = held
        self._timers: dict[PartitionLog, Any] = {}

    def request(self, log: PartitionLog) -> None:
        """To be called after each write, and when the settings of a log have changed."""
        if log.is_flush_due():
            self._flush(log)
            return
        milliseconds = log.flush_due_in_ms()
        if milliseconds is None:
            return
        timer = self._timers.get(log)
        if timer is None:
            self._timers[log] = self._clock.callLater(milliseconds / 1000, self._time_is_over, log)
        elif timer.getTime() > self._clock.seconds() + milliseconds / 1000:
            timer.reset(milliseconds / 1000)

    def stop(self) -> None:
        """No log is flushed for its time any more."""
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            timer.cancel()

    def _time_is_over(self, log: PartitionLog) -> None:
        """What was written since a flush in between has its own time to wait."""
        del self._timers[log]
        if self._held(log):
            self.request(log)
