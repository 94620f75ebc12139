"""How long the reactor's turns take: a turn ends when the reactor asks its poller for events again.

Wrapped around the poller of an epoll reactor, ours or the stock one, for neither offers a hook before and after
waiting. It costs two readings of the clock per turn.
"""

from __future__ import annotations

import math
import time
from typing import Any

WINDOW_SECONDS = 60.0


class TurnTimes:
    """The longest turn of the last one to two minutes, and the time spent waiting for events."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self._woke = math.inf  # what comes before the first wait is the start of the program, not a turn
        self._window = time.monotonic()
        self._longest = self._longest_before = 0.0
        self.turns = 0
        self.waited = 0.0
        """Seconds in which the reactor had nothing to do, since the start."""

    def poll(self, timeout: float, limit: int) -> Any:
        """The poller's own, timed."""
        asked = time.monotonic()
        took = asked - self._woke
        if asked - self._window >= WINDOW_SECONDS:
            self._turn_window(asked)
        if took > self._longest:
            self._longest = took
        try:
            return self._poller.poll(timeout, limit)
        finally:
            self.turns += 1
            self._woke = woke = time.monotonic()
            self.waited += woke - asked

    def longest(self, now: float) -> float:
        """Seconds; covers one to two minutes, however often or seldom it is read."""
        if now - self._window >= WINDOW_SECONDS:
            self._turn_window(now)
        return max(self._longest, self._longest_before)

    def _turn_window(self, now: float) -> None:
        is_old = now - self._window >= 2 * WINDOW_SECONDS
        self._longest_before, self._longest = 0.0 if is_old else self._longest, 0.0
        self._window = now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)


def time_turns(reactor: Any) -> TurnTimes | None:
    """Times the turns of an epoll reactor from now on; None for a reactor that has no such poller (a test's clock)."""
    poller = getattr(reactor, "_poller", None)
    if poller is None or not hasattr(poller, "poll"):
        return None
    times = TurnTimes(poller)
    reactor._poller = times
    return times
