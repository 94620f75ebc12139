"""Brokers that are given no id, and brokers with several listeners."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.conftest import BrokerFactory
from integration.processes import Broker


def _nodes(bootstrap: str) -> dict[int, tuple[str, int]]:
    brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers
    return {number: (str(one.host), one.port) for number, one in brokers.items()}


def test_ids_are_generated_above_the_reserved_ones_and_kept(brokers: BrokerFactory) -> None:
    """Two brokers of one cluster get different ones; a restart keeps what is stored."""
    first = brokers({"broker.id": "-1"})
    second = brokers({"broker.id": "-1", "zookeeper.connect": first.zookeeper})
    first.start()
    second.start()

    assert _nodes(first.bootstrap) == {1001: (first.host, first.port), 1002: (second.host, second.port)}
    second.stop()
    second.start()
    assert sorted(_nodes(second.bootstrap)) == [1001, 1002]


def test_broker_without_zookeeper_gets_no_id_and_says_so(brokers: BrokerFactory) -> None:
    """It ends with 1 and one line that names the address."""
    address = f"127.0.0.1:{free_port()}"
    broker: Broker = brokers(
        {"broker.id": "-1", "zookeeper.connect": address, "zookeeper.connection.timeout.ms": "1000"}
    )
    broker.launch()

    assert broker.wait_end() == 1
    assert f"no ZooKeeper session with {address} within 1 s" in broker.log_end()


@pytest.mark.parametrize("asked", ["PLAINTEXT", "OUTSIDE"])
def test_clients_get_the_address_of_the_listener_they_came_by(
    brokers: BrokerFactory, zookeeper: EmbeddedZooKeeper, asked: str
) -> None:
    """So that they stay in the network that they are in."""
    inside, outside = free_port(), free_port()
    broker = brokers(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://localhost:{outside}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
    )
    broker.start()
    expected = {"PLAINTEXT": ("127.0.0.1", inside), "OUTSIDE": ("localhost", outside)}[asked]

    found = _nodes(f"127.0.0.1:{expected[1]}")

    assert found == {0: expected}
