"""Fixtures of the tests against real processes.

`zookeeper` and `broker` are shared by the whole run: tests use topics with names of their own (`fresh_name`). With
BARNABAS_TEST_BOOTSTRAP=host:port the tests that need no more than an address run against that broker instead, for
example an Apache Kafka: a test that is red there is wrong.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.processes import AnyBroker, Broker, ExternalBroker

#: Settings of the shared broker; what is not here has its default.
SHARED_SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "log.retention.check.interval.ms": "1000",
    "group.min.session.timeout.ms": "1000",  # kafka-python's suite joins with 3000, below the default of 6000
}
EXTERNAL = os.environ.get("BARNABAS_TEST_BOOTSTRAP")

BrokerFactory = Callable[..., Broker]


def fresh_name(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper for the whole run."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port(), tick_ms=500) as server:
        yield server


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """The broker under test, for the whole run."""
    if EXTERNAL:
        yield ExternalBroker(EXTERNAL)
        return
    server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
    process = Broker(
        tmp_path_factory.mktemp("broker"), f"{server.connect}/{fresh_name('shared')}", settings=SHARED_SETTINGS
    )
    try:
        process.start()
        yield process
    finally:
        _end(process)


@pytest.fixture
def own_broker(broker: AnyBroker) -> Broker:
    """The shared broker where a test needs its process or files; skipped for an address of somebody else."""
    if isinstance(broker, ExternalBroker):
        pytest.skip("needs a broker process of ours")
    return broker


@pytest.fixture
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerFactory]:
    """Makes private brokers, not started, each with a chroot and directory of its own; arguments as of Broker."""
    if EXTERNAL:
        pytest.skip("needs a broker process of ours")
    server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
    made: list[Broker] = []

    def make(settings: dict[str, str] | None = None, config: Path | None = None) -> Broker:
        name = fresh_name("broker")
        settings = {"zookeeper.session.timeout.ms": "6000", **(settings or {})}
        made.append(Broker(tmp_path / name, f"{server.connect}/{name}", settings=settings, config=config))
        return made[-1]

    try:
        yield make
    finally:
        for process in made:
            _end(process)


def _end(process: Broker) -> None:
    try:
        if process.running():
            process.stop()
    finally:
        process.kill()
