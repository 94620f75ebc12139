"""Answers that are made of several pieces of work: each piece ends in its own result or its own error, all of them
in one response.

One topic that cannot be created does not stop the others of the same request; so a piece never fails the whole, its
error becomes its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_wire import errors

log = Logger()

T = TypeVar("T")
R = TypeVar("R")


def as_kafka_error(failure: Failure) -> errors.KafkaError:
    """The error to tell the client; what is not Kafka's is logged here, because the client gets no more than its
    first line.
    """
    if isinstance(failure.value, errors.KafkaError):
        return failure.value
    log.failure("a request failed", failure=failure)
    return errors.UnknownServerError(str(failure.value) or type(failure.value).__name__)


def settled(work: Deferred[T], done: Callable[[T], R], failed: Callable[[errors.KafkaError], R]) -> Deferred[R]:
    """The result of a piece of work, or of its failure; the Deferred never fails for what the work did."""
    return work.addCallbacks(done, lambda failure: failed(as_kafka_error(failure)))


def within(reactor: Any, timeout_ms: int, work: Deferred[T]) -> Deferred[T]:
    """The work's result, or RequestTimedOut at the deadline; the work itself goes on (a half-made topic would be
    worse than a late one).
    """
    if work.called:
        return work
    answer: Deferred[T] = Deferred()

    def late() -> None:
        answer.errback(errors.RequestTimedOut("the request was accepted and goes on, it was not finished in time"))

    timer = reactor.callLater(max(timeout_ms, 0) / 1000, late)

    def pass_on(result: Any) -> None:
        if timer.active():
            timer.cancel()
            answer.callback(result)
        elif isinstance(result, Failure):
            log.failure("a request failed after its deadline", failure=result)

    work.addBoth(pass_on)
    return answer


def gathered(pieces: Sequence[R | Deferred[R]], build: Callable[[list[R]], T]) -> T | Deferred[T]:
    """The response from all pieces in their order: at once if none has to be waited for."""
    if not any(isinstance(piece, Deferred) for piece in pieces):
        return build(list(pieces))  # type: ignore[arg-type]
    waiting = [piece if isinstance(piece, Deferred) else succeed(piece) for piece in pieces]
    return gatherResults(waiting, consumeErrors=True).addCallback(build)
