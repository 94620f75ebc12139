"""The clients of kafka_wire, Twisted and blocking, against a real broker: many requests at once, loss, reconnection."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from integration.admin import create_topic
from integration.conftest import BrokerFactory, fresh_name
from integration.processes import AnyBroker
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster
from kafka_wire.cluster import Cluster
from kafka_wire.errors import BrokerNotAvailable, NetworkException, RequestTimedOut, UnknownTopicOrPartition
from kafka_wire.ids import TopicPartition
from kafka_wire.records import Record, decode_batches, encode_batch
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.schema.metadata import MetadataRequest
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def in_reactor(bootstrap: str, step: Callable[[Any, Cluster], Awaitable[Any]], timeout: float = 10.0) -> Any:
    """The result of a coroutine that gets a reactor of its own and a cluster object."""
    make: Any = SelectReactor
    reactor = make()
    results: list[Any] = []

    async def whole() -> Any:
        cluster = Cluster(reactor, bootstrap, timeout=timeout)
        try:
            return await step(reactor, cluster)
        finally:
            cluster.close()

    def end(result: Any) -> None:
        results.append(result)
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(whole()).addBoth(end))
    reactor.callLater(60.0, reactor.stop)
    reactor.run(installSignalHandlers=False)
    [result] = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


def produce(topic: str, values: list[bytes], acks: int = -1) -> ProduceRequest:
    batch = encode_batch([Record(0, 1_700_000_000_000, None, value) for value in values])
    return ProduceRequest(None, acks, 10_000, (TopicProduceData(topic, (PartitionProduceData(0, batch),)),))


def fetch(topic: str, topic_id: bytes, offset: int, max_wait_ms: int = 100) -> FetchRequest:
    partition = FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic_id, (partition,), topic),)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)


def values_of(response: Any) -> list[bytes | None]:
    return [record.value for record in decode_batches(response.responses[0].partitions[0].records or b"")]


@pytest.fixture
def topic(broker: AnyBroker) -> str:
    """A topic of one partition, which keeps messages of whatever age."""
    name = fresh_name("wire")
    create_topic(broker.bootstrap, name, config={"retention.ms": "-1"})
    return name


def test_twisted_client_has_many_requests_under_way(broker: AnyBroker, topic: str) -> None:
    """A hundred Produce requests without waiting, stored in the order in which they were made."""

    async def step(_reactor: Any, cluster: Cluster) -> Any:
        leader = await cluster.leader(TopicPartition(topic, 0))
        asked = [cluster.request(Api.PRODUCE, produce(topic, [b"%d" % number]), leader) for number in range(100)]
        answers = await DeferredList(asked, fireOnOneErrback=True)
        offsets = [answer.responses[0].partition_responses[0].base_offset for _, answer in answers]
        return offsets, await cluster.request(Api.FETCH, fetch(topic, cluster.view.topic(topic).topic_id, 0), leader)

    offsets, fetched = in_reactor(broker.bootstrap, step)
    assert offsets == list(range(100))
    assert values_of(fetched) == [b"%d" % number for number in range(100)]


def test_twisted_client_goes_on_without_acks(broker: AnyBroker, topic: str) -> None:
    """A Produce without answer leaves the order of answers alone."""

    async def step(_reactor: Any, cluster: Cluster) -> Any:
        leader = await cluster.leader(TopicPartition(topic, 0))
        silent = await cluster.request(Api.PRODUCE, produce(topic, [b"a"], acks=0), leader)
        stored = await cluster.request(Api.PRODUCE, produce(topic, [b"b"]), leader)
        return silent, stored.responses[0].partition_responses[0].base_offset

    assert in_reactor(broker.bootstrap, step) == (None, 1)


def test_twisted_client_times_out_and_recovers(broker: AnyBroker, topic: str) -> None:
    """A long poll beyond the time-out costs the connection; the next request has a new one."""

    async def step(_reactor: Any, cluster: Cluster) -> Any:
        leader = await cluster.leader(TopicPartition(topic, 0))
        body = fetch(topic, cluster.view.topic(topic).topic_id, 0, max_wait_ms=5_000)
        with pytest.raises(RequestTimedOut):
            await cluster.request(Api.FETCH, body, leader, timeout=0.3)
        return await cluster.request(Api.METADATA, MetadataRequest(topics=()), leader)

    assert in_reactor(broker.bootstrap, step).cluster_id


def test_twisted_client_names_what_there_is_not(broker: AnyBroker) -> None:
    """Unknown topics, unknown brokers and nobody there."""

    async def step(_reactor: Any, cluster: Cluster) -> None:
        with pytest.raises(UnknownTopicOrPartition):
            await cluster.leader(TopicPartition(fresh_name("none"), 0))
        with pytest.raises(BrokerNotAvailable):
            await cluster.request(Api.METADATA, MetadataRequest(topics=()), 4711)

    in_reactor(f"127.0.0.1:1,{broker.bootstrap}", step)

    async def nobody(_reactor: Any, cluster: Cluster) -> None:
        with pytest.raises(NetworkException, match=r"127\.0\.0\.1:1"):
            await cluster.metadata()

    in_reactor("127.0.0.1:1", nobody)


def test_twisted_client_connects_again_to_a_broker_that_came_back(brokers: BrokerFactory) -> None:
    """What was under way when it was killed fails; later requests are answered by its next life."""
    private = brokers()
    private.start()
    create_topic(private.bootstrap, "t", config={"retention.ms": "-1"})

    async def step(reactor: Any, cluster: Cluster) -> Any:
        leader = await cluster.leader(TopicPartition("t", 0))
        topic_id = cluster.view.topic("t").topic_id
        under_way = cluster.request(Api.FETCH, fetch("t", topic_id, 0, max_wait_ms=8_000), leader)
        await deferLater(reactor, 0.5)
        private.kill()
        with pytest.raises(NetworkException):
            await under_way
        private.start()
        while True:
            try:
                return await cluster.request(Api.PRODUCE, produce("t", [b"back"]), leader)
            except NetworkException:
                await deferLater(reactor, 0.05)

    response = in_reactor(private.bootstrap, step)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_blocking_client_has_several_fetches_under_way(broker: AnyBroker, topic: str) -> None:
    """Pipelined on one connection, answered in order, while other requests go their own way."""
    with BlockingCluster(broker.bootstrap) as cluster:
        leader = cluster.leader(TopicPartition(topic, 0))
        for number in range(3):
            cluster.request(Api.PRODUCE, produce(topic, [b"%d" % number]), leader)
        topic_id = cluster.view.topic(topic).topic_id
        with cluster.connect(leader) as own:
            for offset in (2, 1, 0):
                own.send(Api.FETCH, fetch(topic, topic_id, offset))
            assert cluster.metadata(refresh=True).cluster_id
            assert [values_of(own.receive().body)[-1:] for _ in range(3)] == [[b"2"], [b"2"], [b"2"]]
