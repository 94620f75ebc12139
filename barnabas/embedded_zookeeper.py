"""A real ZooKeeper server as a child process, from the jars that pyspark ships: no further download.

pyspark is located, not imported. Only the jars that the server needs are on its class path and the heap is small:
ready in about a second, under 80 MiB at start. The server binds loopback unless told otherwise (D11).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from barnabas.processes import end_with_parent

NEEDED_JARS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "netty-*.Final.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "jackson-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
    "audience-annotations-*.jar",
)
JVM_FLAGS = (
    "-Xms16m",
    "-Xmx256m",  # the last 500 transactions are kept in memory, and one that elects hundreds of leaders is large
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xss256k",
    "-Djava.awt.headless=true",
)
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOG4J = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="error">
  <Appenders><Console name="out" target="SYSTEM_OUT"><PatternLayout pattern="%d %p %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
_STOP_SECONDS = 10.0
_PROBE_SECONDS = 0.05


class ZooKeeperUnavailable(Exception):
    """The embedded ZooKeeper cannot run here; the text says what is missing and what would help."""


def find_jars() -> list[Path]:
    """The server's jars inside the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperUnavailable(
            "the embedded ZooKeeper needs the jars of the Python package pyspark: "
            "install it, or name a ZooKeeper of your own"
        )
    directory = Path(spec.origin).parent / "jars"
    found = sorted({jar for pattern in NEEDED_JARS for jar in directory.glob(pattern)})
    if not any(jar.name.startswith("zookeeper-") for jar in found):
        raise ZooKeeperUnavailable(f"pyspark has no ZooKeeper jar in {directory}; name a ZooKeeper of your own")
    return found


def find_java() -> str:
    """The java command: JAVA_HOME first, then PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return str(java)
        raise ZooKeeperUnavailable(f"JAVA_HOME is {home}, but there is no bin/java in it")
    found = shutil.which("java")
    if found is None:
        raise ZooKeeperUnavailable("the embedded ZooKeeper needs Java 11 or later: install a JRE or set JAVA_HOME")
    return found


def settings(data_dir: Path, host: str, port: int, tick_ms: int) -> str:
    """The server's configuration file. Sessions may last from 2 to 20 ticks, ZooKeeper's own rule."""
    return (
        f"dataDir={data_dir}\nclientPortAddress={host}\nclientPort={port}\ntickTime={tick_ms}\n"
        f"minSessionTimeout={2 * tick_ms}\nmaxSessionTimeout={20 * tick_ms}\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr,envi,mntr,ruok\n"
        "autopurge.snapRetainCount=3\nautopurge.purgeInterval=1\npreAllocSize=1024\n"
    )


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def four_letter_word(host: str, port: int, word: bytes, timeout: float = 1.0) -> bytes:
    """A server's answer to one of its four-letter commands; OSError if it does not listen."""
    with socket.create_connection((host, port), timeout) as connection:
        connection.sendall(word)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


class EmbeddedZooKeeper:
    """One server process; `data_dir` keeps its data, its configuration and, unless `log` is given, `zookeeper.log`."""

    def __init__(
        self,
        data_dir: str | Path,
        port: int,
        *,
        host: str = "127.0.0.1",
        tick_ms: int = 2000,
        log: str | Path | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.log = self.data_dir / "zookeeper.log" if log is None else Path(log).absolute()
        self.host = host
        self.port = port
        self.tick_ms = tick_ms
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connect(self) -> str:
        """What clients connect to."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id while started."""
        return None if self._process is None else self._process.pid

    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process; `wait_ready` tells when it answers. Raises ZooKeeperUnavailable without Java or jars."""
        if self.running():
            return
        java, jars = find_java(), find_jars()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        config, logging = self.data_dir / "zoo.cfg", self.data_dir / "log4j2.xml"
        config.write_text(settings(self.data_dir, self.host, self.port, self.tick_ms))
        logging.write_text(LOG4J)
        command = [
            java,
            *JVM_FLAGS,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            os.pathsep.join(map(str, jars)),
            MAIN,
            str(config),
        ]
        with self.log.open("ab") as output:
            # A session of its own: Ctrl-C reaches the parent, which stops brokers before their ZooKeeper.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Blocks until the server serves; ZooKeeperUnavailable with the end of its log if it dies or is too slow."""
        deadline = time.monotonic() + timeout
        while not self._serving():
            if not self.running():
                raise ZooKeeperUnavailable(f"ZooKeeper on {self.connect} ended at its start: {self._log_end()}")
            if time.monotonic() > deadline:
                raise ZooKeeperUnavailable(
                    f"ZooKeeper on {self.connect} did not answer within {timeout:g} s: {self._log_end()}"
                )
            time.sleep(_PROBE_SECONDS)

    def stop(self, timeout: float = _STOP_SECONDS) -> None:
        """Ends the process: SIGTERM, and SIGKILL after `timeout`. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _serving(self) -> bool:
        # `srvr` names the mode only when requests are served; an accepted connection alone proves nothing. A foreign
        # server on the port would answer too, so the process must be alive as well.
        with contextlib.suppress(OSError):
            return b"Mode:" in four_letter_word(self.host, self.port, b"srvr") and self.running()
        return False

    def _log_end(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            wanted = [line for line in lines if "Exception" in line or "ERROR" in line] or lines
            return wanted[-1] if wanted else "its log is empty"
        return "it left no log"

    def __enter__(self) -> EmbeddedZooKeeper:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
