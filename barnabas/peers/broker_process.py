"""A broker of any make as a child process: started, waited for, stopped, and never left behind."""

from __future__ import annotations

import abc
import time
from pathlib import Path
from typing import Self

from barnabas.peers.kafka_install import PeerUnavailable
from barnabas.peers.ready import answers_metadata
from barnabas.processes import LoggedProcess, last_words, port_is_taken

_STOP_SECONDS = 30.0
_PROBE_SECONDS = 0.01


class BrokerProcess(abc.ABC):
    """`data_dir` keeps its configuration, its data and what it says (`broker.log`)."""

    name: str

    def __init__(self, data_dir: str | Path, port: int, *, host: str = "127.0.0.1") -> None:
        self.data_dir = Path(data_dir).absolute()
        self.host = host
        self.port = port
        self._process: LoggedProcess | None = None

    @abc.abstractmethod
    def prepare(self) -> list[str]:
        """Writes its configuration into the data directory; the command that starts it."""

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id while started."""
        return None if self._process is None else self._process.pid

    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.exit_code is None

    def start(self) -> None:
        """Starts the process; `wait_ready` tells when it serves. Raises PeerUnavailable if something is missing."""
        if self.running():
            return
        if port_is_taken(self.host, self.port):
            raise PeerUnavailable(f"port {self.port} is taken: {self.name} cannot listen on {self.address}")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._process = LoggedProcess(self.name, self.prepare(), self.data_dir / "broker.log")

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Blocks until it answers a client's Metadata request with a broker in it; PeerUnavailable if it does not."""
        deadline = time.monotonic() + timeout
        while not answers_metadata(self.host, self.port):
            words = "it was not started" if self._process is None else last_words(self._process.said())
            if not self.running():
                raise PeerUnavailable(f"{self.name} on {self.address} ended at its start: {words}")
            if time.monotonic() > deadline:
                raise PeerUnavailable(f"{self.name} on {self.address} did not answer within {timeout:g} s: {words}")
            time.sleep(_PROBE_SECONDS)

    def stop(self, timeout: float = _STOP_SECONDS) -> None:
        """Ends the process: SIGTERM, and SIGKILL after `timeout`. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        if not process.ended_by(time.monotonic() + timeout):
            process.kill()
            process.ended_by(time.monotonic() + timeout)

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
