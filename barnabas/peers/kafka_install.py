"""Apache Kafka's jars, fetched by Maven from wherever the user's Maven settings point (Maven Central by default).

Maven resolves the broker's own dependency list, so nothing here repeats it. The command-line tools come along: the
test suite runs Kafka's console clients and its log dump against our broker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VERSION = "3.9.1"
SCALA = "2.13"
# The broker's log controller needs log4j 1 classes at its start, which the distribution adds and the artifact does not.
ARTIFACTS = (
    ("org.apache.kafka", f"kafka_{SCALA}", None),
    ("org.apache.kafka", "kafka-tools", None),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
MAVEN_SECONDS = 900.0
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class PeerUnavailable(Exception):
    """A peer cannot be installed or run here; the text says what is missing and what would help."""


def default_directory(version: str = VERSION) -> Path:
    """Where `bench install-kafka` puts the jars unless told otherwise: the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "barnabas" / f"kafka-{version}"


def pom(version: str) -> str:
    """A Maven project that has nothing but the dependencies."""
    dependencies = "".join(_DEPENDENCY.format(group, name, own or version) for group, name, own in ARTIFACTS)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>barnabas.peers</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def installed_jars(directory: Path, version: str = VERSION) -> list[Path]:
    """The jars of an earlier installation; none if it is missing or was cut short."""
    jars = sorted((directory / "jars").glob("*.jar"))
    return jars if any(jar.name == f"kafka_{SCALA}-{version}.jar" for jar in jars) else []


def need_jars(directory: Path | None = None, version: str = VERSION) -> list[Path]:
    """The jars, or PeerUnavailable naming the command that fetches them."""
    where = directory or default_directory(version)
    jars = installed_jars(where, version)
    if not jars:
        raise PeerUnavailable(f"no Apache Kafka {version} in {where}: run `barnabas bench install-kafka` first")
    return jars


def install(directory: Path | None = None, version: str = VERSION) -> list[Path]:
    """Fetches the jars, unless they are there; a run that is cut short leaves nothing that looks complete."""
    where = directory or default_directory(version)
    if jars := installed_jars(where, version):
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailable("Apache Kafka is fetched by Maven: install the package maven, then run this again")
    where.mkdir(parents=True, exist_ok=True)
    (where / "pom.xml").write_text(pom(version))
    fresh = where / "jars.new"
    shutil.rmtree(fresh, ignore_errors=True)
    command = [
        maven, "--quiet", "--batch-mode", "dependency:copy-dependencies",
        "-DincludeScope=runtime", f"-DoutputDirectory={fresh}",
    ]  # fmt: skip
    try:
        run = subprocess.run(
            command, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"Maven did not finish within {MAVEN_SECONDS:g} s") from None
    if run.returncode != 0:
        raise PeerUnavailable(f"Maven could not fetch Apache Kafka {version}: {_first_error(run.stdout + run.stderr)}")
    shutil.rmtree(where / "jars", ignore_errors=True)
    fresh.rename(where / "jars")
    return need_jars(where, version)


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line] or lines
    return errors[0] if errors else "it gave no reason"
