"""A few small things for Deferreds that the cluster's parts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")


def spawn(work: Coroutine[Any, Any, T]) -> Deferred[T]:
    """Starts a coroutine; its Deferred ends as it does."""
    return Deferred.fromCoroutine(work)


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], width: int) -> None:
    """Runs `work` on every item, at most `width` at a time; the first failure ends it and is raised."""
    remaining = iter(items)

    async def lane() -> None:
        for item in remaining:
            await work(item)

    lanes = [spawn(lane()) for _ in range(width)]
    problem: BaseException | None = None
    for running in lanes:
        try:
            await running
        except Exception as failure:
            problem = problem or failure
    if problem is not None:
        raise problem


def pause(reactor: Any, seconds: float) -> Deferred[None]:
    """Fires after so many seconds. Cancelling it cancels the timer."""
    timer: Any = None

    def cancel(_: Deferred[None]) -> None:
        timer.cancel()

    waiting: Deferred[None] = Deferred(cancel)
    timer = reactor.callLater(seconds, waiting.callback, None)
    return waiting


class Signal:
    """Tells all who wait, each time it is fired."""

    def __init__(self) -> None:
        self._waiting: list[Deferred[None]] = []

    def wait(self) -> Deferred[None]:
        """Fires at the next `fire`."""
        waiting: Deferred[None] = Deferred(self._forget)
        self._waiting.append(waiting)
        return waiting

    def fire(self) -> None:
        """Tells those who wait now."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            _wake(one)

    def _forget(self, waiting: Deferred[None]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)


async def until(reactor: Any, signal: Signal, condition: Callable[[], T], seconds: float) -> T:
    """The condition's value as soon as it is true, asked now and at every signal; its last value at the deadline."""
    deadline = reactor.seconds() + seconds
    while not (value := condition()):
        left = deadline - reactor.seconds()
        if left <= 0:
            return value
        waiting = signal.wait()
        timer = reactor.callLater(left, _wake, waiting)
        try:
            await waiting
        finally:
            if timer.active():
                timer.cancel()
    return value


def _wake(waiting: Deferred[None]) -> None:
    if not waiting.called:
        waiting.callback(None)
