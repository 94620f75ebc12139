"""The plan of a local cluster: ports, settings, what is refused before anything starts."""

from pathlib import Path

import pytest

from barnabas import local_cluster
from barnabas.errors import UserError, WrongCall
from barnabas.local_cluster import Plan, checked
from brokerd import config


@pytest.fixture(autouse=True)
def ports_taken(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ports that somebody has; all others are free."""
    taken: set[int] = set()
    monkeypatch.setattr(local_cluster, "port_is_taken", lambda host, port: port in taken)
    return taken


def test_brokers_are_numbered_and_listen_side_by_side(tmp_path: Path) -> None:
    """Ids from 0, ports from --port on, each with a directory of its own."""
    plan = checked(Plan(data=tmp_path, brokers=2, port=9092))
    loaded = [config.load(plan.settings(broker))[0] for broker in range(2)]
    assert [each.broker_id for each in loaded] == [0, 1]
    assert [each.listeners[0].port for each in loaded] == [9092, 9093]
    assert [each.log_dirs for each in loaded] == [(str(tmp_path / "broker-0"),), (str(tmp_path / "broker-1"),)]
    assert plan.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093"
    assert {each.zookeeper_connect for each in loaded} == {"127.0.0.1:2181"}


def test_given_zookeeper_and_overrides_reach_every_broker(tmp_path: Path) -> None:
    """The user's settings win over ours."""
    overrides = {"num.partitions": "4", "zookeeper.session.timeout.ms": "9000"}
    plan = Plan(data=tmp_path, zookeeper="zk1:2181,zk2:2181/root", overrides=overrides)
    loaded, _ = config.load(plan.settings(0))
    assert loaded.zookeeper_connect == "zk1:2181,zk2:2181/root"
    assert (loaded.num_partitions, loaded.zookeeper_session_timeout_ms) == (4, 9000)


def test_metrics_ports_follow_the_brokers(tmp_path: Path) -> None:
    """Every broker has its own, or none has one."""
    assert Plan(data=tmp_path, brokers=2, metrics_port=9464).settings(1)["http.listener"] == "127.0.0.1:9465"
    assert Plan(data=tmp_path).settings(0)["http.listener"] == "off"


def test_port_zero_becomes_free_ports_in_a_row(tmp_path: Path, ports_taken: set[int]) -> None:
    """With 5001 taken, two brokers do not fit at 5000."""
    ports_taken.add(5001)
    offered = iter([5000, 6000, 7000])
    plan = Plan(data=tmp_path, brokers=2, port=0, zookeeper_port=0).with_ports(lambda: next(offered))
    assert (plan.ports, plan.zookeeper_port) == ([6000, 6001], 7000)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num.partitons": "1"}, "--override num.partitons: there is no such setting; did you mean num.partitions?"),
        ({"broker.id": "5"}, "--override broker.id: `barnabas up` sets it itself; brokers are numbered from 0"),
    ],
)
def test_override_that_cannot_be_is_a_wrong_call(tmp_path: Path, overrides: dict[str, str], message: str) -> None:
    """Found before anything is started."""
    with pytest.raises(WrongCall) as raised:
        checked(Plan(data=tmp_path, overrides=overrides))
    assert raised.value.message == message


def test_taken_ports_are_named_with_the_way_out(tmp_path: Path, ports_taken: set[int]) -> None:
    """Of a broker, and of ZooKeeper unless it is not ours to start."""
    ports_taken.add(9093)
    with pytest.raises(UserError, match=r"port 9093 is taken.*--port"):
        checked(Plan(data=tmp_path, brokers=2))
    checked(Plan(data=tmp_path, brokers=1))
    ports_taken.add(2181)
    with pytest.raises(UserError, match=r"port 2181 is taken.*--zookeeper-port"):
        checked(Plan(data=tmp_path))


def test_brokers_beyond_the_last_port_are_a_wrong_call(tmp_path: Path) -> None:
    """65535 is the last one."""
    with pytest.raises(WrongCall, match="would need port 65536"):
        checked(Plan(data=tmp_path, brokers=2, port=65535))
