"""Where the consumer logs: Python's `logging`, under the name "consumer_group", as programs that embed it expect."""

from __future__ import annotations

from twisted.logger import Logger, STDLibLogObserver

_observer = STDLibLogObserver("consumer_group")


def logger() -> Logger:
    """A logger for one module."""
    return Logger(observer=_observer)  # type: ignore[arg-type, unused-ignore]
