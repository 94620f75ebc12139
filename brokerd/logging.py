"""Log lines: one per event, on stderr, with time and level.

    2026-11-18 12:00:00,123 INFO registered as broker 0, epoch 3, session 10000a2, cluster 6q...

Twisted's logger is used everywhere; kazoo's own lines, which say in its words what `zk_schema.session` says in ours,
are shown at level debug. A failure is one line too: what failed, the error, and where; at debug the traceback follows.
"""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Any, TextIO

from twisted.logger import (
    FilteringLogObserver,
    LogEvent,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
    globalLogBeginner,
)
from twisted.python.failure import Failure

LEVELS = ("debug", "info", "warn", "error", "critical")
DEFAULT_LEVEL = "info"

_TWISTED = ("log_legacy", "twisted")
"""Namespaces of Twisted's own lines (ports opened, factories started): for debugging only, unless they warn."""


def line(event: LogEvent, *, tracebacks: bool = False) -> str:
    """One event as text, without the end of the line; more than one line only with `tracebacks`."""
    seconds = float(event.get("log_time", 0.0))
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f",{int(seconds * 1000) % 1000:03}"
    level = event.get("log_level") or LogLevel.info
    text = formatEvent(event)
    failure = event.get("log_failure")
    if isinstance(failure, Failure):
        text = f"{text}: {type(failure.value).__name__}: {failure.getErrorMessage()}{_where(failure)}"
    text = " | ".join(part for part in text.splitlines() if part.strip())
    if tracebacks and isinstance(failure, Failure):
        text = f"{text}\n{failure.getTraceback().rstrip()}"
    return f"{stamp} {level.name.upper()} {text}"


def _where(failure: Failure) -> str:
    """File and line of the innermost frame."""
    trace: TracebackType | None = failure.value.__traceback__ if failure.value is not None else None
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


def _is_chatter(event: LogEvent) -> bool:
    namespace = str(event.get("log_namespace", "")).partition(".")[0]
    return namespace in _TWISTED and event.get("log_level") in (LogLevel.debug, LogLevel.info)


def begin(level: str = DEFAULT_LEVEL, stream: TextIO | None = None) -> None:
    """Sends log lines of this level and above to a stream, stderr by default. Once per process."""
    output = stream or sys.stderr
    tracebacks = level == "debug"

    def write(event: LogEvent) -> None:
        if not tracebacks and _is_chatter(event):
            return
        try:
            output.write(line(event, tracebacks=tracebacks) + "\n")
            output.flush()
        except (OSError, ValueError):
            pass  # nobody reads our log any more; that must not stop the broker

    wanted: Any = LogLevelFilterPredicate(LogLevel.levelWithName(level))
    destination: Any = write
    observer: Any = FilteringLogObserver(destination, [wanted])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)
    _bridge_standard_logging()


def _bridge_standard_logging() -> None:
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(logging.INFO)


class _Bridge(logging.Handler):
    """Libraries that use the standard library's logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """Warnings of kazoo are our SUSPENDED and LOST again, so they are for debugging; errors stay errors."""
        say: Any = Logger(namespace=record.name)
        level = LogLevel.error if record.levelno >= logging.ERROR else LogLevel.debug
        if record.name.partition(".")[0] != "kazoo" and record.levelno >= logging.WARNING:
            level = LogLevel.warn if record.levelno < logging.ERROR else LogLevel.error
        say.emit(level, "{text}", text=record.getMessage())
