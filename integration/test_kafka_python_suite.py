"""kafka-python's own integration suite, from its sdist, against our broker; exceptions in kafka_python_exceptions.txt.

The suite is copied without its SASL and SSL files, which start an Apache Kafka of their own. The sdist leaves out
`test/__init__.py` and `test/service.py`; for a broker that runs already two small classes are all that is needed of it.
The broker needs group.min.session.timeout.ms=3000 or less (the shared one has it; an Apache Kafka given by address must
have it too, or test_group fails there as well). KAFKA_VERSION is the version that kafka-python itself infers from our
ApiVersions. About a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kafka import KafkaAdminClient

from integration import tools
from integration.processes import AnyBroker

EXCEPTIONS = Path(__file__).with_name("kafka_python_exceptions.txt")
SECONDS = 400
FILES = ("test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py")
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

class SpawnedService:
    pass
"""


def exceptions() -> dict[str, str]:
    """Name of a test to the reason why it is excepted."""
    lines = (line.strip() for line in EXCEPTIONS.read_text().splitlines())
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs}


def inferred_version(bootstrap: str) -> str:
    """The version of Kafka for which kafka-python takes this broker, as its suite wants it."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return ".".join(map(str, client.get_broker_version_data(0).broker_version))
    finally:
        client.close()


def unpacked_suite(directory: Path) -> Path:
    """A runnable copy of the suite."""
    source = tools.TOOLS / "kafka-python" / f"kafka_python-{version('kafka-python')}" / "test"
    if not (source / "integration").is_dir():
        tools.missing("kafka-python's test suite")
    target = directory / "test"
    (target / "integration").mkdir(parents=True)
    for name in ("__init__.py", "conftest.py", "fixtures.py", *FILES):
        shutil.copy(source / "integration" / name, target / "integration" / name)
    shutil.copy(source / "testutil.py", target / "testutil.py")
    (target / "__init__.py").touch()
    (target / "service.py").write_text(SERVICE)
    return directory


def run_suite(directory: Path, broker: AnyBroker, kafka_version: str, *selection: str) -> dict[str, str]:
    """The outcome of every test that ran: `passed`, `skipped`, or the first line of what went wrong."""
    report = directory / "report.xml"
    environment = {
        "KAFKA_URI": f"kafka://{broker.bootstrap}",
        "KAFKA_VERSION": kafka_version,
        "KAFKA_ROOT": str(directory),  # must exist, is not used
        "PYTHONWARNINGS": "ignore",
    }
    options = ["-q", "-p", "no:cacheprovider", "--timeout=60", "--tb=short", "-o", "log_level=WARNING"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *selection, "test/integration"],
        cwd=directory,
        env={**os.environ, **environment},
        stdout=(directory / "output.txt").open("wb"),
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        problems = [case.find(kind) for kind in ("failure", "error")]
        texts = [problem.get("message", "").split("\n")[0] for problem in problems if problem is not None]
        outcomes[name] = texts[0] if texts else ("skipped" if case.find("skipped") is not None else "passed")
    return outcomes


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_kafka_pythons_own_suite_passes(broker: AnyBroker, tmp_path: Path) -> None:
    """All of it but the named exceptions."""
    excepted = exceptions()
    deselected = [f"--deselect=test/integration/{name}" for name in excepted]

    outcomes = run_suite(unpacked_suite(tmp_path), broker, inferred_version(broker.bootstrap), *deselected)

    failed = {name: text for name, text in outcomes.items() if text not in ("passed", "skipped")}
    assert not failed, "\n".join(f"{name}: {text}" for name, text in sorted(failed.items()))
    assert sum(text == "passed" for text in outcomes.values()) >= 35
