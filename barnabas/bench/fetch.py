"""How many messages a second a broker gives to consumers, and what they cost it.

The topic is filled once for each broker; every run reads it from the beginning to the end, from the page cache, as
consumers that keep up do. Clients: librdkafka in large lists, or `raw`: Fetch requests whose answers are received
and walked batch by batch, never record by record.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Sequence

import attrs
from confluent_kafka import Consumer, TopicPartition

from barnabas.bench.frames import CLIENT_ID
from barnabas.bench.produce import LIST_LENGTH as FED_AT_ONCE
from barnabas.bench.produce import ProduceCase, ProducerPlan, produce_with_librdkafka
from barnabas.bench.sample import Sample
from barnabas.bench.target import Target
from barnabas.bench.topics import temporary_topic
from barnabas.bench.workers import Begin, Tally, run_workers
from barnabas.errors import UserError
from kafka_wire import batches
from kafka_wire.apis import Api
from kafka_wire.messages import decode_response, encode_request
from kafka_wire.schema import fetch

RAW_VERSION = 12  # the last one that names topics
LIST_LENGTH = 10_000
MAX_BYTES = 50 * 1024 * 1024
_QUEUE_MESSAGES = 1_000_000
_QUEUE_KBYTES = 512 * 1024
_SILENCE_SECONDS = 20.0


@attrs.frozen(slots=True, kw_only=True)
class FetchCase:
    """What to read: `messages` in all, spread over the partitions."""

    partitions: int = 1
    size: int = 200
    codec: str = "none"
    messages: int = 2_000_000
    processes: int = 1
    client: str = "librdkafka"
    partition_bytes: int = 1024 * 1024

    @property
    def per_partition(self) -> int:
        """Messages in each partition."""
        return -(-self.messages // self.partitions)


@attrs.frozen(slots=True)
class ConsumerPlan:
    """One consuming process: the partitions that it reads."""

    bootstrap: str
    address: tuple[str, int]
    topic: str
    partitions: Sequence[int]
    case: FetchCase


@contextlib.contextmanager
def filled_topic(target: Target, case: FetchCase) -> Iterator[str]:
    """A topic with the messages of the case in it."""
    with temporary_topic(target, case.partitions) as topic:
        load = ProduceCase(partitions=case.partitions, size=case.size, codec=case.codec, warm_up=0.0)
        # Whole lists go round the partitions, so this many fill each of them to `per_partition` at least.
        wanted = -(-case.per_partition // FED_AT_ONCE) * FED_AT_ONCE * case.partitions
        run_workers(target, produce_with_librdkafka, [ProducerPlan(target.bootstrap, topic, load, wanted)])
        yield topic


def measure_fetch(target: Target, topic: str, case: FetchCase) -> Sample:
    """One run through a topic that `filled_topic` made."""
    processes = min(case.processes, case.partitions)
    plans = [
        ConsumerPlan(target.bootstrap, target.address, topic, range(index, case.partitions, processes), case)
        for index in range(processes)
    ]
    run = run_workers(target, fetch_raw if case.client == "raw" else fetch_with_librdkafka, plans)
    return Sample(
        seconds=run.seconds,
        operations=run.operations,
        bytes=run.bytes,
        broker_cpu=run.broker_cpu,
        client_cpu=run.client_cpu,
    )


def fetch_with_librdkafka(plan: ConsumerPlan, begin: Begin) -> Tally:
    """The worker: reads its partitions to the wanted number; connected before `begin`."""
    case = plan.case
    consumer = Consumer(
        {
            "bootstrap.servers": plan.bootstrap,
            "group.id": "barnabas-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.min.messages": _QUEUE_MESSAGES,
            "queued.max.messages.kbytes": _QUEUE_KBYTES,
            "fetch.message.max.bytes": case.partition_bytes,
            "log_level": 2,
        }
    )
    try:
        consumer.list_topics(plan.topic, timeout=_SILENCE_SECONDS)
        wanted = case.per_partition * len(plan.partitions)
        begin()
        consumer.assign([TopicPartition(plan.topic, partition, 0) for partition in plan.partitions])
        got, last = 0, time.monotonic()
        while got < wanted:
            # Never more than are to come: it waits until it has them all, or its time is up.
            messages = consumer.consume(min(LIST_LENGTH, wanted - got), 0.5)
            if messages:
                last = time.monotonic()
                if (error := messages[-1].error()) is not None:
                    raise UserError(f"a consumer got an error: {error.str()}")
                got += len(messages)
            elif time.monotonic() - last > _SILENCE_SECONDS:
                raise UserError(f"a consumer got {got} of {wanted} messages, then none for {_SILENCE_SECONDS:g} s")
        return Tally(got, got * case.size)
    finally:
        consumer.close()


def fetch_raw(plan: ConsumerPlan, begin: Begin) -> Tally:
    """The worker: one connection, one request at a time over all its partitions."""
    case, offsets = plan.case, dict.fromkeys(plan.partitions, 0)
    wanted = case.per_partition * len(plan.partitions)
    buffer = memoryview(bytearray(MAX_BYTES + case.partition_bytes * len(plan.partitions)))
    with socket.create_connection(plan.address, _SILENCE_SECONDS) as connection:
        begin()
        got, last = 0, time.monotonic()
        while got < wanted:
            connection.sendall(_fetch_request(plan.topic, offsets, case))
            size = _receive_answer(connection, buffer)
            _, body = decode_response(Api.FETCH, RAW_VERSION, buffer[:size])
            for answer in body.responses[0].partitions:
                if answer.error_code:
                    raise UserError(f"the broker answered a Fetch with error {answer.error_code}")
                after = _after(answer.records, offsets[answer.partition_index])
                if after > offsets[answer.partition_index]:
                    got += after - offsets[answer.partition_index]
                    offsets[answer.partition_index], last = after, time.monotonic()
            if time.monotonic() - last > _SILENCE_SECONDS:
                raise UserError(f"a consumer got {got} of {wanted} messages, then none for {_SILENCE_SECONDS:g} s")
        return Tally(got, got * case.size)


def _after(records: memoryview | None, offset: int) -> int:
    """The offset after the last whole batch of an answer."""
    position = 0
    while records is not None and position + batches.HEADER_SIZE <= len(records):
        header = batches.read_header(records, position)
        position += header.size
        if position > len(records):
            break
        offset = header.next_offset
    return offset


def _fetch_request(topic: str, offsets: dict[int, int], case: FetchCase) -> bytes:
    wanted = [
        fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=case.partition_bytes)
        for partition, offset in offsets.items()
    ]
    body = fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=MAX_BYTES, topics=[fetch.FetchTopic(topic=topic, partitions=wanted)]
    )
    return b"".join(map(bytes, encode_request(Api.FETCH, RAW_VERSION, 1, CLIENT_ID, body)))


def _receive_answer(connection: socket.socket, buffer: memoryview) -> int:
    """Size of the answer that now stands at the buffer's start, without its length field."""
    _receive_exactly(connection, buffer[:4])
    (size,) = struct.unpack(">i", buffer[:4])
    if size > len(buffer):
        raise UserError(f"the broker sent {size} bytes, more than was asked for")
    _receive_exactly(connection, buffer[:size])
    return int(size)


def _receive_exactly(connection: socket.socket, view: memoryview) -> None:
    position = 0
    while position < len(view):
        received = connection.recv_into(view[position:])
        if not received:
            raise UserError("the broker closed the connection in the middle of the run")
        position += received
