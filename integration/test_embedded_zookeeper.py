"""The embedded ZooKeeper is a real one: sessions, ephemeral nodes, data that survives a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of its own."""
    server = EmbeddedZooKeeper(tmp_path, free_port(), tick_ms=500)
    server.start()
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def _client(server: EmbeddedZooKeeper) -> KazooClient:
    client = KazooClient(server.connect, timeout=5)
    client.start(timeout=10)
    return client


def test_ephemeral_node_goes_with_its_session(zookeeper: EmbeddedZooKeeper) -> None:
    """What brokers and consumers register is gone when they are."""
    watcher, owner = _client(zookeeper), _client(zookeeper)
    try:
        owner.create("/registered", b"", ephemeral=True)
        assert watcher.exists("/registered") is not None

        owner.stop()

        assert watcher.exists("/registered") is None
    finally:
        for client in (owner, watcher):
            client.stop()
            client.close()


def test_persistent_node_survives_a_restart(zookeeper: EmbeddedZooKeeper) -> None:
    """Offsets and topics are there again after the server was stopped and started."""
    client = _client(zookeeper)
    client.create("/kept", b"42")
    client.stop()
    client.close()

    zookeeper.stop()
    assert not zookeeper.running()
    zookeeper.start()
    zookeeper.wait_ready()

    client = _client(zookeeper)
    try:
        assert client.get("/kept")[0] == b"42"
    finally:
        client.stop()
        client.close()
