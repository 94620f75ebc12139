"""The brokers of a cluster as a Twisted client sees them: who is asked, what is kept, and whom it turns to."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kafka_wire.apis import Api
from kafka_wire.cluster import Cluster
from kafka_wire.errors import BrokerNotAvailable, LeaderNotAvailable, NetworkException, UnknownTopicOrPartition
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import MetadataView
from kafka_wire.peer import Peer
from kafka_wire.schema.metadata import MetadataRequest
from kafka_wire.test.fake_broker import Answer, FakeBroker
from kafka_wire.test.fake_network import metadata
from kafka_wire.test.puppet_endpoint import Link, PuppetEndpoint


class Scene:
    """A cluster object in a network of named brokers, of which those in `brokers` accept connections."""

    def __init__(self, bootstrap: str, **brokers: Answer) -> None:
        self.clock = Clock()
        self.brokers = brokers
        self.tried: list[str] = []
        self.links: dict[str, Link] = {}
        self.cluster = Cluster(self.clock, bootstrap, make_peer=self._make_peer, shuffle=lambda _: None)

    def result(self, asked: "Deferred[Any]") -> Any:
        """What a Deferred came to, after the network has carried everything; a Failure as such."""
        results: list[Any] = []
        asked.addBoth(results.append)
        for _ in range(10):
            for link in list(self.links.values()):
                link.pump()
        [result] = results
        return result

    def error(self, asked: "Deferred[Any]") -> type[BaseException]:
        failure = self.result(asked)
        assert isinstance(failure, Failure)
        assert failure.type is not None
        return failure.type

    def questions(self, host: str) -> list[Any]:
        """The Metadata requests that a broker has seen."""
        return [body for header, body in self.links[host].broker.seen if header.api_key == Api.METADATA]

    def _make_peer(self, host: str, port: int) -> Peer:
        return Peer(self.clock, host, port, endpoint=_Door(self, host))


class _Door(PuppetEndpoint):
    """Accepts or refuses at once."""

    def __init__(self, scene: Scene, host: str) -> None:
        super().__init__()
        self.scene, self.host = scene, host

    def connect(self, protocolFactory: Any) -> "Deferred[Any]":
        attempt = super().connect(protocolFactory)
        self.scene.tried.append(self.host)
        if self.host in self.scene.brokers:
            self.scene.links[self.host] = self.accept(FakeBroker(self.scene.brokers[self.host]))
        else:
            self.refuse()
        return attempt


def test_bootstrap_goes_on_to_the_next_address() -> None:
    """An address that refuses is no obstacle while another answers."""
    scene = Scene("down:1,boot:9092", boot=metadata())
    view = scene.result(scene.cluster.metadata())
    assert isinstance(view, MetadataView)
    assert (view.cluster_id, scene.tried) == ("c", ["down", "boot"])


def test_nobody_there_is_one_network_error() -> None:
    """All addresses are named in the error."""
    scene = Scene("down:1,gone:2")
    failure = scene.result(scene.cluster.metadata())
    assert failure.check(NetworkException)
    assert "down:1" in str(failure.value)
    assert "gone:2" in str(failure.value)


def test_request_goes_to_the_broker_that_leads() -> None:
    """The leader is looked up once, and its own connection is used."""
    scene = Scene("boot:9092", boot=metadata(), two=metadata())
    leader = scene.result(scene.cluster.leader(TopicPartition("t", 0)))
    answer = scene.result(scene.cluster.request(Api.METADATA, MetadataRequest(topics=()), leader))
    assert (leader, answer.cluster_id, scene.tried) == (2, "c", ["boot", "two"])


def test_broker_that_is_not_known_is_looked_for_once() -> None:
    """An id that the metadata does not name is asked for, then refused."""
    scene = Scene("boot:9092", boot=metadata())
    assert scene.error(scene.cluster.request(Api.METADATA, MetadataRequest(topics=()), 9)) is BrokerNotAvailable
    assert len(scene.questions("boot")) == 1


def test_equal_questions_are_asked_once() -> None:
    """Whoever asks while the answer is under way shares it; later it is kept; `refresh` asks again."""
    scene = Scene("boot:9092", boot=metadata())
    first, second = scene.cluster.metadata(["t"]), scene.cluster.metadata(["t", "t"])
    assert scene.result(first) is scene.result(second)
    scene.result(scene.cluster.metadata(["t"]))
    assert len(scene.questions("boot")) == 1
    scene.result(scene.cluster.metadata(["t"], refresh=True))
    assert len(scene.questions("boot")) == 2


def test_topics_are_created_only_when_told() -> None:
    """Metadata creates no topic unless the caller says so."""
    scene = Scene("boot:9092", boot=metadata())
    scene.result(scene.cluster.metadata(["t"]))
    scene.result(scene.cluster.metadata(["new"], create=True))
    assert [body.allow_auto_topic_creation for body in scene.questions("boot")] == [False, True]


def test_missing_leader_is_asked_for_once_more() -> None:
    """No leader, and no such topic, are looked up twice, then they are the caller's matter."""
    scene = Scene("boot:9092", boot=metadata(leader=-1))
    assert scene.error(scene.cluster.leader(TopicPartition("t", 0))) is LeaderNotAvailable
    assert scene.error(scene.cluster.leader(TopicPartition("other", 0))) is UnknownTopicOrPartition
    assert len(scene.questions("boot")) == 4


def test_closed_cluster_answers_nobody() -> None:
    """What waits fails, what comes later too, and no timer is left."""
    scene = Scene("boot:9092", boot=metadata())
    waiting = scene.cluster.metadata()
    scene.cluster.close()
    assert scene.error(waiting) is NetworkException
    assert scene.error(scene.cluster.metadata(refresh=True)) is NetworkException
    assert scene.clock.getDelayedCalls() == []


def test_connection_to_a_broker_that_left_is_closed() -> None:
    """Addresses that the metadata names no more lose their connection; the bootstrap's keep theirs."""
    here = [True]

    def shrinking(header: Any, body: Any) -> Any:
        response = metadata()(header, body)
        return response if here[0] else response._replace(brokers=response.brokers[:1])

    scene = Scene("boot:9092", boot=shrinking, two=metadata())
    scene.result(scene.cluster.leader(TopicPartition("t", 0)))
    scene.result(scene.cluster.request(Api.METADATA, MetadataRequest(topics=()), 2))
    here[0] = False
    scene.result(scene.cluster.metadata(refresh=True))
    assert (scene.links["boot"].aborted, scene.links["two"].aborted) == (False, True)
    assert scene.error(scene.cluster.request(Api.METADATA, MetadataRequest(topics=()), 2)) is BrokerNotAvailable
