"""Three brokers, three replicas, two of them needed: brokers die, are paused, are stopped one by one, under load.

Every acknowledged record is there, once, in its order, under the offset that was told; all replicas end up equal. Seeds
are printed; BARNABAS_KILL_ROUNDS=20 makes it longer.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, free_port
from integration.processes import Broker
from integration.replicated import SESSION_MS, Cluster, Writer, check, check_replicas_equal, read_all, wait_for
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.messages import decode_response, encode_request
from kafka_wire.records import Record, encode_batch
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROUNDS = int(os.environ.get("BARNABAS_KILL_ROUNDS", "4"))
PARTITIONS = 3


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


def finish(cluster: Cluster, writer: Writer, topic: str = "logs") -> None:
    """Everything is healed: what was promised is looked at."""
    cluster.wait_in_sync(topic)
    writer.finish()
    check(writer, read_all(cluster.bootstrap, topic, PARTITIONS))
    wait_for(lambda: _equal(cluster, topic), "the replicas to be equal", 15)
    check_replicas_equal(cluster, topic, PARTITIONS)
    assert not cluster.tracebacks()


def _equal(cluster: Cluster, topic: str) -> bool:
    try:
        check_replicas_equal(cluster, topic, PARTITIONS)
    except AssertionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(120 + 40 * ROUNDS)
@pytest.mark.parametrize("durability", ["flushed", "replicated"])
def test_acknowledged_records_survive_kill_9_of_any_broker(cluster: Cluster, durability: str) -> None:
    """Leader, follower or controller, started again before or after its session has expired."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cluster.create("logs", PARTITIONS, durability=durability)
    writer = Writer(cluster.bootstrap, "logs", PARTITIONS).start()
    for _ in range(ROUNDS):
        time.sleep(chance.uniform(0.5, 2.0))
        victim = chance.choice([cluster.controller(), cluster.leader("logs"), chance.choice(cluster.brokers)])
        victim.kill()
        time.sleep(chance.choice([chance.uniform(0, 1), SESSION_MS / 1000 + chance.uniform(1, 3)]))
        victim.start()
        if chance.random() < 0.7:
            cluster.wait_in_sync("logs")
    finish(cluster, writer)
    print(f"{len(writer.acked)} records, longest gap {writer.longest_gap:.1f} s")


@pytest.mark.slow
def test_all_brokers_killed_at_once_lose_nothing(cluster: Cluster) -> None:
    """The page cache survives, and so does every acknowledged record."""
    cluster.create("logs", PARTITIONS)
    writer = Writer(cluster.bootstrap, "logs", PARTITIONS).start()
    time.sleep(2)
    for broker in cluster.brokers:
        broker.kill()
    for broker in cluster.brokers:
        broker.launch()
    for broker in cluster.brokers:
        broker.wait_ready()
    finish(cluster, writer)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_rolling_restart_loses_nothing_and_is_hardly_noticed(cluster: Cluster) -> None:
    """SIGTERM to one after the other: leadership moves first, so nobody waits for a session to expire."""
    cluster.create("logs", PARTITIONS)
    writer = Writer(cluster.bootstrap, "logs", PARTITIONS, pause=0.005).start()
    time.sleep(1)
    for broker in cluster.brokers:
        assert broker.stop() == 0
        broker.start()
        cluster.wait_in_sync("logs")
    finish(cluster, writer)
    print(f"{len(writer.acked)} records, longest gap {writer.longest_gap:.2f} s")
    assert writer.longest_gap < SESSION_MS / 1000, "somebody waited for a session"


def _send_produce(connection: socket.socket, acks: int, value: bytes, number: int) -> None:
    data = [TopicProduceData("logs", [PartitionProduceData(0, encode_batch([Record(0, 1000, None, value)]))])]
    body = ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=data)
    connection.sendall(b"".join(encode_request(Api.PRODUCE, 9, number, "test", body)))


def _answer(connection: socket.socket) -> int:
    """The error code of the next answer to a Produce for one partition."""
    size = int.from_bytes(_read(connection, 4), "big")
    _, body = decode_response(Api.PRODUCE, 9, _read(connection, size), 0, size)
    code: int = body.responses[0].partition_responses[0].error_code
    return code


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, "the connection was closed"
        data += more
    return data


@pytest.mark.slow
def test_leader_that_sleeps_past_its_session_acknowledges_nothing_when_it_wakes(cluster: Cluster) -> None:
    """Requests that waited in its socket are refused, acks=1 too; it steps down, cuts its log and is in sync again."""
    cluster.create("logs", PARTITIONS)
    writer = Writer(cluster.bootstrap, "logs", PARTITIONS, pause=0.005).start()
    time.sleep(1)
    sleeper: Broker = cluster.leader("logs")
    number = cluster.brokers.index(sleeper)
    with socket.create_connection((sleeper.host, sleeper.port), timeout=30) as connection:
        _send_produce(connection, 1, b"before", 1)
        assert _answer(connection) == errors.NONE
        os.kill(sleeper.pid, signal.SIGSTOP)
        for value in range(5):
            _send_produce(connection, 1 if value % 2 else -1, b"while it sleeps", 2 + value)
        wait_for(lambda: cluster.state("logs", 0)["leader"] not in (-1, number), "another leader")
        time.sleep(1)
        os.kill(sleeper.pid, signal.SIGCONT)
        codes = [_answer(connection) for _ in range(5)]
    assert codes == [errors.NOT_LEADER_OR_FOLLOWER] * 5
    cluster.wait_in_sync("logs")
    writer.finish()
    found = read_all(cluster.bootstrap, "logs", PARTITIONS)
    assert b"while it sleeps" not in found[0]
    assert not writer.problems
    assert all(found[key[0]][key[1]] == value for key, value in writer.acked.items())
    wait_for(lambda: _equal(cluster, "logs"), "the replicas to be equal", 15)
    assert not cluster.tracebacks()
