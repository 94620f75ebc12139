"""`barnabas produce`, `consume` and `dump-log` as users run them: real processes against a real broker."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from integration.admin import create_topic
from integration.conftest import BrokerFactory, fresh_name
from integration.processes import AnyBroker, Broker

BARNABAS = str(Path(sys.executable).with_name("barnabas"))
SECONDS = 60.0

Completed = subprocess.CompletedProcess[bytes]


def _interruptible() -> None:
    """As in a terminal: a test run in the background hands on that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Cli:
    """The command line, told where the broker is."""

    def __init__(self, bootstrap: str) -> None:
        self.environment = {**os.environ, "BARNABAS_BOOTSTRAP_SERVER": bootstrap}

    def run(self, *arguments: str, stdin: bytes = b"") -> Completed:
        """One call, to its end."""
        return subprocess.run(
            [BARNABAS, *arguments],
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env=self.environment,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """One call, under way."""
        return subprocess.Popen(
            [BARNABAS, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            preexec_fn=_interruptible,
        )

    def produce(self, topic: str, lines: bytes, *options: str) -> None:
        """Lines that must be stored."""
        done = self.run("produce", topic, *options, stdin=lines)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr

    def consume(self, topic: str, *options: str) -> bytes:
        """Everything that there is."""
        done = self.run("consume", topic, "--from-beginning", "--exit-at-end", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def cli(broker: AnyBroker) -> Cli:
    """The command line for the shared broker."""
    return Cli(broker.bootstrap)


@pytest.fixture
def topic(broker: AnyBroker) -> str:
    """A topic of one partition, which keeps messages of whatever age."""
    name = fresh_name("cli")
    create_topic(broker.bootstrap, name, config={"retention.ms": "-1"})
    return name


@pytest.fixture
def wide_topic(broker: AnyBroker) -> str:
    """A topic of five partitions."""
    name = fresh_name("cli-wide")
    create_topic(broker.bootstrap, name, partitions=5)
    return name


def failed(done: Completed, code: int = 1) -> str:
    """The one line that a failed call says."""
    assert done.returncode == code, done.stderr
    text = done.stderr.decode()
    assert "Traceback" not in text
    if code == 1:
        assert len(text.splitlines()) == 1, text
    return text


def librdkafka_messages(bootstrap: str, topic: str, count: int) -> list[Any]:
    """What another client reads."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": fresh_name("g"), "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.consume(count, timeout=1.0)
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_byte_for_byte(cli: Cli, topic: str, codec: str) -> None:
    """Empty lines, bytes that are no text, a last line without its end: all as it was."""
    lines = b"one\n\ntwo \xff\xfe\n" + b"x" * 200_000 + b"\nlast"
    cli.produce(topic, lines, "--compression", codec)
    assert cli.consume(topic) == lines + b"\n"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_many_lines_keep_their_order(cli: Cli, topic: str, acks: str) -> None:
    """More than fits one batch, with any acks."""
    lines = b"".join(b"%08d %s\n" % (number, b"x" * 50) for number in range(20_000))
    cli.produce(topic, lines, "--acks", acks)
    if acks == "0":  # nobody has said that they are stored
        done = cli.run("consume", topic, "--from-beginning", "-n", "20000", "--timeout", "20")
        assert done.stdout == lines
    else:
        assert cli.consume(topic) == lines


def test_another_client_reads_what_we_send(cli: Cli, broker: AnyBroker, topic: str) -> None:
    """Keys, headers, nulls and timestamps as librdkafka sees them."""
    before = time.time() * 1000
    arguments = ("-K", ":", "-H", "a=1", "-H", "a=2", "-H", "b", "--null-marker", "NULL")
    cli.produce(topic, b"k:v:w\nalone\nk2:NULL\n", *arguments)
    found = librdkafka_messages(broker.bootstrap, topic, 3)
    assert [(each.key(), each.value()) for each in found] == [(b"k", b"v:w"), (None, b"alone"), (b"k2", None)]
    assert found[0].headers() == [("a", b"1"), ("a", b"2"), ("b", None)]
    assert before - 1 <= found[0].timestamp()[1] <= time.time() * 1000


def test_we_read_what_another_client_sends(cli: Cli, broker: AnyBroker, topic: str) -> None:
    """Format and JSON of messages that librdkafka wrote."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"})
    producer.produce(topic, b"hello", b"k", headers=[("h", b"1")], timestamp=1234567890123)
    producer.produce(topic, None, None, timestamp=1234567890124)
    producer.flush(30)
    text = cli.consume(topic, "--format", r"%t %p %o %k %K %s %S %T %h\n").decode()
    assert text == f"{topic} 0 0 k 1 hello 5 1234567890123 h=1\n{topic} 0 1  -1  -1 1234567890124 \n"
    rows = [json.loads(line) for line in cli.consume(topic, "--json").splitlines()]
    assert rows[0]["headers"] == ["h", "1"]
    assert [(row["offset"], row["ts"], row["tstype"], row["key"], row["payload"]) for row in rows] == [
        (0, 1234567890123, "create", "k", "hello"),
        (1, 1234567890124, "create", None, None),
    ]


def test_keys_go_where_other_clients_send_them(cli: Cli, broker: AnyBroker, wide_topic: str) -> None:
    """The partitions are those of murmur2, as librdkafka has it on request."""
    keys = [b"key-%d" % number for number in range(50)]
    cli.produce(wide_topic, b"".join(key + b":ours\n" for key in keys), "-K", ":")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(wide_topic, b"theirs", key)
    producer.flush(30)
    rows = [json.loads(line) for line in cli.consume(wide_topic, "--json").splitlines()]
    ours = {row["key"]: row["partition"] for row in rows if row["payload"] == "ours"}
    theirs = {row["key"]: row["partition"] for row in rows if row["payload"] == "theirs"}
    assert ours == theirs
    assert len(ours) == 50


def test_partition_is_chosen_and_read_alone(cli: Cli, wide_topic: str) -> None:
    """--partition on both sides."""
    cli.produce(wide_topic, b"a\nb\n", "--partition", "3")
    cli.produce(wide_topic, b"c\n", "--partition", "1")
    assert cli.consume(wide_topic, "--partition", "3") == b"a\nb\n"
    assert sorted(cli.consume(wide_topic).split()) == [b"a", b"b", b"c"]
    assert "partitions are 0 to 4" in failed(cli.run("produce", wide_topic, "--partition", "9"))
    assert "partitions are 0 to 4" in failed(cli.run("consume", wide_topic, "--partition", "9"))


@pytest.mark.parametrize(
    ("where", "expected"),
    [("beginning", b"0123"), ("2", b"23"), ("-1", b"3"), ("-99", b"0123"), ("s@1000000000002", b"23"), ("end", b"")],
)
def test_reading_begins_where_it_is_told(cli: Cli, broker: AnyBroker, topic: str, where: str, expected: bytes) -> None:
    """Both ends, offsets from either, and times."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(4):
        producer.produce(topic, b"%d" % number, timestamp=1_000_000_000_000 + number)
        producer.flush(30)
    done = cli.run("consume", topic, "--offset", where, "--exit-at-end", "--format", "%s")
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_several_topics_and_a_number_of_messages(cli: Cli, topic: str, wide_topic: str) -> None:
    """All topics are read; exactly so many messages are printed."""
    cli.produce(topic, b"a\nb\n")
    cli.produce(wide_topic, b"c\nd\n")
    done = cli.run("consume", topic, wide_topic, "--from-beginning", "--exit-at-end")
    assert sorted(done.stdout.split()) == [b"a", b"b", b"c", b"d"]
    assert len(cli.run("consume", topic, wide_topic, "--from-beginning", "-n", "3").stdout.split()) == 3


def test_nothing_new_ends_a_reader_with_a_timeout(cli: Cli, topic: str) -> None:
    """--timeout ends it with success, soon after that time."""
    cli.produce(topic, b"a\n")
    started = time.monotonic()
    done = cli.run("consume", topic, "--from-beginning", "--timeout", "1.5")
    assert (done.returncode, done.stdout) == (0, b"a\n")
    assert 1.4 < time.monotonic() - started < 15


def test_live_reader_gets_lines_at_once_and_ends_clean_on_ctrl_c(cli: Cli, topic: str) -> None:
    """A line is printed while the writer's input is still open; Ctrl-C is no failure."""
    reader, writer = cli.start("consume", topic, "--from-beginning"), cli.start("produce", topic)
    with reader, writer:
        assert writer.stdin is not None
        assert reader.stdout is not None
        for number in range(3):
            writer.stdin.write(b"line %d\n" % number)
            writer.stdin.flush()
            assert reader.stdout.readline() == b"line %d\n" % number
        reader.send_signal(signal.SIGINT)
        assert (reader.wait(20), reader.stderr.read() if reader.stderr else b"") == (0, b"")
        writer.stdin.close()
        assert writer.wait(20) == 0


def test_topic_is_created_by_the_first_message(cli: Cli) -> None:
    """As with any Kafka client, if the broker's settings allow it."""
    name = fresh_name("cli-auto")
    cli.produce(name, b"first\n")
    assert cli.consume(name) == b"first\n"


def test_wrong_calls_say_so(cli: Cli, topic: str) -> None:
    """Exit code 2 and what is wrong, without a traceback."""
    for arguments in (
        ("consume",),
        ("consume", topic, "--offset", "tomorrow"),
        ("consume", topic, "--format", "%q"),
        ("consume", topic, "--offset", "3", "--from-beginning"),
        ("consume", topic, "-b", "host:port"),
        ("produce", topic, "--acks", "2"),
        ("produce", topic, "--header", "=x"),
        ("produce", topic, "-K", ""),
    ):
        failed(cli.run(*arguments), 2)


def test_failures_are_one_line_with_what_to_do(cli: Cli, topic: str) -> None:
    """An unknown topic, an offset that there is not, and nobody there."""
    assert f"did you mean {topic}?" in failed(cli.run("consume", topic[:-1]))
    assert "0 to 0" in failed(cli.run("consume", topic, "--offset", "5"))
    nobody = Cli("127.0.0.1:1")
    for verb in ("consume", "produce"):
        assert "barnabas up" in failed(nobody.run(verb, topic))


def test_reader_of_a_pipe_that_ends_is_no_fault(cli: Cli, topic: str) -> None:
    """`consume | head -1` prints one line and no complaint."""
    cli.produce(topic, b"".join(b"%d\n" % number for number in range(50_000)))
    command = f"{BARNABAS} consume {topic} --from-beginning -q | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=SECONDS, env=cli.environment, check=False)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_reader_that_left_is_noticed_while_nothing_comes(cli: Cli, topic: str) -> None:
    """Nobody reads the output and no message comes: it ends all the same."""
    cli.produce(topic, b"a\n")
    with cli.start("consume", topic, "--from-beginning") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"a\n"
        reader.stdout.close()
        assert reader.wait(20) != 0


@pytest.fixture
def private(brokers: BrokerFactory) -> Broker:
    """A broker that may be killed."""
    broker = brokers()
    broker.start()
    return broker


def test_broker_that_is_killed_costs_time_but_no_message(private: Broker) -> None:
    """Both sides go on after kill -9 and restart: everything once, in order (idempotent producer)."""
    cli, name = Cli(private.bootstrap), fresh_name("cli-kill")
    create_topic(private.bootstrap, name)
    reader, writer = cli.start("consume", name, "--from-beginning", "-n", "3000"), cli.start("produce", name)
    with reader, writer:
        assert writer.stdin is not None
        assert reader.stdout is not None
        seen = b""
        for part in range(3):
            for number in range(part * 1000, part * 1000 + 1000):
                writer.stdin.write(b"%d\n" % number)
            writer.stdin.flush()
            seen += reader.stdout.readline()  # both are at work
            if part < 2:
                private.kill()
                private.start()
        writer.stdin.close()
        seen += reader.stdout.read()
        assert writer.stderr is not None
        assert writer.wait(SECONDS) == 0, writer.stderr.read()
        assert seen == b"".join(b"%d\n" % number for number in range(3000))
        assert reader.wait(20) == 0


def test_segment_files_are_dumped(own_broker: Broker, cli: Cli, topic: str) -> None:
    """What was produced is found in the broker's files, sound; a changed byte is found too."""
    cli.produce(topic, b"k:hello\n", "-K", ":", "-z", "snappy")
    directory = own_broker.partition_dir(topic)
    files = sorted(
        str(path) for path in directory.iterdir() if path.suffix in (".log", ".index", ".timeindex", ".snapshot")
    )
    done = cli.run("dump-log", "--records", "--json", *files, str(directory / "leader-epoch-checkpoint"))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["payload"] for row in rows if row["type"] == "record"] == ["hello"]
    assert [row["compresscodec"] for row in rows if row["type"] == "batch"] == ["snappy"]
    assert [row["startOffset"] for row in rows if row["type"] == "checkpoint"] == [0]


def test_damaged_segment_is_named(own_broker: Broker, cli: Cli, topic: str, tmp_path: Path) -> None:
    """The exit code is 1 and the line says where."""
    cli.produce(topic, b"a\n")
    cli.produce(topic, b"b\n")
    [log] = own_broker.partition_dir(topic).glob("*.log")
    copy = tmp_path / log.name
    copy.write_bytes(log.read_bytes()[:-3])
    done = cli.run("dump-log", str(copy))
    assert "damage begins at position" in failed(done)
    assert done.stdout.count(b"isvalid: true") == 1
