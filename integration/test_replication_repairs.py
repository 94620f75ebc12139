"""What a broker lost it gets back from the others, without an operator; and a ZooKeeper that is away stops nobody."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.processes import Broker
from integration.replicated import SESSION_MS, Cluster, Writer, check, check_replicas_equal, read_all, wait_for

PARTITIONS = 3


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper with short ticks, which a test may stop."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port(), tick_ms=500) as made:
        yield made


@pytest.fixture
def cluster(server: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers with small segments."""
    made = Cluster(server, tmp_path, log_segment_bytes="200000")
    try:
        yield made.start()
    finally:
        made.close()


def filled(cluster: Cluster) -> Writer:
    """A topic with records that are on every disk."""
    cluster.create("logs", PARTITIONS, segment_bytes="200000")
    writer = Writer(cluster.bootstrap, "logs", PARTITIONS, pause=0.001).start()
    time.sleep(2)
    writer.finish()
    return writer


def healed(cluster: Cluster, writer: Writer) -> None:
    """All replicas are in sync and equal, and hold what was acknowledged."""
    cluster.wait_in_sync("logs")
    check(writer, read_all(cluster.bootstrap, "logs", PARTITIONS))
    check_replicas_equal(cluster, "logs", PARTITIONS)
    assert not cluster.tracebacks()


def followers_only(cluster: Cluster) -> Broker:
    """A broker whose death costs the fewest: not the controller."""
    return next(one for one in cluster.brokers if one is not cluster.controller())


@pytest.mark.slow
def test_emptied_disk_is_filled_from_the_others(cluster: Cluster) -> None:
    """A7: the broker comes back with nothing, leaves every ISR before it registers, and copies everything."""
    writer = filled(cluster)
    victim = followers_only(cluster)
    victim.kill()
    shutil.rmtree(victim.data_dir)
    victim.start()
    healed(cluster, writer)


@pytest.mark.slow
def test_last_replica_that_lost_its_disk_does_not_lead_however_often_it_starts(cluster: Cluster) -> None:
    """A24: what it lost must not be lost by everybody. The others have most of it; an operator may choose them."""
    writer = filled(cluster)
    last = cluster.leader("logs")
    number = cluster.brokers.index(last)
    others = [one for one in cluster.brokers if one is not last]
    for one in others:
        one.kill()
    wait_for(lambda: cluster.state("logs", 0)["isr"] == [number], "the ISR to be the last one alone")
    last.kill()
    shutil.rmtree(last.data_dir)
    for _ in range(2):
        last.start()
        wait_for(lambda: cluster.state("logs", 0)["leader"] == -1, "nobody to lead")
        time.sleep(1)
        assert cluster.state("logs", 0)["leader"] == -1
        last.kill()
    for one in cluster.brokers:
        one.start()
    time.sleep(1)
    state = cluster.state("logs", 0)
    assert (state["leader"], state["isr"]) == (-1, [number])
    assert len(writer.acked)
    assert not cluster.tracebacks()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["segment", "index"])
def test_damaged_files_are_repaired(cluster: Cluster, damage: str) -> None:
    """A segment that lost its end is set aside and copied anew; an index is made again from its segment."""
    writer = filled(cluster)
    victim = followers_only(cluster)
    wait_for(lambda: (victim.data_dir / "recovery-point-offset-checkpoint").exists(), "a checkpoint")
    assert victim.stop() == 0
    (victim.data_dir / ".kafka_cleanshutdown").unlink()
    for index in range(PARTITIONS):
        directory = victim.partition_dir("logs", index)
        files = sorted(directory.glob("*.log" if damage == "segment" else "*.index"))
        file = next(one for one in reversed(files) if one.stat().st_size)
        os.truncate(file, file.stat().st_size // 2)
    victim.start()
    healed(cluster, writer)
    if damage == "segment":
        assert len(list(victim.data_dir.glob("*-damaged"))) == PARTITIONS, "nothing is thrown away"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_cluster_serves_on_without_zookeeper(cluster: Cluster, server: EmbeddedZooKeeper) -> None:
    """A16 (b): three session timeouts without it, and producing goes on; afterwards the cluster mends itself."""
    cluster.create("logs", PARTITIONS)
    writer = Writer(cluster.bootstrap, "logs", PARTITIONS, pause=0.005).start()
    time.sleep(1)
    server.stop()
    time.sleep(SESSION_MS / 1000 + 1)
    before = len(writer.acked)
    time.sleep(2 * SESSION_MS / 1000)
    meanwhile = len(writer.acked) - before
    server.start()
    server.wait_ready()
    time.sleep(SESSION_MS / 1000)
    cluster.wait_in_sync("logs", 60)
    writer.finish()
    print(f"{meanwhile} records without ZooKeeper, longest gap {writer.longest_gap:.1f} s")
    assert meanwhile > 300, "producing stood still"
    healed(cluster, writer)
