"""Partitions that move between three real brokers under traffic: begun, seen, cancelled and finished, by Kafka's own
tools and by confluent-kafka's producer; leaders that go back to their places.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas import admin, moving
from barnabas.cli import cli
from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.replicated import Cluster, Writer, batches, check, read_all, wait_for
from integration.tools import run_java

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers for all tests of this file."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port(), tick_ms=500) as server:
        made = Cluster(server, tmp_path_factory.mktemp("reassignment"))
        try:
            yield made.start()
        finally:
            made.close()


def create(cluster: Cluster, topic: str, *replicas: tuple[int, ...], **config: str) -> None:
    """A topic with these replicas, as soon as the controller knows all brokers."""
    wait_for(lambda: len(cluster.known_to(cluster.controller())) == len(cluster.brokers), "all brokers to be there")
    with admin.connected(cluster.bootstrap) as client:
        admin.create_topic(client, topic, assignment=replicas, configs={"min.insync.replicas": "1", **config})


def assigned(cluster: Cluster, topic: str) -> list[list[int]]:
    """The replicas of each partition, as ZooKeeper has them."""
    found = cluster.json(f"/brokers/topics/{topic}")["partitions"]
    return [found[str(index)] for index in range(len(found))]


def moved(cluster: Cluster, topic: str, *replicas: tuple[int, ...]) -> None:
    """Waits until the partitions are where they shall be, in sync and led."""

    def done() -> bool:
        node = cluster.json(f"/brokers/topics/{topic}")
        states = cluster.states(topic)
        return (
            not node["adding_replicas"]
            and not node["removing_replicas"]
            and assigned(cluster, topic) == [list(one) for one in replicas]
            and all(sorted(one["isr"]) == sorted(two) for one, two in zip(states, replicas, strict=True))
        )

    try:
        wait_for(done, "the partitions to have moved", 40)
    except AssertionError:
        logs = "\n\n".join(one.log_end(25) for one in cluster.brokers)
        raise AssertionError(f"{assigned(cluster, topic)} {cluster.states(topic)}\n{logs}") from None


def test_partitions_move_under_traffic_and_nothing_is_lost(cluster: Cluster) -> None:
    """Two partitions change all their replicas while they are written to."""
    create(cluster, "busy", (0, 1), (1, 0))
    writer = Writer(cluster.bootstrap, "busy", 2, pause=0.002).start()
    time.sleep(1)
    with admin.connected(cluster.bootstrap) as client:
        moving.reassign(client, {("busy", 0): (2, 1), ("busy", 1): (2, 0)})
        moved(cluster, "busy", (2, 1), (2, 0))
        moving.reassign(client, {("busy", 0): (0,), ("busy", 1): (2, 1, 0)})
        moved(cluster, "busy", (0,), (2, 1, 0))
    time.sleep(1)
    writer.finish()
    check(writer, read_all(cluster.bootstrap, "busy", 2))
    assert {one["leader"] for one in cluster.states("busy")} <= {0, 1, 2}
    assert batches(cluster.brokers[1], "busy", 1) == batches(cluster.brokers[2], "busy", 1)
    assert not cluster.tracebacks()


def test_many_moves_under_traffic_keep_the_order_of_an_idempotent_producer(cluster: Cluster) -> None:
    """Epochs change within milliseconds of each other, with several requests of the producer on their way."""
    chance = random.Random(2)
    create(cluster, "restless", (0, 1), (1, 0))
    writer = Writer(cluster.bootstrap, "restless", 2, pause=0.002).start()
    time.sleep(1)
    with admin.connected(cluster.bootstrap) as client:
        for _ in range(14):
            wanted = [tuple(chance.sample(range(3), chance.randint(1, 3))) for _ in range(2)]
            moving.reassign(client, {("restless", index): one for index, one in enumerate(wanted)})
            moved(cluster, "restless", *wanted)
            if chance.random() < 0.5:
                moving.elect(client, None)
    writer.finish()
    check(writer, read_all(cluster.bootstrap, "restless", 2))
    assert not cluster.tracebacks()


def test_kafka_reassign_partitions(cluster: Cluster, tmp_path: Path) -> None:
    """kafka-reassign-partitions.sh: generate, execute, verify, list."""
    create(cluster, "tool", (0, 1), (1, 2))
    where = ["--bootstrap-server", cluster.bootstrap]
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "tool"}]}))
    generated = run_java(
        REASSIGN, *where, "--topics-to-move-json-file", str(topics), "--broker-list", "0,2", "--generate"
    )
    assert "Proposed partition reassignment configuration" in generated

    plan = tmp_path / "plan.json"
    wanted = [
        {"topic": "tool", "partition": 0, "replicas": [2, 0]},
        {"topic": "tool", "partition": 1, "replicas": [0, 2]},
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    told = run_java(REASSIGN, *where, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment" in told
    moved(cluster, "tool", (2, 0), (0, 2))
    told = run_java(REASSIGN, *where, "--reassignment-json-file", str(plan), "--verify")
    assert told.count("is completed") == 2
    assert "No partition reassignments found" in run_java(REASSIGN, *where, "--list")


def test_kafka_leader_election_and_kafka_topics(cluster: Cluster) -> None:
    """kafka-leader-election.sh gives the leadership back to the preferred replica; kafka-topics.sh sees it."""
    create(cluster, "led", (0, 1, 2))
    wait_for(lambda: len(cluster.state("led", 0)["isr"]) == 3, "all to be in sync")
    with admin.connected(cluster.bootstrap) as client:
        moving.reassign(client, {("led", 0): (1, 2, 0)})
    assert cluster.state("led", 0)["leader"] == 0
    where = ["--bootstrap-server", cluster.bootstrap]
    told = run_java(ELECT, *where, "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert "Successfully completed leader election (PREFERRED) for partitions led-0" in told
    assert cluster.state("led", 0)["leader"] == 1
    told = run_java(ELECT, *where, "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert "Valid replica already elected for partitions" in told
    run_java(ELECT, *where, "--election-type", "preferred", "--all-topic-partitions")
    described = run_java(TOPICS, *where, "--describe", "--topic", "led")
    assert "Leader: 1\tReplicas: 1,2,0" in described
    assert "led-" not in run_java(TOPICS, *where, "--describe", "--unavailable-partitions")


def barnabas(cluster: Cluster, *words: str, code: int = 0) -> str:
    """What a command prints."""
    environment = {"BARNABAS_BOOTSTRAP_SERVER": cluster.bootstrap}
    done = CliRunner().invoke(cli, list(words), env=environment)
    assert done.exit_code == code, done.output
    return done.output


def test_barnabas_reassigns_drains_and_elects(cluster: Cluster) -> None:
    """The commands: a plan that is only shown, one that is carried out, a drained broker, leaders back in place."""
    with admin.connected(cluster.bootstrap) as client:
        for name in client.metadata(refresh=True).topics:
            admin.delete_topic(client, name)
    create(cluster, "plan", (0, 1), (0, 1), (0, 1))
    shown = json.loads(barnabas(cluster, "topics", "reassign", "--brokers", "0,1,2", "--dry-run", "--json"))
    assert len({one for partition in shown["partitions"] for one in partition["replicas"]}) == 3
    assert assigned(cluster, "plan") == [[0, 1]] * 3

    assert "3 partitions moved" in barnabas(cluster, "topics", "reassign", "--brokers", "0,1,2", "--topics", "plan")
    assert sorted(one for replicas in assigned(cluster, "plan") for one in replicas) == [0, 0, 1, 1, 2, 2]
    barnabas(cluster, "brokers", "elect-leaders", "--topics", "plan")
    assert sorted(one["leader"] for one in cluster.states("plan")) == [0, 1, 2]

    assert "2 partitions moved" in barnabas(cluster, "brokers", "drain", "2")
    listed = json.loads(barnabas(cluster, "brokers", "list", "--json"))
    assert [one["replicas"] for one in listed] == [3, 3, 0]
    assert json.loads(barnabas(cluster, "brokers", "describe", "0", "--json"))["replicas"] == 3
    assert "there is no broker 7" in barnabas(cluster, "brokers", "describe", "7", code=1)
    assert "nothing has to move" in barnabas(cluster, "brokers", "drain", "2")
    assert "nothing is being moved" in barnabas(cluster, "topics", "reassign", "--cancel")
    assert json.loads(barnabas(cluster, "status", "--json"))["reassigning"] == []


def test_reassignment_is_listed_and_cancelled(cluster: Cluster) -> None:
    """With its new replica stopped it stays under way until it is taken back."""
    controller = cluster.brokers.index(cluster.controller())
    victim, other = (one for one in range(3) if one != controller)
    create(cluster, "held", (controller, other))
    os.kill(cluster.brokers[victim].pid, signal.SIGSTOP)
    try:
        with admin.connected(cluster.brokers[controller].bootstrap) as client:
            moving.reassign(client, {("held", 0): (victim, other)})
            expected = moving.Move((victim, other, controller), (victim,), (controller,))
            assert moving.ongoing(client) == {("held", 0): expected}
            assert json.loads(barnabas(cluster, "status", "--timeout", "1", "--json"))["reassigning"]
            moving.reassign(client, {("held", 0): None})
            assert moving.ongoing(client) == {}
        moved(cluster, "held", (other, controller))
    finally:
        os.kill(cluster.brokers[victim].pid, signal.SIGCONT)
    time.sleep(1)  # its session may have ended meanwhile: it finds that out and comes back


def test_controller_that_dies_midway_is_succeeded(cluster: Cluster) -> None:
    """Killed right after a move under traffic began, and back later: the move ends, nothing is lost."""
    controller = cluster.brokers.index(cluster.controller())
    first, second = (one for one in range(3) if one != controller)
    create(cluster, "orphan", (first, controller), (second, controller))
    writer = Writer(cluster.bootstrap, "orphan", 2, pause=0.002).start()
    time.sleep(1)
    with admin.connected(cluster.brokers[first].bootstrap) as client:
        moving.reassign(client, {("orphan", 0): (second, first), ("orphan", 1): (first, second)})
    cluster.brokers[controller].kill()
    moved(cluster, "orphan", (second, first), (first, second))
    cluster.brokers[controller].start()
    time.sleep(1)
    writer.finish()
    check(writer, read_all(cluster.bootstrap, "orphan", 2))
    assert not cluster.tracebacks()


def test_left_replicas_are_deleted_after_a_minute(cluster: Cluster) -> None:
    """And not before: a move that is taken back finds them again."""
    create(cluster, "left", (0, 1))
    with admin.connected(cluster.bootstrap) as client:
        moving.reassign(client, {("left", 0): (2, 1)})
    moved(cluster, "left", (2, 1))
    began = time.monotonic()
    directory = cluster.brokers[0].partition_dir("left", 0)
    assert directory.is_dir()

    wait_for(lambda: not directory.exists(), "the replica to be deleted", 100)

    assert time.monotonic() - began > 55
    assert cluster.brokers[1].partition_dir("left", 0).is_dir()
    assert not cluster.tracebacks()
