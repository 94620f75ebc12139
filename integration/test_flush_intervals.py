"""flush.ms and flush.messages: they delay the flush of a `flushed` topic and cause that of a `replicated` one."""

from __future__ import annotations

import re
import time
import urllib.request

import pytest
from confluent_kafka import KafkaError, Producer

from barnabas.embedded_zookeeper import free_port
from integration.admin import create_topic
from integration.conftest import BrokerFactory, fresh_name
from integration.processes import Broker

WAIT = 20.0


@pytest.fixture
def running(brokers: BrokerFactory) -> Broker:
    """A broker with its metrics."""
    made = brokers({"http.listener": f"127.0.0.1:{free_port()}"})
    made.start()
    return made


def _flushes(broker: Broker) -> int:
    """Flushes since the start."""
    with urllib.request.urlopen(f"http://{broker.settings['http.listener']}/metrics", timeout=WAIT) as answer:
        found = re.search(r"^kafka_log_logflushstats_\w*count\S* (\d+)", answer.read().decode(), re.MULTILINE)
    return 0 if found is None else int(found.group(1))


def _produced(broker: Broker, topic: str, acks: str) -> float:
    """One record; how long its answer took."""
    failed: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "message.timeout.ms": 10_000})
    producer.list_topics(topic, timeout=WAIT)
    began = time.monotonic()
    producer.produce(topic, b"record", on_delivery=lambda error, _: failed.append(error))
    producer.flush(WAIT)
    assert failed == [None]
    return time.monotonic() - began


def _flushed_within(broker: Broker, before: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _flushes(broker) == before:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_record_of_a_flushed_topic_is_answered_when_flush_ms_is_over(running: Broker) -> None:
    """Not before, and not only at the next append."""
    topic = fresh_name("delayed")
    create_topic(running.bootstrap, topic, config={"durability": "flushed", "flush.ms": "700"})

    assert 0.6 < _produced(running, topic, "all") < 5


@pytest.mark.parametrize("setting", [{"flush.ms": "300"}, {"flush.messages": "1"}], ids=str)
def test_replicated_topic_is_flushed_while_it_runs(running: Broker, setting: dict[str, str]) -> None:
    """Its answers do not wait for that."""
    topic = fresh_name("replicated")
    create_topic(running.bootstrap, topic, config={"durability": "replicated", **setting})
    before = _flushes(running)

    _produced(running, topic, "all")

    assert _flushed_within(running, before, 5)


def test_replicated_topic_without_either_is_left_to_the_kernel(running: Broker) -> None:
    """As in Kafka."""
    topic = fresh_name("replicated")
    create_topic(running.bootstrap, topic, config={"durability": "replicated"})
    before = _flushes(running)

    _produced(running, topic, "all")

    assert not _flushed_within(running, before, 1)
