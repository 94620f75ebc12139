"""A broker's life against a real ZooKeeper: it registers, survives what may happen to it, and leaves no trace of harm.

Real processes throughout: `brokerd` is started as users start it, and ZooKeeper is asked with a client of its own.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, ZooKeeperUnavailable, find_jars, find_java, free_port

TICK_MS = 500
SESSION_MS = 3000
WAIT = 30.0
T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, seconds: float = WAIT) -> T:
    """The condition's value as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return value


class BrokerProcess:
    """`brokerd` as a process; every start appends to one log."""

    def __init__(self, root: Path, broker_id: int, connect: str, **settings: str) -> None:
        self.broker_id = broker_id
        self.root = root
        self.port = free_port()
        self.http_port = free_port()
        self.log = root / "brokerd.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._seen = 0
        root.mkdir(parents=True, exist_ok=True)
        self.settings = {
            "broker.id": str(broker_id),
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.connection.timeout.ms": "10000",
            "log.dirs": str(root / "logs"),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "http.listener": f"127.0.0.1:{self.http_port}",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> BrokerProcess:
        """Starts it and does not wait."""
        config = self.root / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        self._seen = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "brokerd.main", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self

    def said(self, text: str) -> bool:
        """Whether the log of this start has a text."""
        return text in self.text()

    def text(self) -> str:
        """The log since the last start or `forget`."""
        return self.log.read_bytes()[self._seen :].decode()

    def forget(self) -> None:
        """From here on `said` looks at new lines only."""
        self._seen = self.log.stat().st_size

    def wait_ready(self) -> BrokerProcess:
        """Until clients can connect."""
        process = self.process
        assert process is not None

        def ready() -> bool:
            assert process.poll() is None, self.text()
            return self.said("ready: broker")

        wait_for(ready, f"broker {self.broker_id} to be ready")
        return self

    def send(self, number: int) -> None:
        """A signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = WAIT) -> int:
        """Its exit code."""
        assert self.process is not None
        return self.process.wait(seconds)

    def kill(self) -> None:
        """As a crash of the process would."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One server; every test uses a chroot of its own."""
    try:
        find_java(), find_jars()
    except ZooKeeperUnavailable as problem:
        pytest.skip(str(problem))
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port(), tick_ms=TICK_MS) as server:
        yield server


class Room:
    """A chroot in the server, a client in it, and the brokers of one test."""

    def __init__(self, server: EmbeddedZooKeeper, root: Path, name: str) -> None:
        self.server = server
        self.root = root
        self.connect = f"{server.connect}/{name}"
        outside = KazooClient(server.connect)
        outside.start(timeout=WAIT)
        outside.ensure_path(f"/{name}")
        outside.stop()
        outside.close()
        self.client = KazooClient(self.connect, timeout=10)
        self.client.start(timeout=WAIT)
        self.brokers: list[BrokerProcess] = []

    def broker(self, broker_id: int = 0, directory: str | None = None, **settings: str) -> BrokerProcess:
        """A broker that is not started yet."""
        made = BrokerProcess(self.root / (directory or f"broker-{broker_id}"), broker_id, self.connect, **settings)
        self.brokers.append(made)
        return made

    def json(self, path: str) -> dict[str, Any]:
        """The data of a node."""
        found: dict[str, Any] = json.loads(self.client.get(path)[0])
        return found

    def close(self) -> None:
        """Ends everything."""
        for broker in self.brokers:
            broker.kill()
        self.client.stop()
        self.client.close()


@pytest.fixture
def room(zookeeper: EmbeddedZooKeeper, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Room]:
    """A cluster of its own."""
    made = Room(zookeeper, tmp_path, request.node.name[:60].replace("[", "-").replace("]", ""))
    try:
        yield made
    finally:
        made.close()


def create(broker: BrokerProcess, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic with one replica."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])


def produce(broker: BrokerProcess, topic: str, values: list[bytes]) -> None:
    """Acked by all, in order."""
    producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", retries=20, retry_backoff_ms=200)
    for future in [producer.send(topic, value, partition=0) for value in values]:
        future.get(timeout=WAIT)
    producer.close()


def consume(broker: BrokerProcess, topic: str, count: int) -> list[bytes]:
    """The first records of partition 0."""
    consumer = KafkaConsumer(bootstrap_servers=broker.address, consumer_timeout_ms=int(WAIT * 1000))
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == count:
            break
    consumer.close()
    return found


# ---- registration


def test_broker_registers_as_kafka_does_and_is_gone_after_sigterm(room: Room) -> None:
    """Tools of the ZooKeeper age find a broker, a controller and a cluster id; a clean stop takes under 10 s."""
    broker = room.broker(7).start().wait_ready()

    node = room.json("/brokers/ids/7")
    assert node["version"] == 5
    assert node["endpoints"] == [f"PLAINTEXT://127.0.0.1:{broker.port}"]
    assert node["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT"}
    assert (node["host"], node["port"], node["features"]) == ("127.0.0.1", broker.port, {})
    assert node["epoch"] == room.client.get("/barnabas/brokers/7")[1].version
    assert room.json("/controller")["brokerid"] == 7
    assert room.client.get("/controller_epoch")[0] == b"1"
    meta = (broker.root / "logs" / "meta.properties").read_text()
    assert f"cluster.id={room.json('/cluster/id')['id']}" in meta

    began = time.monotonic()
    broker.send(signal.SIGTERM)
    assert broker.wait() == 0
    assert time.monotonic() - began < 10
    assert room.client.exists("/brokers/ids/7") is None
    assert room.client.exists("/controller") is None
    assert (broker.root / "logs" / ".kafka_cleanshutdown").exists()
    assert "Traceback" not in broker.text()


def test_broker_is_ready_quickly_and_small_at_rest(room: Room) -> None:
    """Under a second of work and under 100 MB, without pyspark in the process."""
    broker = room.broker()
    began = time.monotonic()
    broker.start().wait_ready()
    took = time.monotonic() - began

    assert broker.process is not None
    memory = psutil.Process(broker.process.pid).memory_info().rss
    assert memory < 100 << 20
    assert took < 3.0, "even on a busy machine"
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/readyz", timeout=WAIT) as answer:
        assert answer.status == 200


def test_second_broker_with_the_same_id_is_refused_by_name(room: Room) -> None:
    """After one session timeout, with one line that says who has the id; the first one is not disturbed."""
    first = room.broker(0).start().wait_ready()
    second = room.broker(0, "impostor").start()

    assert second.wait() == 1
    assert f"broker id 0 in use by 127.0.0.1:{first.port}" in second.text()
    assert "Traceback" not in second.text()
    create(first, "still-served")


def test_other_clusters_log_directory_is_refused(room: Room) -> None:
    """Logs of one cluster are never served in another (A8), and nothing of them is deleted (A29)."""
    broker = room.broker().start().wait_ready()
    create(broker, "kept")
    broker.send(signal.SIGTERM)
    assert broker.wait() == 0
    room.client.set("/cluster/id", b'{"version":"1","id":"another-cluster-000000"}')

    broker.start()

    assert broker.wait() == 1
    assert "belongs to cluster another-cluster-000000" in broker.text()
    assert (broker.root / "logs" / "kept-0").is_dir()


def test_emptied_zookeeper_is_refused_and_nothing_deleted(room: Room) -> None:
    """F29: a wiped ZooKeeper must not wipe the logs."""
    broker = room.broker().start().wait_ready()
    create(broker, "kept")
    broker.send(signal.SIGTERM)
    assert broker.wait() == 0
    for name in room.client.get_children("/"):
        room.client.delete(f"/{name}", recursive=True)

    broker.start()

    assert broker.wait() == 1
    assert "has no cluster id" in broker.text()
    assert (broker.root / "logs" / "kept-0").is_dir()


# ---- what may happen to it


def test_killed_broker_is_back_at_once_with_all_its_records(room: Room) -> None:
    """kill -9 and restart before the old session ends: its node is known as its own and not waited out (A8)."""
    broker = room.broker(zookeeper_session_timeout_ms="10000").start().wait_ready()
    create(broker, "logs")
    values = [b"%d" % number for number in range(500)]
    produce(broker, "logs", values)
    epoch = room.json("/brokers/ids/0")["epoch"]

    broker.kill()
    began = time.monotonic()
    broker.start().wait_ready()

    assert time.monotonic() - began < 5
    assert room.json("/brokers/ids/0")["epoch"] > epoch
    assert consume(broker, "logs", 500) == values
    state = room.json("/brokers/topics/logs/partitions/0/state")
    assert (state["leader"], state["isr"]) == (0, [0])
    assert state["leader_epoch"] == 2, "one for the retreat, one for the election"


def test_paused_past_its_session_it_comes_back_as_a_new_life(room: Room) -> None:
    """SIGSTOP longer than the session: on waking it drops its roles, registers anew, and serves every record."""
    broker = room.broker().start().wait_ready()
    create(broker, "logs")
    produce(broker, "logs", [b"before"])
    epoch = room.json("/brokers/ids/0")["epoch"]

    broker.send(signal.SIGSTOP)
    wait_for(lambda: room.client.exists("/brokers/ids/0") is None, "the session to end")
    broker.forget()
    broker.send(signal.SIGCONT)

    wait_for(lambda: broker.said("registered as broker 0"), "the new registration")
    assert room.json("/brokers/ids/0")["epoch"] > epoch
    produce(broker, "logs", [b"after"])
    assert consume(broker, "logs", 2) == [b"before", b"after"]
    assert "Traceback" not in broker.text()


@pytest.mark.parametrize("outage", ["short", "long"])
def test_zookeeper_restart_is_survived(tmp_path: Path, outage: str) -> None:
    """A short outage keeps the session, a long one ends it; the broker serves on and is registered afterwards."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", free_port(), tick_ms=TICK_MS)
    with server:
        broker = BrokerProcess(tmp_path / "broker", 0, server.connect, zookeeper_session_timeout_ms="4000")
        try:
            broker.start().wait_ready()
            create(broker, "logs")
            produce(broker, "logs", [b"before"])
            broker.forget()

            server.stop()
            wait_for(lambda: broker.said("no connection to ZooKeeper"), "the loss to be noticed")
            produce(broker, "logs", [b"meanwhile"])
            if outage == "long":
                time.sleep(5)
            server.start()
            server.wait_ready()

            wait_for(lambda: broker.said("connected to ZooKeeper again") or broker.said("registered"), "the broker")
            create(broker, "later")
            produce(broker, "logs", [b"after"])
            assert consume(broker, "logs", 3) == [b"before", b"meanwhile", b"after"]
            assert "Traceback" not in broker.text()
        finally:
            broker.kill()


def test_registration_that_somebody_deletes_is_made_again(room: Room) -> None:
    """An operator's mistake in ZooKeeper does not leave a broker that nobody knows."""
    broker = room.broker().start().wait_ready()
    broker.forget()

    room.client.delete("/brokers/ids/0")

    wait_for(lambda: room.client.exists("/brokers/ids/0") is not None, "the new registration")
    create(broker, "served")


def test_stop_without_zookeeper_is_clean_and_in_time(tmp_path: Path) -> None:
    """SIGTERM while ZooKeeper is away: everything is flushed and marked, in under 10 s."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", free_port(), tick_ms=TICK_MS)
    with server:
        broker = BrokerProcess(tmp_path / "broker", 0, server.connect)
        try:
            broker.start().wait_ready()
            create(broker, "logs")
            produce(broker, "logs", [b"x"])
            server.stop()
            wait_for(lambda: broker.said("no connection to ZooKeeper"), "the loss to be noticed")

            began = time.monotonic()
            broker.send(signal.SIGTERM)
            broker.wait()

            assert time.monotonic() - began < 10
            assert (broker.root / "logs" / ".kafka_cleanshutdown").exists()
            assert "Traceback" not in broker.text()
        finally:
            broker.kill()


# ---- what stops a start


def test_missing_zookeeper_ends_the_start_with_one_line(tmp_path: Path) -> None:
    """Exit 1, and the line names the address."""
    broker = BrokerProcess(tmp_path, 0, f"127.0.0.1:{free_port()}", zookeeper_connection_timeout_ms="1000")
    try:
        broker.start()
        assert broker.wait() == 1
        assert "no ZooKeeper session with 127.0.0.1" in broker.text()
        assert "Traceback" not in broker.text()
    finally:
        broker.kill()


def test_taken_port_ends_the_start_with_one_line(room: Room) -> None:
    """Exit 1, and the line names the address."""
    first = room.broker(0).start().wait_ready()
    second = room.broker(1)
    second.settings["listeners"] = f"PLAINTEXT://{first.address}"

    assert second.start().wait() == 1
    assert f"cannot listen on {first.address}" in second.text()
    assert "Traceback" not in second.text()


def test_locked_log_directory_ends_the_start_with_one_line(room: Room) -> None:
    """Exit 1, and the line names the directory."""
    first = room.broker(0).start().wait_ready()
    second = room.broker(0, "second")
    second.settings["log.dirs"] = first.settings["log.dirs"]

    assert second.start().wait() == 1
    assert "in use by another broker" in second.text()
    assert "Traceback" not in second.text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--override", "brokerid2=1"], "there is no such setting"),
        (["--override", "log.segment.byte=1"], "did you mean log.segment.bytes?"),
        (["--override", "broker.id=x"], "must be a whole number"),
        (["--config", "/nowhere/server.properties"], "/nowhere/server.properties"),
    ],
)
def test_wrong_call_is_one_line_and_exit_2(arguments: list[str], expected: str) -> None:
    """The line says what to write instead."""
    done = subprocess.run(
        [sys.executable, "-m", "brokerd.main", *arguments], capture_output=True, text=True, timeout=WAIT, check=False
    )

    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("brokerd: ")
    assert expected in done.stderr


# ---- topics through ZooKeeper


def test_topic_is_kafkas_in_zookeeper_and_settings_are_taken_live(room: Room) -> None:
    """Assignment with id, states, overrides, and a notification of Kafka's when they change."""
    broker = room.broker().start().wait_ready()
    create(broker, "logs", 3, retention_ms="1000")

    topic = room.json("/brokers/topics/logs")
    assert (topic["version"], topic["partitions"]) == (3, {"0": [0], "1": [0], "2": [0]})
    assert room.json("/config/topics/logs") == {"version": 1, "config": {"retention.ms": "1000"}}
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "logs", {"retention.ms": "2000"})])
        admin.create_partitions({"logs": NewPartitions(5)})
    assert room.json("/config/topics/logs")["config"] == {"retention.ms": "2000"}
    (notice,) = room.client.get_children("/config/changes")
    assert room.json(f"/config/changes/{notice}") == {"version": 2, "entity_path": "topics/logs"}
    assert len(room.client.get_children("/brokers/topics/logs/partitions")) == 5
    assert sorted(path.name for path in (broker.root / "logs").glob("logs-*")) == [f"logs-{n}" for n in range(5)]


def test_deleted_topic_leaves_a_tombstone_and_its_name_is_free(room: Room) -> None:
    """Deleted and created again at once, under another id and without the old records."""
    broker = room.broker().start().wait_ready()
    create(broker, "logs")
    produce(broker, "logs", [b"old"])
    topic_id = room.json("/brokers/topics/logs")["topic_id"]

    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.delete_topics(["logs"])
    assert room.client.exists("/brokers/topics/logs") is None
    assert room.json(f"/barnabas/deleted/{topic_id}")["name"] == "logs"
    create(broker, "logs")
    produce(broker, "logs", [b"new"])

    assert consume(broker, "logs", 1) == [b"new"]
    assert room.json("/brokers/topics/logs")["topic_id"] != topic_id


def test_what_tools_of_the_zookeeper_age_write_is_done(room: Room) -> None:
    """A topic node written by hand gets an id and leaders; a node under /admin/delete_topics deletes it."""
    broker = room.broker().start().wait_ready()

    room.client.create("/brokers/topics/by-hand", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    wait_for(lambda: room.client.exists("/brokers/topics/by-hand/partitions/1/state"), "the states")
    assert room.json("/brokers/topics/by-hand")["topic_id"]
    produce(broker, "by-hand", [b"x"])
    room.client.create("/admin/delete_topics/by-hand", b"")

    wait_for(lambda: room.client.exists("/brokers/topics/by-hand") is None, "the deletion")
    assert room.client.get_children("/admin/delete_topics") == []


def test_producer_ids_are_taken_in_blocks(room: Room) -> None:
    """R40: a thousand at a time, and never one twice over a restart."""
    broker = room.broker().start().wait_ready()
    create(broker, "logs")
    for _ in range(2):
        producer = KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
        producer.send("logs", b"x").get(timeout=WAIT)
        producer.close()
    assert room.json("/latest_producer_id_block") == {
        "version": 1,
        "broker": 0,
        "block_start": "0",
        "block_end": "999",
    }
    broker.kill()
    broker.start().wait_ready()
    producer = KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
    producer.send("logs", b"x").get(timeout=WAIT)
    producer.close()
    assert room.json("/latest_producer_id_block")["block_start"] == "1000"


# ---- several brokers


def test_controller_moves_on_and_leaders_are_elected_where_they_can_be(room: Room) -> None:
    """Topics are made through any broker; the controller's death costs one election, and what it led waits for it."""
    brokers = [room.broker(number).start() for number in range(3)]
    for broker in brokers:
        broker.wait_ready()
    wait_for(lambda: len(room.client.get_children("/brokers/ids")) == 3, "three registrations")
    first = room.json("/controller")["brokerid"]
    other = next(broker for broker in brokers if broker.broker_id != first)
    create(other, "spread", 6)
    leaders = [room.json(f"/brokers/topics/spread/partitions/{n}/state")["leader"] for n in range(6)]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]

    brokers[first].kill()

    wait_for(lambda: room.client.exists("/controller") and room.json("/controller")["brokerid"] != first, "an heir")
    assert room.client.get("/controller_epoch")[0] == b"2"

    def offline() -> bool:
        states = [room.json(f"/brokers/topics/spread/partitions/{n}/state") for n in range(6)]
        return [state["leader"] for state in states].count(-1) == 2

    wait_for(offline, "the dead broker's partitions to be without a leader")
    create(other, "more", 4)
    brokers[first].start().wait_ready()
    wait_for(lambda: not offline(), "the leaders to be back")

