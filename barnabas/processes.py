"""Child processes of a local cluster: they end with their parent, and what they said last can be quoted."""

import contextlib
import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_QUOTED_BYTES = 64 * 1024
_ALARMING = ("ERROR", "CRITICAL", "FATAL", "Error:", "Exception")


def end_with_parent() -> None:
    """For Popen's preexec_fn: the kernel sends SIGTERM when the parent dies, even by SIGKILL. Nothing is orphaned."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def last_alarm(text: str) -> str | None:
    """The last line of a log that tells of something wrong, if one does."""
    alarming = [line.strip() for line in text.splitlines() if any(word in line for word in _ALARMING)]
    return alarming[-1] if alarming else None


def last_words(text: str) -> str:
    """The line of a log that tells best why its writer ended: the last alarming one, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it left no log"]
    return last_alarm(text) or lines[-1]


def port_is_taken(host: str, port: int) -> bool:
    """Whether somebody listens there; connections in TIME_WAIT do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


class LoggedProcess:
    """One child whose output is appended to a file. In a session of its own: Ctrl-C reaches only the parent."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._said_before = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    @property
    def pid(self) -> int:
        """Process id, also after its end."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.poll()

    def said(self) -> str:
        """The end of what this process, not an earlier one, wrote into its log."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            end = log.seek(0, 2)
            log.seek(max(self._said_before, end - _QUOTED_BYTES))
            return log.read().decode("utf-8", "replace")
        return ""

    def terminate(self) -> None:
        """SIGTERM, if it still runs."""
        if self.exit_code is None:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.exit_code is None:
            self._process.kill()

    def ended_by(self, deadline: float) -> bool:
        """Waits for its end until a time of time.monotonic."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def how_it_ended(exit_code: int) -> str:
    """An exit code in words."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-exit_code).name}"
    return f"killed by signal {-exit_code}"
