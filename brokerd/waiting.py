"""Waiting for "enough, or too late": one small thing for every answer that cannot be given at once.

A `Wait` is finished exactly once: by `finish()` when whoever waits sees its condition hold, or by its
deadline. It knows no Kafka type; what "enough" means is the business of the caller, which registers the wait
with the things it watches and is told `finished` so that it can leave them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Delayed(Protocol):
    """The part of Twisted's DelayedCall that is used."""

    def cancel(self) -> None:
        """Stops the call."""


class Clock(Protocol):
    """The part of IReactorTime that is used."""

    def callLater(self, delay: float, callable: Callable[..., object]) -> Delayed:
        """Calls later."""


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
