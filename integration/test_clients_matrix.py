"""What one client writes, every client reads: content, order, offsets, timestamps, headers, keys, with every codec.

Each writer fills one partition, codec after codec; each reader reads it whole. Fields that a client's command line
cannot carry (a timestamp, an empty value, a line break) are not given to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs
import pytest

from integration.admin import create_topic
from integration.clients.base import Client, Received, Record
from integration.clients.every import CLIENTS
from integration.conftest import fresh_name
from integration.processes import AnyBroker, Broker
from integration.stored import stored_batches

#: A moment in the past with milliseconds that a cut to seconds would lose.
MOMENT = 1_700_000_000_123
CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@attrs.frozen
class Written:
    """What a writer was given, and when (milliseconds), in the order of the log."""

    topic: str
    records: Sequence[Record]
    started: int
    ended: int


def records_for(client: Client, codec: str) -> list[Record]:
    """Keys and values of every sort that this client can send; compressible, so that the codec is really used."""
    tag = f"{client.name}/{codec}".encode()
    records = [
        Record(b"key", b"value of " + tag),
        Record(None, b"no key, " + tag * 40),
        Record(b"tombstone", None),
        Record("ключ".encode(), "значение ☃ ".encode() * 30),
        Record(b"with headers", tag * 40, (("trace", b"abc"), ("tag", b"one"), ("tag", b"two"))),
    ]
    records += [Record(b"%d" % number, b"%d " % number * 20 + tag) for number in range(40)]
    if not client.line_bound:
        records += [
            Record(b"", b"an empty key"),
            Record(b"an empty value", b""),
            Record(bytes(range(256)), bytes(range(256)) * 20),
            Record(b"binary header", b"x", (("bytes", bytes(range(256))), ("empty", b""))),
        ]
    if client.sets_timestamps:
        records = [
            attrs.evolve(record, timestamp=MOMENT + 7 * number - (100 if number % 3 == 0 else 0))
            for number, record in enumerate(records)
        ]
    return records


@pytest.fixture(scope="module")
def written(broker: AnyBroker) -> Callable[[Client], Written]:
    """Lets a client write its records once; later calls give the same log."""
    logs: dict[str, Written] = {}

    def log_of(client: Client) -> Written:
        if client.name not in logs:
            topic = fresh_name(f"matrix-{client.name}")
            create_topic(broker.bootstrap, topic, config={"retention.ms": "-1"})  # its timestamps are old
            started = int(time.time() * 1000)
            records: list[Record] = []
            for codec in client.writes:
                batch = records_for(client, codec)
                offsets = client.write(broker.bootstrap, topic, batch, codec)
                assert offsets is None or offsets == list(range(len(records), len(records) + len(batch)))
                records += batch
            logs[client.name] = Written(topic, records, started, int(time.time() * 1000))
        return logs[client.name]

    return log_of


def by_name(client: Client) -> str:
    """The name of a client, for the name of a test."""
    return client.name


@pytest.mark.parametrize("reader", CLIENTS, ids=by_name)
@pytest.mark.parametrize("writer", CLIENTS, ids=by_name)
def test_what_one_client_writes_another_reads(
    broker: AnyBroker, written: Callable[[Client], Written], writer: Client, reader: Client
) -> None:
    """Everything equal, in order, at consecutive offsets."""
    log = written(writer)

    received = reader.read(broker.bootstrap, log.topic, len(log.records))

    assert [record.offset for record in received] == list(range(len(log.records)))
    for sent, got in zip(log.records, received, strict=True):
        _assert_equal(sent, got, log, reader)


def _assert_equal(sent: Record, got: Received, log: Written, reader: Client) -> None:
    assert got.key == sent.key
    assert got.value == sent.value
    if reader.name != "kcat" or all(value and value.isascii() and b"\0" not in value for _, value in sent.headers):
        assert got.headers == sent.headers  # kcat prints header values as C strings
    if sent.timestamp is None:
        assert log.started <= got.timestamp <= log.ended
    else:
        assert got.timestamp == sent.timestamp


@pytest.mark.parametrize("writer", CLIENTS, ids=by_name)
def test_batches_are_stored_as_the_client_compressed_them(
    own_broker: Broker, written: Callable[[Client], Written], writer: Client
) -> None:
    """The broker never recompresses: each codec that was asked for is found on disk, in the order of the runs."""
    log = written(writer)

    codecs = [batch.codec for batch in stored_batches(own_broker.partition_dir(log.topic))]

    runs = [codec for number, codec in enumerate(codecs) if number == 0 or codecs[number - 1] != codec]
    assert runs == [CODEC_NUMBERS[codec] for codec in writer.writes]
