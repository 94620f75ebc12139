"""What clients rely on beyond single calls: long polls, limits, errors, idempotence, timestamps, topics on demand."""

# The types of confluent-kafka name few of its exports.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from integration.admin import admin_client, create_topic
from integration.clients.base import Record
from integration.clients.confluent import ConfluentKafka
from integration.clients.kafka_python import KafkaPython
from integration.conftest import BrokerFactory, fresh_name
from integration.processes import AnyBroker
from integration.raw import RawConnection
from kafka_wire.apis import SPOKEN, Api
from kafka_wire.batches import walk
from kafka_wire.records import Record as WireRecord
from kafka_wire.records import decode_batches, encode_batch
from kafka_wire.schema.api_versions import ApiVersionsRequest
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.schema.init_producer_id import InitProducerIdRequest
from kafka_wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

FETCH_VERSION = 12
PRODUCE_VERSION = 9


@pytest.fixture
def topic(broker: AnyBroker) -> str:
    """A fresh topic with one partition."""
    name = fresh_name("behaviour")
    create_topic(broker.bootstrap, name)
    return name


def fetch(
    topic: str,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_bytes: int = 1 << 20,
) -> FetchRequest:
    """A sessionless fetch of partition 0."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=partition_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=(FetchTopic(topic=topic, partitions=(partition,)),),
    )


def only_partition(answer: Any) -> Any:
    """The data of the only partition of a fetch or produce answer."""
    (entry,) = answer.responses
    (partition,) = entry.partitions if hasattr(entry, "partitions") else entry.partition_responses
    return partition


def produce(topic: str, batch: bytes, acks: int = -1) -> ProduceRequest:
    """One batch for partition 0."""
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=(data,))


def plain_batch(*values: bytes, **fields: Any) -> bytes:
    """An uncompressed batch."""
    now = int(time.time() * 1000)
    return bytes(encode_batch([WireRecord(0, now, None, value) for value in values], **fields))


def test_long_poll_answers_as_soon_as_there_is_data(broker: AnyBroker, topic: str) -> None:
    """A fetch that may wait ten seconds comes back right after the record."""
    with RawConnection(broker.host, broker.port, 20) as consumer:
        consumer.send(Api.FETCH, FETCH_VERSION, fetch(topic, 0, max_wait_ms=10_000))
        time.sleep(0.5)
        started = time.monotonic()
        with RawConnection(broker.host, broker.port) as producer:
            producer.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"now")))
        _, answer = consumer.receive(Api.FETCH, FETCH_VERSION)
        elapsed = time.monotonic() - started
    assert [record.value for record in decode_batches(bytes(only_partition(answer).records))] == [b"now"]
    assert elapsed < 2.0


def test_long_poll_without_data_lasts_as_long_as_asked(broker: AnyBroker, topic: str) -> None:
    """And then answers with nothing."""
    with RawConnection(broker.host, broker.port) as consumer:
        started = time.monotonic()
        answer = consumer.ask(Api.FETCH, FETCH_VERSION, fetch(topic, 0, max_wait_ms=700))
        elapsed = time.monotonic() - started
    assert not only_partition(answer).records
    assert 0.65 < elapsed < 3.0


def test_long_poll_waits_for_its_minimum(broker: AnyBroker, topic: str) -> None:
    """One small record is not enough for a kilobyte; the second, larger one is."""
    with RawConnection(broker.host, broker.port, 20) as consumer, RawConnection(broker.host, broker.port) as producer:
        consumer.send(Api.FETCH, FETCH_VERSION, fetch(topic, 0, max_wait_ms=10_000, min_bytes=1024))
        producer.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"small")))
        time.sleep(0.3)
        producer.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"x" * 2000)))
        _, answer = consumer.receive(Api.FETCH, FETCH_VERSION)
    assert len(list(decode_batches(bytes(only_partition(answer).records)))) == 2


def test_max_bytes_bound_an_answer_but_one_batch_always_comes(broker: AnyBroker, topic: str) -> None:
    """Batches of ten kilobytes: a limit of 25 KB gives two or less, a limit of 100 bytes still gives one."""
    with RawConnection(broker.host, broker.port) as connection:
        for _ in range(5):
            connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"x" * 10_000)))

        def batches(**limits: int) -> int:
            answer = connection.ask(Api.FETCH, FETCH_VERSION, fetch(topic, 0, **limits))
            records = bytes(only_partition(answer).records)
            assert len(records) <= 25_000
            whole = 0
            while whole < len(records) and (rest := len(records) - whole) >= 61:
                size = int.from_bytes(records[whole + 8 : whole + 12], "big") + 12
                if size > rest:
                    break
                whole += size
            return sum(1 for _ in walk(records, 0, whole))

        assert batches(partition_bytes=25_000) == 2
        assert batches(max_bytes=25_000) == 2
        assert batches(partition_bytes=100) == 1
        assert batches(max_bytes=100) == 1


def test_fetch_outside_the_log_is_out_of_range(broker: AnyBroker, topic: str) -> None:
    """Beyond the end, at once, although it may wait."""
    with RawConnection(broker.host, broker.port) as connection:
        started = time.monotonic()
        answer = connection.ask(Api.FETCH, FETCH_VERSION, fetch(topic, 5, max_wait_ms=5000))
        assert only_partition(answer).error_code == 1
        assert time.monotonic() - started < 2.0


def test_consumer_out_of_range_resets(broker: AnyBroker, topic: str) -> None:
    """kafka-python's auto_offset_reset acts on the broker's error."""
    KafkaPython().write(broker.bootstrap, topic, [Record(None, b"only")], "none")
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    try:
        partition = PythonTopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 1000)
        message = next(consumer)
        assert (message.offset, message.value) == (0, b"only")
    finally:
        consumer.close()


def _deliver(bootstrap: str, topic: str, value: bytes, **settings: Any) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _message: outcome.append(error))
    producer.flush(20)
    (error,) = outcome
    return error


def test_message_above_the_default_limit_is_refused(broker: AnyBroker, topic: str) -> None:
    """MESSAGE_TOO_LARGE, and the next one goes through."""
    error = _deliver(broker.bootstrap, topic, b"x" * 1_100_000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert _deliver(broker.bootstrap, topic, b"x" * 1_000_000) is None


def test_raised_limit_of_a_topic_lets_large_messages_through(broker: AnyBroker) -> None:
    """Three megabytes, produced and consumed."""
    name = fresh_name("large")
    create_topic(broker.bootstrap, name, config={"max.message.bytes": "4000000"})
    assert _deliver(broker.bootstrap, name, b"x" * 3_000_000) is None
    (received,) = ConfluentKafka().read(broker.bootstrap, name, 1)
    assert received.value == b"x" * 3_000_000
    (received,) = KafkaPython().read(broker.bootstrap, name, 1)
    assert received.value == b"x" * 3_000_000


def test_log_append_time_is_the_brokers_clock(broker: AnyBroker) -> None:
    """Whatever the producer said; the acknowledgement carries it too."""
    name = fresh_name("append-time")
    create_topic(broker.bootstrap, name, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    ConfluentKafka().write(broker.bootstrap, name, [Record(None, b"x", (), 1_000)] * 3, "lz4")
    after = int(time.time() * 1000)

    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(name, plain_batch(b"y")))
    assert only_partition(answer).log_append_time_ms >= before
    for reader in (ConfluentKafka(), KafkaPython()):
        received = reader.read(broker.bootstrap, name, 4)
        assert all(before <= record.timestamp <= after for record in received[:3])


def test_idempotent_batch_sent_twice_is_stored_once(broker: AnyBroker, topic: str) -> None:
    """A retry gets the first answer; a gap in the sequence is refused."""
    with RawConnection(broker.host, broker.port) as connection:
        begun = connection.ask(Api.INIT_PRODUCER_ID, 1, InitProducerIdRequest(transactional_id=None))
        assert begun.error_code == 0
        identity = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}

        def send(sequence: int, value: bytes) -> tuple[int, int]:
            batch = plain_batch(value, base_sequence=sequence, **identity)
            partition = only_partition(connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, batch)))
            return partition.error_code, partition.base_offset

        assert send(0, b"a") == (0, 0)
        assert send(1, b"b") == (0, 1)
        assert send(1, b"b") == (0, 1)
        assert send(0, b"a") == (0, 0)
        assert send(7, b"gap")[0] == 45
        assert send(2, b"c") == (0, 2)
    assert [record.value for record in KafkaPython().read(broker.bootstrap, topic, 3)] == [b"a", b"b", b"c"]


def test_damaged_batch_is_refused_and_not_stored(broker: AnyBroker, topic: str) -> None:
    """A CRC that does not fit is CORRUPT_MESSAGE."""
    batch = bytearray(plain_batch(b"intact"))
    batch[-1] ^= 1
    with RawConnection(broker.host, broker.port) as connection:
        refused = only_partition(connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, bytes(batch))))
        assert refused.error_code == 2
        stored = only_partition(connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"good"))))
        assert (stored.error_code, stored.base_offset) == (0, 0)


def test_acks_zero_gets_no_answer(broker: AnyBroker, topic: str) -> None:
    """The next answer on the connection belongs to the next request."""
    with RawConnection(broker.host, broker.port) as connection:
        for _ in range(3):
            connection.send(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"x"), acks=0))
        answer = connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(topic, plain_batch(b"y")))
        assert only_partition(answer).base_offset == 3


def test_answers_come_in_the_order_of_requests(broker: AnyBroker, topic: str) -> None:
    """A long poll holds back what was asked after it on the same connection."""
    with RawConnection(broker.host, broker.port) as connection:
        waiting = connection.send(Api.FETCH, FETCH_VERSION, fetch(topic, 0, max_wait_ms=600))
        quick = connection.send(Api.METADATA, 9, MetadataRequest(topics=()))
        assert connection.receive(Api.FETCH, FETCH_VERSION)[0] == waiting
        assert connection.receive(Api.METADATA, 9)[0] == quick


def test_api_versions_newer_than_ours_is_answered_in_version_0(broker: AnyBroker) -> None:
    """Error 35 and the versions, so that the client can try again; the connection stays."""
    with RawConnection(broker.host, broker.port) as connection:
        request = bytes.fromhex("0012 0063 00000007 0003") + b"raw" + b"\0\0\0\0"
        connection.socket.sendall(len(request).to_bytes(4, "big") + request)
        correlation_id, answer = connection.receive(Api.API_VERSIONS, 0)
        assert (correlation_id, answer.error_code) == (7, 35)
        assert any(entry.api_key == Api.API_VERSIONS for entry in answer.api_keys)
        assert connection.ask(Api.API_VERSIONS, 3, _software()).error_code == 0


def _software() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")


def test_unknown_topic_is_an_error_of_its_own(broker: AnyBroker) -> None:
    """For producing, fetching and metadata without creation."""
    name = fresh_name("absent")
    with RawConnection(broker.host, broker.port) as connection:
        assert only_partition(connection.ask(Api.FETCH, FETCH_VERSION, fetch(name, 0))).error_code == 3
        answer = connection.ask(Api.PRODUCE, PRODUCE_VERSION, produce(name, plain_batch(b"x")))
        assert only_partition(answer).error_code == 3
        request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        assert connection.ask(Api.METADATA, 9, request).topics[0].error_code == 3


def test_topic_is_made_on_demand(broker: AnyBroker) -> None:
    """auto.create.topics.enable is on by default; an invalid name is refused even so."""
    name = fresh_name("on-demand")
    assert KafkaPython().write(broker.bootstrap, name, [Record(b"k", b"v")], "none") == [0]
    with RawConnection(broker.host, broker.port) as connection:
        request = MetadataRequest(topics=(MetadataRequestTopic(name="no spaces"),), allow_auto_topic_creation=True)
        assert connection.ask(Api.METADATA, 9, request).topics[0].error_code == 17


def test_topic_is_not_made_on_demand_where_that_is_off(brokers: BrokerFactory) -> None:
    """The producer hears that the topic is unknown."""
    private = brokers({"auto.create.topics.enable": "false"})
    private.start()
    name = fresh_name("refused")
    error = _deliver(private.bootstrap, name, b"x", **{"message.timeout.ms": 3000})
    assert error is not None
    assert error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT)
    assert name not in admin_client(private.bootstrap).list_topics(timeout=10).topics


def test_consumer_of_an_unknown_topic_hears_so(broker: AnyBroker) -> None:
    """librdkafka passes the broker's error on, once it has asked twice."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "allow.auto.create.topics": False,
            "topic.metadata.propagation.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 300,
        }
    )
    try:
        with pytest.raises(KafkaException) as caught:
            consumer.get_watermark_offsets(TopicPartition(fresh_name("absent"), 0), timeout=5)
        codes = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
        assert caught.value.args[0].code() in codes
    finally:
        consumer.close()


def test_producer_and_consumer_at_the_same_time_lose_nothing(broker: AnyBroker) -> None:
    """A consumer follows a busy producer over three partitions; order per partition, every record once."""
    name, count = fresh_name("follow"), 20_000
    create_topic(broker.bootstrap, name, 3)
    seen: dict[int, list[bytes]] = {0: [], 1: [], 2: []}

    def consume() -> None:
        settings = {"group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        consumer: Any = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
        consumer.assign([TopicPartition(name, partition, 0) for partition in seen])
        deadline = time.monotonic() + 40
        while sum(map(len, seen.values())) < count and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None, message.error()
                assert message.offset() == len(seen[message.partition()])
                seen[message.partition()].append(message.value())
        consumer.close()

    follower = threading.Thread(target=consume)
    follower.start()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "compression.type": "snappy"}
    )
    for number in range(count):
        producer.produce(name, b"%d" % number, partition=number % 3)
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0
    follower.join(60)
    assert seen == {partition: [b"%d" % number for number in range(partition, count, 3)] for partition in seen}


def test_list_offsets_0_answers_in_its_old_way(broker: AnyBroker, topic: str) -> None:
    """Burrow of Debian still asks so: a list of offsets, newest first."""
    if 0 not in _versions(broker, Api.LIST_OFFSETS):
        pytest.skip("this broker does not speak ListOffsets 0")
    KafkaPython().write(broker.bootstrap, topic, [Record(None, b"x")] * 5, "none")
    with RawConnection(broker.host, broker.port) as connection:

        def offsets(timestamp: int) -> list[int]:
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1)
            request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),))
            answer = connection.ask(Api.LIST_OFFSETS, 0, request).topics[0].partitions[0]
            assert answer.error_code == 0
            return list(answer.old_style_offsets)

        assert offsets(-1) == [5]
        assert offsets(-2) == [0]


def _versions(broker: AnyBroker, api: Api) -> range:
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask(Api.API_VERSIONS, 0, ApiVersionsRequest())
    (found,) = (entry for entry in answer.api_keys if entry.api_key == api)
    return range(found.min_version, found.max_version + 1)


def test_every_version_of_produce_and_fetch_carries_the_same_records(broker: AnyBroker) -> None:
    """One record by each version of Produce; each version of Fetch reads them all, by name or by topic id."""
    name = fresh_name("versions")
    create_topic(broker.bootstrap, name)
    produce_versions = [version for version in _versions(broker, Api.PRODUCE) if version in _spoken(Api.PRODUCE)]
    with RawConnection(broker.host, broker.port) as connection:
        for version in produce_versions:
            answer = connection.ask(Api.PRODUCE, version, produce(name, plain_batch(b"%d" % version)))
            assert only_partition(answer).error_code == 0, f"Produce {version}"
        described = connection.ask(Api.METADATA, 12, MetadataRequest(topics=(MetadataRequestTopic(name=name),)))
        topic_id = described.topics[0].topic_id
        for version in _versions(broker, Api.FETCH):
            if version not in _spoken(Api.FETCH):
                continue
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            wanted = FetchTopic(topic=name, topic_id=topic_id, partitions=(partition,))
            answer = connection.ask(Api.FETCH, version, FetchRequest(max_wait_ms=0, topics=(wanted,)))
            values = [record.value for record in decode_batches(bytes(only_partition(answer).records))]
            assert values == [b"%d" % sent for sent in produce_versions], f"Fetch {version}"


def _spoken(api: Api) -> range:
    return range(SPOKEN[api][0], SPOKEN[api][1] + 1)


def test_topic_made_again_has_a_new_id_and_no_old_records(broker: AnyBroker, topic: str) -> None:
    """What was deleted does not come back, and a fetch by the old id is refused."""
    KafkaPython().write(broker.bootstrap, topic, [Record(None, b"old")] * 3, "none")
    question = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    with RawConnection(broker.host, broker.port) as connection:
        old_id = connection.ask(Api.METADATA, 12, question).topics[0].topic_id
        client = admin_client(broker.bootstrap)
        client.delete_topics([topic], operation_timeout=30)[topic].result(30)
        _create_again(broker, topic)
        assert connection.ask(Api.METADATA, 12, question).topics[0].topic_id != old_id
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        by_id = FetchRequest(max_wait_ms=0, topics=(FetchTopic(topic_id=old_id, partitions=(partition,)),))
        assert only_partition(connection.ask(Api.FETCH, 13, by_id)).error_code == 100
    assert KafkaPython().write(broker.bootstrap, topic, [Record(None, b"new")], "none") == [0]
    assert [record.value for record in KafkaPython().read(broker.bootstrap, topic, 1)] == [b"new"]


def _create_again(broker: AnyBroker, topic: str) -> None:
    """As soon as the broker lets it: Kafka deletes in the background and refuses the name until it is done."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return create_topic(broker.bootstrap, topic)
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_retention_by_size_deletes_whole_old_segments(broker: AnyBroker) -> None:
    """The setting is taken live: the earliest offset moves, the newest records stay."""
    name = fresh_name("retention")
    create_topic(broker.bootstrap, name, config={"segment.bytes": "50000", "file.delete.delay.ms": "100"})
    for _ in range(10):
        KafkaPython().write(broker.bootstrap, name, [Record(None, b"x" * 9000)] * 5, "none")
    client = admin_client(broker.bootstrap)
    change = ConfigEntry("retention.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
    client.incremental_alter_configs([resource])[resource].result(30)

    consumer: Any = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        deadline = time.monotonic() + 40
        low, high = 0, 0
        while low == 0:
            assert time.monotonic() < deadline, "nothing was deleted"
            time.sleep(0.2)
            low, high = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=10)
        assert high == 50
        assert 50 - low >= 100_000 // 9100 - 1, "more was deleted than the setting says"
    finally:
        consumer.close()
