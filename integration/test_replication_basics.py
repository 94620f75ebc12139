"""Three brokers, three replicas: what is produced to the leader is on all of them, and the ISR tells the truth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.replicated import Cluster, Writer, check, check_replicas_equal, read_all, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper with short ticks."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port(), tick_ms=500) as made:
        yield made


@pytest.fixture
def cluster(server: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers."""
    made = Cluster(server, tmp_path)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.mark.parametrize("durability", ["flushed", "replicated"])
def test_acknowledged_records_are_on_every_replica(cluster: Cluster, durability: str) -> None:
    """Acknowledged by all means: in the files of all in-sync replicas, the same batches under the same offsets."""
    cluster.create("logs", 3, durability=durability)
    writer = Writer(cluster.bootstrap, "logs", 3).start()
    time.sleep(3)
    writer.finish()
    assert len(writer.acked) > 500
    check(writer, read_all(cluster.bootstrap, "logs", 3))
    check_replicas_equal(cluster, "logs", 3)
    assert all(sorted(one["isr"]) == [0, 1, 2] for one in cluster.states("logs"))
    assert not cluster.tracebacks()


def test_follower_that_dies_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    """Producing goes on with two replicas once the dead one's session is over, and it rejoins after its restart."""
    cluster.create("logs", 3)
    writer = Writer(cluster.bootstrap, "logs", 3, pause=0.005).start()
    time.sleep(1)
    victim = next(one for one in cluster.brokers if one is not cluster.controller())
    number = cluster.brokers.index(victim)
    victim.kill()
    wait_for(lambda: all(number not in one["isr"] for one in cluster.states("logs")), "the ISRs to shrink")
    time.sleep(1)
    victim.start()
    cluster.wait_in_sync("logs")
    writer.finish()
    check(writer, read_all(cluster.bootstrap, "logs", 3))
    check_replicas_equal(cluster, "logs", 3)
    assert not cluster.tracebacks()
