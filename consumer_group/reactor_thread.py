"""The clients' reactor: one for each process, in a thread of its own, never installed (docs/adr/0020).

Applications block on futures; everything else happens on the reactor's thread. It is a daemon thread, as are the
threads of its pool, so a process that forgets to close its consumer ends all the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.python import threadable
from twisted.python.failure import Failure

from consumer_group.errors import KafkaTimeoutError

T = TypeVar("T")

_guard = threading.Lock()
_shared: ReactorThread | None = None


class ReactorThread:
    """A reactor that runs, and the way to it from other threads."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.reactor: Any = EPollReactor()  # type: ignore[no-untyped-call, unused-ignore]
        running = threading.Event()
        self.reactor.callWhenRunning(_give_back_io_thread, threadable.ioThread)
        self.reactor.callWhenRunning(running.set)
        self._thread = threading.Thread(target=self._run, name="barnabas-consumer", daemon=True)
        self._thread.start()
        running.wait()

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)

    def post(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function on the reactor's thread, soon."""
        self.reactor.callFromThread(function, *arguments)

    def submit(self, function: Callable[..., Deferred[T]], *arguments: Any) -> Future[T]:
        """The same, with its outcome as a future."""
        future: Future[T] = Future()

        def failed(failure: Failure) -> None:
            assert failure.value is not None
            future.set_exception(failure.value)

        def call() -> None:
            maybeDeferred(function, *arguments).addCallbacks(future.set_result, failed)

        self.reactor.callFromThread(call)
        return future

    def call(self, seconds: float | None, function: Callable[..., Deferred[T]], *arguments: Any) -> T:
        """The outcome, waited for; KafkaTimeoutError after so many seconds."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call on the reactor's own thread")
        try:
            return self.submit(function, *arguments).result(seconds)
        except FutureTimeout:
            raise KafkaTimeoutError(f"no answer within {seconds:g} s") from None


def shared() -> ReactorThread:
    """The reactor of this process; a forked child makes its own."""
    global _shared
    with _guard:
        if _shared is None or _shared.process_id != os.getpid():
            _shared = ReactorThread()
        return _shared


def _give_back_io_thread(former: int | None) -> None:
    """Twisted keeps one thread's id as "the" reactor thread; it belongs to the program's own reactor, if it has one."""
    threadable.ioThread = former  # type: ignore[assignment, unused-ignore]
