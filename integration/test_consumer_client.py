"""The public consumer against a real broker and a real ZooKeeper: what its methods promise."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions
from kazoo.client import KazooClient

from consumer_group import Consumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from consumer_group.errors import (
    CommitFailedError,
    GroupRefusedError,
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from integration.admin import admin_client, create_topic
from integration.conftest import fresh_name
from integration.processes import Broker
from integration.tools import ROOT
from zk_schema import paths
from zk_schema.group_nodes import PROTOCOL, GroupKind, StoredGroup, StoredMember

WAIT = 20.0
BASE_TIME = round(time.time() * 1000) - 60_000
"""Of the first message; younger than any retention."""


class World:
    """A broker, and consumers that are closed at the end."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.made: list[Consumer] = []
        self.topic = fresh_name("topic")
        self.group = fresh_name("group")

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A member of the group."""
        named: dict[str, Any] = {
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 4000,
            "zookeeper_connect": self.broker.zookeeper,
        }
        self.made.append(Consumer(*topics, **{**named, **settings}))
        return self.made[-1]

    def fill(self, count: int, partitions: int = 1, topic: str | None = None, create: bool = True) -> None:
        """A topic with so many messages in each partition; the values are their offsets."""
        name = topic or self.topic
        if create:
            create_topic(self.broker.bootstrap, name, partitions)
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for number in range(count):
            for partition in range(partitions):
                producer.produce(name, b"%d" % number, partition=partition, timestamp=BASE_TIME + number)
        producer.flush(WAIT)

    def partition(self, index: int = 0) -> TopicPartition:
        """Of the topic."""
        return TopicPartition(self.topic, index)


@pytest.fixture
def world(own_broker: Broker) -> Iterator[World]:
    """A world with a topic name and a group of its own."""
    world = World(own_broker)
    yield world
    for consumer in world.made:
        consumer.close(timeout_ms=5000)


def read(consumer: Consumer, count: int, seconds: float = WAIT) -> list[Any]:
    """So many records, or all that came in time."""
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(100).values():
            found += records
    return found


def until(condition: Callable[[], bool], *pollers: Consumer, seconds: float = WAIT) -> None:
    """Polls these until something is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        for consumer in pollers:
            consumer.poll(20)
        if not pollers:
            time.sleep(0.02)


def test_member_leaves_and_comes_back_it_goes_on_where_it_stopped(world: World) -> None:
    """Closing commits what was handled."""
    world.fill(10)
    first = world.consumer(world.topic)
    assert [record.value for record in read(first, 10)] == [b"%d" % n for n in range(10)]
    first.close()
    world.fill(3, create=False)
    assert [record.offset for record in read(world.consumer(world.topic), 3)] == [10, 11, 12]


def test_iteration_left_by_an_exception_the_record_in_hand_comes_again(world: World) -> None:
    """At least once: a record whose handling failed is not committed."""
    world.fill(5)

    def handle_three() -> None:
        with world.consumer(world.topic, consumer_timeout_ms=15_000) as consumer:
            for record in consumer:
                if record.offset == 3:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle_three()
    assert read(world.consumer(world.topic), 2)[0].offset == 3


def test_all_ways_to_iterate_agree(world: World) -> None:
    """Records, values and batches."""
    world.fill(40, 2)
    values = sorted(b"%d" % n for n in range(40) for _ in range(2))
    consumer = world.consumer(world.topic, consumer_timeout_ms=3000)
    assert sorted(record.value or b"" for record in consumer) == values
    for way in ("values", "batches"):
        other = world.consumer(world.topic, group_id=fresh_name("group"), consumer_timeout_ms=3000)
        if way == "values":
            seen = list(other.values())
        else:
            seen = [value for batch in other.batches() for value in batch.values]
        assert sorted(value or b"" for value in seen) == values


def test_commit_by_hand_committed_and_position(world: World) -> None:
    """kafka-python's meanings: `commit()` commits what was delivered."""
    world.fill(10)
    consumer = world.consumer(world.topic, enable_auto_commit=False, max_poll_records=4)
    assert len(read(consumer, 4)) == 4
    assert consumer.position(world.partition()) == 4
    assert consumer.committed(world.partition()) == 0
    consumer.commit()
    assert consumer.committed(world.partition()) == 4
    consumer.commit({world.partition(): OffsetAndMetadata(6, "mine")})
    assert consumer.committed(world.partition()) == 6
    with pytest.raises(IllegalStateError, match="seek"):
        consumer.commit({world.partition(): OffsetAndMetadata(2)})
    consumer.seek(world.partition(), 2)
    consumer.commit()
    assert consumer.committed(world.partition()) == 2
    done = threading.Event()
    consumer.commit_async({world.partition(): OffsetAndMetadata(3)}, lambda offsets, error: done.set())
    assert done.wait(WAIT)
    with pytest.raises(CommitFailedError):
        consumer.commit({TopicPartition(world.topic, 99): OffsetAndMetadata(2)})


def test_seek_pause_and_offsets_by_time(world: World) -> None:
    """Positions are the application's to choose."""
    world.fill(10)
    consumer = world.consumer(world.topic)
    read(consumer, 10)
    partition = world.partition()
    consumer.seek(partition, 7)
    assert [record.offset for record in read(consumer, 3)] == [7, 8, 9]
    consumer.pause(partition)
    consumer.seek(partition, 0)
    assert consumer.paused() == {partition}
    assert consumer.poll(500) == {}
    consumer.resume(partition)
    assert [record.offset for record in read(consumer, 10)] == list(range(10))
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    found = consumer.offsets_for_times({partition: BASE_TIME + 4})[partition]
    assert found is not None
    assert found.offset == 4
    assert consumer.offsets_for_times({partition: 99_000_000_000_000}) == {partition: None}
    assert consumer.highwater(partition) == 10
    assert world.topic in consumer.topics()
    assert consumer.partitions_for_topic(world.topic) == {0}
    assert consumer.partitions_for_topic("no-such-topic") is None


def test_listener_is_told_on_the_polling_thread(world: World) -> None:
    """Assigned, revoked when another joins; the partitions of both are all there are."""
    world.fill(1, 4)
    heard: list[tuple[str, int, int]] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            heard.append(("assigned", len(assigned), threading.get_ident()))

        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            heard.append(("revoked", len(revoked), threading.get_ident()))

    first = world.consumer()
    first.subscribe([world.topic], listener=Listener())
    until(lambda: len(first.assignment()) == 4, first)
    second = world.consumer(world.topic)
    until(lambda: len(second.assignment()) == 2 and len(first.assignment()) == 2, first, second)
    assert sum(count for kind, count, _ in heard if kind == "assigned") == 4
    assert [(kind, count) for kind, count, _ in heard if kind == "revoked"] == [("revoked", 2)]
    assert {thread for _, _, thread in heard} == {threading.get_ident()}
    assert not first.assignment() & second.assignment()


def test_listener_may_commit_while_the_consumer_closes(world: World) -> None:
    """`revoked` is the last chance, and works as one."""
    world.fill(3)
    consumer = world.consumer(enable_auto_commit=False)

    class Committing(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            consumer.commit()

    consumer.subscribe([world.topic], listener=Committing())
    assert len(read(consumer, 3)) == 3
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(0)
    world.fill(1, create=False)
    assert [record.offset for record in read(world.consumer(world.topic), 1)] == [3]


def test_streams_share_the_partitions(world: World) -> None:
    """P10: iterators that block, one for each thread, with all messages spread over them."""
    world.fill(20, 4)
    consumer = world.consumer(world.topic)
    streams = consumer.create_streams(2)
    seen: list[list[Any]] = [[], []]

    def follow(number: int) -> None:
        seen[number].extend(streams[number])

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(seen[0]) + len(seen[1]) == 80)
    consumer.close()
    for thread in threads:
        thread.join(WAIT)
    assert [len({record.partition for record in one}) for one in seen] == [2, 2]


def test_pattern_reads_topics_that_appear_later(world: World) -> None:
    """A regular expression is a subscription to what will be."""
    prefix = fresh_name("many")
    world.fill(3, topic=f"{prefix}-a")
    consumer = world.consumer()
    consumer.subscribe(pattern=f"{prefix}-.*")
    assert len(read(consumer, 3)) == 3
    world.fill(3, topic=f"{prefix}-b")
    assert [record.topic for record in read(consumer, 3)] == [f"{prefix}-b"] * 3


def test_topic_grows_and_is_made_anew_the_group_follows(world: World) -> None:
    """New partitions are read; a re-created topic is read from its beginning, not from the old one's offsets (B10)."""
    world.fill(5)
    consumer = world.consumer(world.topic, auto_commit_interval_ms=100)
    assert len(read(consumer, 5)) == 5
    admin = admin_client(world.broker.bootstrap)
    admin.create_partitions([NewPartitions(world.topic, 3)])[world.topic].result(WAIT)
    until(lambda: len(consumer.assignment()) == 3, consumer)
    until(lambda: consumer.committed(world.partition()) == 5, consumer)
    admin.delete_topics([world.topic], operation_timeout=WAIT)[world.topic].result(WAIT)
    until(lambda: not consumer.assignment(), consumer)
    deadline = time.monotonic() + WAIT
    while True:
        try:
            world.fill(2)
            break
        except Exception:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert [record.offset for record in read(consumer, 2)] == [0, 1]


def test_reset_none_raises_instead_of_guessing(world: World) -> None:
    """No offset, or one that the log does not have: the application decides."""
    world.fill(3)
    consumer = world.consumer(world.topic, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError, match="no committed offset"):
        until(lambda: False, consumer)
    consumer.seek(world.partition(), 99)
    with pytest.raises(OffsetOutOfRangeError, match="99"):
        until(lambda: False, consumer)
    consumer.seek(world.partition(), 1)
    assert [record.offset for record in read(consumer, 2)] == [1, 2]


def test_out_of_range_goes_where_the_setting_says(world: World) -> None:
    """`earliest`: back to the first message that there is."""
    world.fill(3)
    consumer = world.consumer(world.topic)
    read(consumer, 3)
    consumer.seek(world.partition(), 5000)
    assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]


def test_B11_latest_is_committed_before_anything_is_delivered(world: World) -> None:
    """A crash before the first commit skips nothing."""
    world.fill(4)
    consumer = world.consumer(world.topic, auto_offset_reset="latest", enable_auto_commit=False)
    until(lambda: bool(consumer.assignment()), consumer)
    assert consumer.committed(world.partition()) == 4
    world.fill(2, create=False)
    assert [record.offset for record in read(consumer, 2)] == [4, 5]


def test_B5_group_of_the_other_kind_is_refused_by_name(world: World) -> None:
    """The two kinds never mix."""
    world.fill(1)
    client = KazooClient(world.broker.zookeeper)
    client.start(WAIT)
    member = StoredMember("x", None, "c", "h", 1000, 1000, (), b"")
    stored = StoredGroup(world.group, 1, "consumer", "range", "x", (member,), 0)
    client.create(stored.path, stored.encode(), makepath=True)
    client.create(paths.group_plan(world.group), GroupKind(world.group, PROTOCOL).encode())
    try:
        with pytest.raises(GroupRefusedError, match="JoinGroup"):
            read(world.consumer(world.topic), 1)
    finally:
        client.stop()
        client.close()


def test_large_and_compressed_batches_come_whole(world: World) -> None:
    """Records above max_partition_fetch_bytes are no end of the road."""
    create_topic(world.broker.bootstrap, world.topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": world.broker.bootstrap, "compression.type": codec})
        producer.produce(world.topic, codec.encode() * 20_000)
        producer.flush(WAIT)
    consumer = world.consumer(world.topic, max_partition_fetch_bytes=1000)
    assert [(record.value or b"")[:4] for record in read(consumer, 5)] == [b"none", b"gzip", b"snap", b"lz4l", b"zstd"]


def test_reader_without_a_group_reads_what_it_is_given(world: World) -> None:
    """`assign`, and topics without a group."""
    world.fill(3, 2)
    consumer = world.consumer(group_id=None)
    consumer.assign([world.partition(1)])
    assert {record.partition for record in read(consumer, 3)} == {1}
    with pytest.raises(IllegalStateError):
        consumer.commit()
    assert len(read(world.consumer(world.topic, group_id=None), 6)) == 6


def test_tools_of_the_zookeeper_age_find_what_they_know(world: World) -> None:
    """The registries are Kafka 0.8's."""
    world.fill(2)
    consumer = world.consumer(world.topic)
    read(consumer, 2)
    consumer.commit()
    client = KazooClient(world.broker.zookeeper)
    client.start(WAIT)
    try:
        [member] = client.get_children(paths.group_ids(world.group))
        registration = json.loads(client.get(paths.group_member(world.group, member))[0])
        assert registration["subscription"] == {world.topic: 1}
        assert client.get(paths.group_owner(world.group, world.topic, 0))[0].decode() == f"{member}-0"
        assert client.get(paths.group_offset(world.group, world.topic, 0))[0] == b"2"
        consumer.close()
        assert client.get_children(paths.group_ids(world.group)) == []
        assert client.get_children(paths.group_owners(world.group, world.topic)) == []
    finally:
        client.stop()
        client.close()


def test_command_line_shares_a_group(world: World) -> None:
    """`barnabas consume --group` prints each message once over two runs."""
    world.fill(10)
    command = [sys.executable, "-m", "barnabas.cli", "consume", world.topic, "--group", world.group]
    command += ["--zookeeper", world.broker.zookeeper, "--from-beginning", "--timeout", "15", "-n"]
    first = subprocess.run([*command, "4"], cwd=ROOT, capture_output=True, timeout=60, check=True)
    second = subprocess.run([*command, "6"], cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert first.stdout.split() == [b"0", b"1", b"2", b"3"]
    assert second.stdout.split() == [b"4", b"5", b"6", b"7", b"8", b"9"]
