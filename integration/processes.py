"""The real processes that tests drive: a broker of ours, or the address of any other broker.

Faults are the caller's: `kill` is SIGKILL, `stop` a clean shutdown; `start` after either reuses data and port.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from barnabas.embedded_zookeeper import free_port
from integration.tools import ROOT

_PROBE_SECONDS = 0.02
READY = "ready"


class BrokerFailed(AssertionError):
    """The broker process did not do what was asked; the text ends with the last lines of its log."""


class Broker:
    """One brokerd process. `directory` holds its configuration, its log and, in `data_dir`, its partitions."""

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        *,
        broker_id: int = 0,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        config: Path | None = None,
    ) -> None:
        """`settings` are written to a configuration file; with a ready file as `config` they become its overrides."""
        self.directory = directory
        self.data_dir = directory / "data"
        self.host, self.port = "127.0.0.1", port or free_port()
        self.zookeeper = zookeeper
        self.settings: dict[str, str] = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_dir),
            "zookeeper.connect": zookeeper,
            "http.listener": "off",
            **(settings or {}),
        }
        self._config = config
        self.log_file = directory / "brokerd.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id; BrokerFailed if it was not started."""
        if self._process is None:
            raise BrokerFailed("this broker was not started")
        return self._process.pid

    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 30.0) -> None:
        """Starts the process and blocks until clients can connect."""
        self.launch()
        self.wait_ready(timeout)

    def launch(self) -> None:
        """Starts the process."""
        if self.running():
            raise BrokerFailed("this broker runs already")
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}" for key, value in self.settings.items()]
        if self._config is None:
            config = self.directory / "server.properties"
            config.write_text("\n".join(lines))
            arguments = ["--config", str(config)]
        else:
            arguments = ["--config", str(self._config), *(word for line in lines for word in ("--override", line))]
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "brokerd.main", *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Blocks until the log of this run says `ready`."""
        deadline = time.monotonic() + timeout
        while not any(READY in line for line in self.log_lines()):
            if not self.running():
                raise BrokerFailed(f"the broker ended at its start:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise BrokerFailed(f"the broker was not ready within {timeout:g} s:\n{self.log_end()}")
            time.sleep(_PROBE_SECONDS)

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM; the exit code. BrokerFailed if it does not end in time (it is killed then)."""
        if self._process is None:
            return 0
        if self.running():
            self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"the broker did not stop within {timeout:g} s:\n{self.log_end()}") from None

    def wait_end(self, timeout: float = 20.0) -> int:
        """The exit code of a process that ends by itself."""
        if self._process is None:
            raise BrokerFailed("this broker was not started")
        return self._process.wait(timeout)

    def kill(self) -> None:
        """SIGKILL, and waits until the process is gone."""
        if self._process is not None:
            if self.running():
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def restart(self, timeout: float = 30.0) -> None:
        """A clean stop, if it runs, and a start."""
        if self.running():
            self.stop()
        self.start(timeout)

    def log_lines(self) -> list[str]:
        """What this run of the process logged."""
        if not self.log_file.exists():
            return []
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace").splitlines()

    def log_end(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return "\n".join(self.log_lines()[-lines:])

    def rss(self) -> int:
        """Resident memory in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def open_files(self) -> int:
        """File descriptors in use, sockets included."""
        return int(psutil.Process(self.pid).num_fds())

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        """Where the segments of one partition are."""
        return self.data_dir / f"{topic}-{partition}"


class ExternalBroker:
    """A broker that somebody else runs; tests that need the process or its files are skipped."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self.host, self.port = host, int(port)


AnyBroker = Broker | ExternalBroker
