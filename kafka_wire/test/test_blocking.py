"""The blocking client over sockets of memory: answers, time-outs, and what it does with a dead connection."""

import socket

import pytest

from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster, BlockingPeer, wait_for_any
from kafka_wire.errors import BrokerNotAvailable, LeaderNotAvailable, NetworkException, RequestTimedOut
from kafka_wire.exchange import Exchange, joined
from kafka_wire.ids import TopicPartition
from kafka_wire.schema.metadata import MetadataRequest
from kafka_wire.schema.produce import ProduceRequest
from kafka_wire.test.fake_broker import FakeBroker, silence
from kafka_wire.test.fake_network import FakeNetwork, metadata

NEGOTIATION = joined(Exchange("barnabas").start())


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


def test_several_requests_are_under_way_at_once() -> None:
    """Answers come in the order of the requests; meanwhile the connection counts as usable, and `request` must wait."""
    network = FakeNetwork(one=metadata())
    one = peer(network)
    ids = [one.send(Api.METADATA, MetadataRequest(topics=topics)) for topics in (None, ())]
    assert (one.awaited, one.is_usable()) == (2, True)
    with pytest.raises(RuntimeError):
        one.request(Api.METADATA, MetadataRequest(topics=None))
    answers = [one.receive() for _ in ids]
    assert [(answer.correlation_id, len(answer.body.topics)) for answer in answers] == [(ids[0], 1), (ids[1], 0)]
    assert (one.awaited, one.is_usable()) == (0, True)
    with pytest.raises(RuntimeError):
        one.receive()


def test_awaited_answers_die_with_the_connection() -> None:
    """What was under way when the broker hung up is an error, and nothing is awaited any more."""
    network = FakeNetwork(one=silence)
    one = peer(network)
    for _ in range(2):
        one.send(Api.METADATA, MetadataRequest(topics=None))
    network.made[0][1].hung_up = True
    for _ in range(2):
        with pytest.raises(NetworkException):
            one.receive()
    assert one.awaited == 0


def test_peer_that_has_something_is_waited_for() -> None:
    """Of several connections the one with bytes is named, then the one whose answer is there already."""
    ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
    fakes = [FakeBroker(metadata()) for _ in range(2)]
    peers = []
    for sock, other, fake in zip(ours, theirs, fakes, strict=True):
        other.sendall(fake.feed(NEGOTIATION))
        peers.append(BlockingPeer("one", 1, connect=lambda *_, sock=sock: sock))
        other.recv(1 << 16)
    assert wait_for_any(peers, 0) == []
    for _ in range(2):
        peers[1].send(Api.METADATA, MetadataRequest(topics=None))
    theirs[1].sendall(fakes[1].feed(theirs[1].recv(1 << 16)))
    assert wait_for_any(peers, 0) == [peers[1]]
    peers[1].receive()
    assert peers[1].has_answer
    assert wait_for_any(peers, 0) == [peers[1]]
    for sock in (*ours, *theirs):
        sock.close()


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


def test_own_connection_is_apart_from_those_of_requests() -> None:
    """What is under way on a caller's own connection stands in nobody's way; closing the cluster leaves it open."""
    network = FakeNetwork(one=metadata())
    with BlockingCluster("one:9092", connect=network.connect) as cluster:
        own = cluster.connect(1)
        own.send(Api.METADATA, MetadataRequest(topics=None))
        assert cluster.request(Api.METADATA, MetadataRequest(topics=None), 1).cluster_id == "c"
    assert own.receive().body.cluster_id == "c"
    assert network.hosts() == ["one", "one"]


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
