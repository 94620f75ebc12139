"""A lean epoll reactor with an end of the turn, and the same promise on any other reactor.

A turn is: timers and calls from threads, then every descriptor that is ready. What the turn queued (appends, answers)
is done once, at its end: one write per log, one send per connection. Functions run in the order in which they were
added, so the one that writes logs is added before the one that sends answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet import epollreactor, main
from twisted.logger import Logger

log = Logger()

MAX_ROUNDS = 4
"""How often the functions run again when one of them asks for it, before descriptors get their turn."""


class Turns(Protocol):
    """Who can end a turn."""

    def addEndOfTurn(self, function: Callable[[], object]) -> None:
        """Adds a function to call at the end of every turn for which that was requested."""

    def requestEndOfTurn(self) -> None:
        """Has the functions called at the end of this turn. Cheap, and free to repeat."""


class LeanReactor(epollreactor.EPollReactor):  # type: ignore[misc, unused-ignore]
    """Twisted's epoll reactor without a log context per event, and with an end of the turn."""

    def __init__(self) -> None:
        self._turn_functions: list[Callable[[], object]] = []
        self._turn_requested = False
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]

    def addEndOfTurn(self, function: Callable[[], object]) -> None:
        """See Turns."""
        self._turn_functions.append(function)

    def requestEndOfTurn(self) -> None:
        """See Turns."""
        self._turn_requested = True

    def doPoll(self, timeout: float | None) -> None:
        """Serves what is ready, then ends the turn. A timer's or thread's request must not wait for the next event."""
        if self._turn_requested:
            timeout = 0
        selectables: dict[int, Any] = self._selectables
        serve: Callable[[Any, int, int], None] = self._doReadOrWrite
        for fd, event in self._poller.poll(-1 if timeout is None else timeout, len(selectables) or 1):
            selectable = selectables.get(fd)
            if selectable is not None:
                serve(selectable, fd, event)
        rounds = 0
        while self._turn_requested and rounds < MAX_ROUNDS:
            self._turn_requested = False
            rounds += 1
            _run(self._turn_functions)

    doIteration = doPoll


class StockTurns:
    """The end of the turn on a reactor that has none: as soon as it runs its timers."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._functions: list[Callable[[], object]] = []
        self._scheduled = False

    def addEndOfTurn(self, function: Callable[[], object]) -> None:
        """See Turns."""
        self._functions.append(function)

    def requestEndOfTurn(self) -> None:
        """See Turns."""
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._end)

    def _end(self) -> None:
        self._scheduled = False
        _run(self._functions)


def turns_of(reactor: Any) -> Turns:
    """The reactor itself if it ends turns, else the fall-back around it. Make one and pass it on."""
    if isinstance(reactor, LeanReactor):
        return reactor
    return StockTurns(reactor)


def install() -> LeanReactor:
    """Makes the lean reactor the global one; call it before anything imports `twisted.internet.reactor`."""
    reactor = LeanReactor()
    main.installReactor(reactor)  # type: ignore[no-untyped-call]
    return reactor


def _run(functions: list[Callable[[], object]]) -> None:
    """One function's failure must not keep the answers of the others back."""
    for function in functions:
        try:
            function()
        except Exception:
            log.failure("the end of the turn failed in {function}", function=function)
