"""Waiting for "enough, or too late": one small thing for every answer that cannot be given at once.

A `Wait` is finished exactly once: by `finish()` when whoever waits sees its condition hold, or by its
deadline. It knows no Kafka type; what "enough" means is the business of the caller, which registers the wait
with the things it watches and is told `finished` so that it can leave them.

`Deadlines` is for waits of which thousands begin every second and almost none expires: they share one timer, and are
noticed up to two SWEEP_SECONDS late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

SWEEP_SECONDS = 0.25


class Delayed(Protocol):
    """The part of Twisted's DelayedCall that is used."""

    def cancel(self) -> None:
        """Stops the call."""


class Clock(Protocol):
    """The part of IReactorTime that is used."""

    def callLater(self, delay: float, callable: Callable[..., object]) -> Delayed:
        """Calls later."""

    def seconds(self) -> float:
        """The time that `callLater` counts."""


class Wait:
    """One waiting answer: `done(timed_out)` is called exactly once."""

    __slots__ = ("_done", "_timer", "finished")

    def __init__(self, clock: Clock, seconds: float, done: Callable[[bool], None]) -> None:
        self._done = done
        self.finished = False
        self._timer: Delayed | None = clock.callLater(seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._end(True)

    def finish(self) -> None:
        """The condition holds; later calls do nothing."""
        self._end(False)

    def cancel(self) -> None:
        """Nobody wants the answer any more (the client is gone): ends without calling `done`."""
        if not self.finished:
            self.finished = True
            self._stop()

    def _end(self, timed_out: bool) -> None:
        if self.finished:
            return
        self.finished = True
        self._stop()
        self._done(timed_out)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Expiring(Protocol):
    """Something with a deadline. It lets go of what it holds when it is done: it may stay listed for a while."""

    done: bool

    def expire(self) -> None:
        """The deadline passed before it was done."""


class Deadlines:
    """The deadlines of many things. Adding one is an append: the clock is read only at the sweeps, which also let go of
    what is done. So a deadline is noticed up to two sweeps late, and never early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fresh: dict[float, list[Expiring]] = {}  # by time-out: added since the last sweep
        self._aging: list[tuple[float, list[Expiring]]] = []  # (deadline, what is not done)
        self._swept = False

    def add(self, seconds: float, item: Expiring) -> None:
        """Has `item` expire after `seconds`, at most two SWEEP_SECONDS later, unless it is done by then."""
        try:
            self._fresh[seconds].append(item)
        except KeyError:
            self._fresh[seconds] = [item]
            if not self._swept:
                self._swept = True
                self._clock.callLater(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        now = self._clock.seconds()
        fresh, self._fresh = self._fresh, {}
        aging, self._aging = self._aging + [(now + seconds, items) for seconds, items in fresh.items()], []
        for deadline, items in aging:
            left = [item for item in items if not item.done]
            if deadline <= now:
                for item in left:
                    if not item.done:  # the end of another may have been the end of this one too
                        item.expire()
            elif left:
                self._aging.append((deadline, left))
        self._swept = bool(self._aging or self._fresh)
        if self._swept:
            self._clock.callLater(SWEEP_SECONDS, self._sweep)
