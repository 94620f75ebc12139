"""Several answers of ZooKeeper at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.python.failure import Failure

from zk_schema.operations import NoNode


def together(asked: Sequence[Deferred[Any]]) -> Deferred[list[Any]]:
    """All answers in their order, or the first error as it was; what is asked together takes one round trip."""
    return gatherResults(asked, consumeErrors=True).addErrback(_unwrapped)


def none_if_missing(failure: Failure) -> None:
    """An errback: what is not there is None."""
    if not isinstance(failure.value, NoNode):
        failure.raiseException()


def _unwrapped(failure: Failure) -> Failure:
    problem = failure.value
    return problem.subFailure if isinstance(problem, FirstError) else failure
