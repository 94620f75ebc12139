"""The demo: `barnabas up`, a topic, messages through kafka-python and confluent-kafka, `barnabas status`, stop.

Everything happens on free ports and in a temporary directory, which is removed at the end. Exit code 0 only if every
message arrived.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOPIC = "demo"
PARTITIONS = 3
MESSAGES = 1000
SECONDS = 60.0
BARNABAS = str(Path(sys.executable).with_name("barnabas"))


class DemoFailed(Exception):
    """What went wrong, in one line."""


def say(text: str) -> None:
    """One step."""
    print(f"\n== {text}", flush=True)


def barnabas(*arguments: str) -> None:
    """Runs a command as a user would, and shows it."""
    print(f"$ barnabas {shlex.join(arguments)}", flush=True)
    if subprocess.run([BARNABAS, *arguments], check=False).returncode != 0:
        raise DemoFailed(f"barnabas {arguments[0]} failed")


@contextmanager
def cluster(data: Path) -> Iterator[tuple[str, str]]:
    """A running cluster: (brokers, ZooKeeper). It is stopped as with Ctrl-C."""
    arguments = ["up", "--data", str(data), "--port", "0", "--zookeeper-port", "0", "--metrics-port", "0"]
    print(f"$ barnabas {shlex.join(arguments)}", flush=True)
    process = subprocess.Popen([BARNABAS, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield wait_until_ready(process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise DemoFailed("the cluster did not stop") from None
    if process.returncode != 0:
        raise DemoFailed(f"barnabas up ended with exit code {process.returncode}")


def wait_until_ready(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Reads the line that starts with `ready`."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], SECONDS)[0]:
        raise DemoFailed(f"the cluster was not ready within {SECONDS:g} s")
    line = process.stdout.readline()
    found = re.match(r"ready: brokers (\S+), ZooKeeper (\S+), ", line)
    if found is None:
        raise DemoFailed("the cluster did not start")
    print(line, end="", flush=True)
    return found[1], found[2]


def produce_with_kafka_python(brokers: str) -> None:
    """Half of the messages; every one must be acknowledged."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=brokers, acks="all", compression_type="gzip")
    sent = [
        producer.send(TOPIC, key=b"%d" % number, value=b"from kafka-python: %d" % number) for number in range(MESSAGES)
    ]
    for future in sent:
        future.get(timeout=SECONDS)
    producer.close()


def produce_with_confluent_kafka(brokers: str) -> None:
    """The other half, idempotent."""
    from confluent_kafka import Producer

    failures: list[object] = []
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "compression.type": "snappy"})
    for number in range(MESSAGES):
        producer.produce(
            TOPIC,
            key=b"%d" % number,
            value=b"from confluent-kafka: %d" % number,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    if producer.flush(SECONDS) or failures:
        raise DemoFailed(f"confluent-kafka could not deliver: {failures[:1] or 'no answer'}")


def consume_with_kafka_python(brokers: str) -> set[bytes]:
    """All values in the topic."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=brokers, auto_offset_reset="earliest", enable_auto_commit=False)
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    found: set[bytes] = set()
    deadline = time.monotonic() + SECONDS
    while len(found) < 2 * MESSAGES and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            found.update(record.value for record in records)
    consumer.close()
    return found


def consume_with_confluent_kafka(brokers: str) -> set[bytes]:
    """All values in the topic."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: set[bytes] = set()
    deadline = time.monotonic() + SECONDS
    while len(found) < 2 * MESSAGES and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:
                found.add(message.value() or b"")
    consumer.close()
    return found


def check(client: str, found: set[bytes]) -> None:
    """All messages of both producers, and nothing else."""
    wanted = {b"from %s: %d" % (name, n) for name in (b"kafka-python", b"confluent-kafka") for n in range(MESSAGES)}
    if found != wanted:
        raise DemoFailed(f"{client} read {len(found & wanted)} of {len(wanted)} messages")
    print(f"{client} read all {len(wanted)} messages", flush=True)


def run(data: Path) -> None:
    """The steps."""
    say("A cluster: ZooKeeper and one broker")
    with cluster(data) as (brokers, zookeeper):
        os.environ["BARNABAS_BOOTSTRAP_SERVER"], os.environ["BARNABAS_ZOOKEEPER"] = brokers, zookeeper
        say("A topic")
        barnabas("topics", "create", TOPIC, "--partitions", str(PARTITIONS))
        barnabas("topics", "describe", TOPIC)
        say(f"{MESSAGES} messages with kafka-python, {MESSAGES} with confluent-kafka")
        produce_with_kafka_python(brokers)
        produce_with_confluent_kafka(brokers)
        say("Each client reads what both have written")
        check("kafka-python", consume_with_kafka_python(brokers))
        check("confluent-kafka", consume_with_confluent_kafka(brokers))
        say("The cluster's state")
        barnabas("status")
        say("Stop: brokers first, then ZooKeeper")
    say("Done. Try it yourself: .venv/bin/barnabas up")


def main() -> int:
    """Runs it in a directory of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as directory:
        try:
            run(Path(directory) / "data")
        except DemoFailed as failure:
            print(f"demo: {failure}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("demo: interrupted", file=sys.stderr)
            return 1
        except Exception as error:
            # A client's own errors, which are many: the demo says which one and stops.
            print(f"demo: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    print(f"It took {time.monotonic() - began:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
