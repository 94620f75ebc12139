"""A few small things for Deferreds that the engine's parts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults
from twisted.python.failure import Failure

T = TypeVar("T")


def spawn(work: Coroutine[Any, Any, T]) -> Deferred[T]:
    """Starts a coroutine; its Deferred ends as it does."""
    return Deferred.fromCoroutine(work)


def pause(reactor: Any, seconds: float) -> Deferred[None]:
    """Fires after so many seconds."""
    timer: Any = None

    def cancel(_: Deferred[None]) -> None:
        timer.cancel()

    waiting: Deferred[None] = Deferred(cancel)
    timer = reactor.callLater(seconds, waiting.callback, None)
    return waiting


def stop_timer(timer: Any) -> None:
    """Cancels a delayed call that may be over, or may never have been."""
    if timer is not None and timer.active():
        timer.cancel()


async def together(awaited: Sequence[Deferred[T]]) -> list[T]:
    """All results in order; the first failure, as itself, when all have ended."""
    results: list[Any] = await gatherResults([one.addBoth(lambda end: end_of(end)) for one in awaited])
    for result in results:
        if isinstance(result, _Failed):
            raise result.problem
    return results


class _Failed:
    """A failure as a value."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem


def end_of(end: Any) -> Any:
    """A Deferred's end as a value that does not fail."""
    if isinstance(end, Failure):
        assert end.value is not None
        return _Failed(end.value)
    return end


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], width: int) -> None:
    """Runs `work` on every item, at most `width` at a time; the first failure is raised when all lanes have ended."""
    remaining = iter(items)

    async def lane() -> None:
        for item in remaining:
            await work(item)

    await together([spawn(lane()) for _ in range(width)])


class Signal:
    """Tells all who wait, each time it is fired."""

    def __init__(self) -> None:
        self._waiting: list[Deferred[None]] = []

    def wait(self) -> Deferred[None]:
        """Fires at the next `fire`."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def fire(self) -> None:
        """Tells those who wait now."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.called:
                one.callback(None)
