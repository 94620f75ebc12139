"""Where the third-party programs are that scripts/setup-test installs.

A program that is missing skips the tests that need it, with the command that installs it; with
BARNABAS_REQUIRE_CLIENTS=1, as in CI, it fails them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".test-tools"
_JVM_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_QUIET_LOG4J = "log4j.rootLogger=ERROR, err\nlog4j.appender.err=org.apache.log4j.ConsoleAppender\n" + (
    "log4j.appender.err.target=System.err\nlog4j.appender.err.layout=org.apache.log4j.SimpleLayout\n"
)


def missing(what: str) -> NoReturn:
    """Ends the test: skipped, or failed where the clients are required."""
    text = f"{what} is not installed: run scripts/setup-test"
    if os.environ.get("BARNABAS_REQUIRE_CLIENTS") == "1":
        pytest.fail(text)
    pytest.skip(text)


def kcat() -> str:
    """The kcat command."""
    return shutil.which("kcat") or missing("kcat")


def node() -> str:
    """The node command, once kafkajs is there."""
    if not (TOOLS / "node" / "node_modules" / "kafkajs").is_dir():
        missing("kafkajs")
    return shutil.which("node") or missing("node")


def java_command(main: str, *arguments: str) -> list[str]:
    """The command that runs a main class of Apache Kafka's jars."""
    java = shutil.which("java") or missing("java")
    jars = TOOLS / "java" / "jars"
    if not any(jars.glob("kafka-tools-*.jar")):
        missing("Apache Kafka's tools")
    log4j = TOOLS / "java" / "log4j.properties"
    if not log4j.exists():
        log4j.write_text(_QUIET_LOG4J)
    return [java, *_JVM_FLAGS, f"-Dlog4j.configuration=file:{log4j}", "-cp", f"{jars}/*", main, *arguments]


def run(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float = 60.0,
    check: bool = True,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program to its end; a failure shows the command and what it wrote."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, timeout=timeout, env={**os.environ, **(environment or {})}
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{' '.join(map(str, command[-8:]))} ended with {done.returncode}:\n"
            f"{done.stderr.decode(errors='replace')[-2000:]}\n{done.stdout.decode(errors='replace')[-2000:]}"
        )
    return done


def run_java(main: str, *arguments: str, stdin: bytes = b"", timeout: float = 60.0, check: bool = True) -> str:
    """What one of Kafka's tools prints, errors after output."""
    done = run(java_command(main, *arguments), stdin=stdin, timeout=timeout, check=check)
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
