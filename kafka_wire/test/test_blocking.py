"""The blocking client over sockets of memory: answers, time-outs, and what it does with a dead connection."""

import socket
from typing import Any

import pytest

from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster, BlockingPeer
from kafka_wire.errors import BrokerNotAvailable, LeaderNotAvailable, NetworkException, RequestTimedOut
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.schema.produce import ProduceRequest
from kafka_wire.test.fake_broker import Answer, FakeBroker, silence


class FakeSocket:
    """Carries bytes to a FakeBroker and back, at most seven at a time; with nothing to read it times out."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.arrived = b""
        self.hung_up = self.closed = False
        self.timeout: float | None = None

    def settimeout(self, timeout: float | None) -> None:
        self.timeout = timeout

    def sendall(self, data: bytes) -> None:
        self.arrived += self.broker.feed(data)

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self.arrived and not self.hung_up:
            raise BlockingIOError if self.timeout == 0 else TimeoutError
        data = self.arrived[: min(size, 7)]
        if not flags & socket.MSG_PEEK:
            self.arrived = self.arrived[len(data) :]
        return data

    def close(self) -> None:
        self.closed = True


class FakeNetwork:
    """Addresses and the brokers behind them; `made` keeps the sockets in order."""

    def __init__(self, **brokers: Answer) -> None:
        self.brokers = brokers
        self.made: list[tuple[str, FakeSocket]] = []

    def connect(self, host: str, _port: int, _timeout: float) -> Any:
        if host not in self.brokers:
            raise ConnectionRefusedError("refused")
        self.made.append((host, FakeSocket(FakeBroker(self.brokers[host]))))
        return self.made[-1][1]

    def hosts(self) -> list[str]:
        return [host for host, _ in self.made]


def metadata(leader: int = 2) -> Answer:
    """A cluster of the brokers one and two with a topic t."""

    def answer(_header: Any, body: Any) -> Any:
        brokers = (
            MetadataResponseBroker(node_id=1, host="one", port=9092),
            MetadataResponseBroker(node_id=2, host="two", port=9092),
        )
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=1)
        there = MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=(partition,))
        names = ["t"] if body.topics is None else [topic.name for topic in body.topics]
        gone = errors.UNKNOWN_TOPIC_OR_PARTITION
        topics = tuple(there if n == "t" else MetadataResponseTopic(error_code=gone, name=n) for n in names)
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)

    return answer


def peer(network: FakeNetwork, host: str = "one") -> BlockingPeer:
    return BlockingPeer(host, 9092, connect=network.connect)


def test_request_is_answered() -> None:
    """A request gets its response, over as many reads as it takes."""
    with peer(FakeNetwork(one=metadata())) as one:
        assert one.request(Api.METADATA, MetadataRequest(topics=None)).cluster_id == "c"
        assert one.request(Api.METADATA, MetadataRequest(topics=())).topics in ((), [])
        assert one.is_usable()
    assert one.closed


def test_produce_without_acks_returns_at_once() -> None:
    """acks=0 gives None and leaves the connection usable."""
    one = peer(FakeNetwork(one=silence))
    assert one.request(Api.PRODUCE, ProduceRequest(acks=0, topic_data=())) is None
    assert one.is_usable()


def test_silence_times_out_and_closes() -> None:
    """No answer is an error, and the late answer can never be taken for another's."""
    network = FakeNetwork(one=silence)
    one = peer(network)
    with pytest.raises(RequestTimedOut):
        one.request(Api.METADATA, MetadataRequest(topics=None))
    assert network.made[0][1].closed
    with pytest.raises(NetworkException):
        one.request(Api.METADATA, MetadataRequest(topics=None))


def test_passed_deadline_times_out_though_bytes_drip() -> None:
    """A broker that sends a little now and then cannot hold a caller beyond the timeout."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    with pytest.raises(RequestTimedOut):
        BlockingPeer("one", 1, timeout=5.0, connect=FakeNetwork(one=silence).connect, clock=clock)


def test_hang_up_and_rubbish_are_network_errors() -> None:
    """A closed connection, impossible bytes and a refused connection are one kind of error."""
    network = FakeNetwork(one=silence)
    gone, odd = peer(network), peer(network)
    network.made[0][1].hung_up = True
    assert not gone.is_usable()
    network.made[1][1].arrived = b"\xff" * 8
    for broken in (gone, odd):
        with pytest.raises(NetworkException):
            broken.request(Api.METADATA, MetadataRequest(topics=None))
        assert broken.closed
    with pytest.raises(NetworkException):
        peer(network, "nowhere")


def test_cluster_asks_the_leader() -> None:
    """Bootstrap, metadata and the leader's own connection, each made once."""
    network = FakeNetwork(boot=metadata(), two=metadata())
    with BlockingCluster("down:1,boot:9092", connect=network.connect) as cluster:
        leader = cluster.leader(TopicPartition("t", 0))
        for _ in range(2):
            cluster.request(Api.METADATA, MetadataRequest(topics=None), leader)
    assert (leader, network.hosts()) == (2, ["boot", "two"])
    assert all(sock.closed for _, sock in network.made)


def test_metadata_is_kept_until_refreshed() -> None:
    """Known topics are not asked for again, unless the caller wants it; all topics only once all were asked for."""
    network = FakeNetwork(one=metadata())
    cluster = BlockingCluster("one:9092", connect=network.connect)
    for _ in range(2):
        cluster.metadata(["t"])
    cluster.metadata(["t"], refresh=True)
    for _ in range(2):
        assert set(cluster.metadata().topics) == {"t"}
    seen = network.made[0][1].broker.seen
    assert [header.api_key for header, _ in seen].count(Api.METADATA) == 3
    assert not any(body.allow_auto_topic_creation for header, body in seen if header.api_key == Api.METADATA)


def test_missing_leader_is_asked_for_once_more() -> None:
    """A partition without a leader is looked up twice, then it is the caller's matter."""
    network = FakeNetwork(one=metadata(leader=-1))
    cluster = BlockingCluster("one:9092", connect=network.connect)
    with pytest.raises(LeaderNotAvailable):
        cluster.leader(TopicPartition("t", 0))
    assert len(network.made[0][1].broker.seen) == 3  # ApiVersions, and Metadata twice


def test_idle_connection_that_the_broker_closed_is_made_again() -> None:
    """A connection that died between requests costs a new one, not an error."""
    network = FakeNetwork(one=metadata())
    cluster = BlockingCluster("one:9092", connect=network.connect)
    cluster.metadata()
    network.made[0][1].hung_up = True
    assert cluster.metadata(refresh=True).cluster_id == "c"
    assert network.hosts() == ["one", "one"]


def test_unreachable_and_unknown_brokers_have_their_errors() -> None:
    """No bootstrap that answers is a network error naming each; an id that nobody has is not available."""
    with pytest.raises(NetworkException, match=r"a:1.*b:2"):
        BlockingCluster("a:1,b:2", connect=FakeNetwork().connect).metadata()
    cluster = BlockingCluster("one:9092", connect=FakeNetwork(one=metadata()).connect)
    with pytest.raises(BrokerNotAvailable):
        cluster.request(Api.METADATA, MetadataRequest(topics=None), 9)
