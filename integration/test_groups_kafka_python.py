"""kafka-python's own tests of groups, with the settings of the brokers that its authors start for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.conftest import BrokerFactory
from integration.test_kafka_python_suite import inferred_version, run_suite, unpacked_suite

SETTINGS = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
SELECTION = "test_group or heartbeat or commit or (groups and not acls) or describe_group"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kafka_pythons_group_tests_pass(brokers: BrokerFactory, tmp_path: Path) -> None:
    """All of them."""
    broker = brokers(settings=SETTINGS)
    broker.start()

    outcomes = run_suite(unpacked_suite(tmp_path), broker, inferred_version(broker.bootstrap), "-k", SELECTION)

    failed = {name: text for name, text in outcomes.items() if text != "passed"}
    assert not failed, "\n".join(f"{name}: {text}" for name, text in sorted(failed.items()))
    assert len(outcomes) >= 6
