"""Log lines: one per event, in a fixed form."""

from __future__ import annotations

from twisted.logger import LogLevel
from twisted.python.failure import Failure

from brokerd import logging, main


def _event(text: str, level: object = LogLevel.info, **fields: object) -> dict[str, object]:
    return {"log_format": text, "log_level": level, "log_time": 0.25, "log_namespace": "brokerd.x", **fields}


def _failure() -> Failure:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        return Failure()  # type: ignore[no-untyped-call]


def test_event_is_one_line_with_time_and_level() -> None:
    """Whatever is in it."""
    line = logging.line(_event("broker {id}\nis here", LogLevel.warn, id=3))

    assert line.endswith(",250 WARN broker 3 | is here")
    assert "\n" not in line


def test_failure_is_one_line_that_says_what_and_where() -> None:
    """The traceback is for debugging only."""
    event = _event("it failed", LogLevel.critical, log_failure=_failure())

    line = logging.line(event)

    assert "it failed: ValueError: first | second" in line
    assert "test_logging.py:" in line
    assert "\n" not in line
    assert "Traceback" in logging.line(event, tracebacks=True)


def test_twisteds_own_chatter_is_left_out_but_not_its_warnings() -> None:
    """Ports and factories are told of by the broker itself."""
    assert logging._is_chatter(_event("Starting factory", log_namespace="twisted.web.http"))
    assert logging._is_chatter(_event("(Port 9092 Closed)", log_namespace="log_legacy"))
    assert not logging._is_chatter(_event("no", LogLevel.warn, log_namespace="twisted.web.http"))
    assert not logging._is_chatter(_event("registered", log_namespace="brokerd.cluster.life"))


def test_levels_of_the_command_line_are_those_of_the_log() -> None:
    """`main` does not import the log for --help, so it has the list twice."""
    assert main.LEVELS == logging.LEVELS
