"""`barnabas up` hands its plan to a detached copy of itself."""

from pathlib import Path

import click
import pytest

from barnabas.commands import up
from barnabas.local_cluster import METRICS_PORT, Plan


@pytest.mark.parametrize(
    "plan",
    [
        Plan(data=Path("/data"), port=9092),
        Plan(
            data=Path("/with space"),
            brokers=3,
            port=1000,
            zookeeper="a:1,b:2/c",
            zookeeper_port=2000,
            metrics_port=3000,
            overrides={"num.partitions": "4", "advertised.listeners": "A://h:1,B://h:2"},
            ready_seconds=5.0,
        ),
    ],
)
def test_arguments_of_the_detached_copy_mean_the_same_plan(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Nothing is lost on the way."""
    plans: list[Plan] = []
    monkeypatch.setattr(up, "_run", plans.append)
    up.command.main(up._arguments(plan), standalone_mode=False)
    assert plans == [plan]


def test_default_metrics_ports_are_given_up_when_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second cluster on the machine starts all the same; a port that was asked for is never given up silently."""
    taken = {METRICS_PORT + 1}
    monkeypatch.setattr(up, "port_is_taken", lambda host, port: port in taken)
    assert up._metrics_port(None, brokers=1) == METRICS_PORT
    assert up._metrics_port(None, brokers=2) is None
    assert up._metrics_port(METRICS_PORT, brokers=2) == METRICS_PORT
    assert up._metrics_port(0, brokers=1) is None


def test_bad_number_of_brokers_is_a_wrong_call() -> None:
    """At least one."""
    with pytest.raises(click.BadParameter):
        up.command.main(["--brokers", "0"], standalone_mode=False)
