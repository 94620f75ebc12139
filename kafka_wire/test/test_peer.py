"""One broker as a Twisted client sees it: when it connects, what ends a request, and that no timer is left behind."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kafka_wire.apis import Api
from kafka_wire.errors import NetworkException, RequestTimedOut, UnsupportedVersion
from kafka_wire.peer import Peer, PeerState
from kafka_wire.schema.create_topics import CreateTopicsRequest
from kafka_wire.schema.metadata import MetadataRequest, MetadataResponse
from kafka_wire.schema.produce import ProduceRequest
from kafka_wire.test.fake_broker import FakeBroker, silence
from kafka_wire.test.puppet_endpoint import Link, PuppetEndpoint

TIMEOUT = 10.0


class Scene:
    """A peer, its clock and its network; `results` has what each request came to, in the order of their ends."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.endpoint = PuppetEndpoint()
        self.peer = Peer(
            self.clock,
            "here",
            9092,
            timeout=TIMEOUT,
            endpoint=self.endpoint,
            uniform=lambda low, high: (low + high) / 2,
        )
        self.results: list[Any] = []

    def ask(self, api: Api = Api.METADATA, body: Any = None, **options: Any) -> "Deferred[Any]":
        asked = self.peer.request(api, MetadataRequest(topics=()) if body is None else body, **options)
        asked.addBoth(self._keep)
        return asked

    def connected(self, broker: FakeBroker) -> Link:
        link = self.endpoint.accept(broker)
        link.pump()
        return link

    def errors(self) -> list[type[BaseException] | None]:
        return [result.type if isinstance(result, Failure) else None for result in self.results]

    def _keep(self, result: Any) -> None:
        self.results.append(result)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A scene that must not leave a timer behind when its peer is closed."""
    made = Scene()
    yield made
    made.peer.close()
    assert made.clock.getDelayedCalls() == []


def name_it(_header: Any, _body: Any) -> MetadataResponse:
    return MetadataResponse(cluster_id="here")


def test_first_request_connects_and_is_answered(scene: Scene) -> None:
    """No connection before the first request, one for all that wait, and answers in order."""
    assert scene.endpoint.attempts == []
    scene.ask()
    scene.ask()
    assert (scene.peer.state, len(scene.endpoint.attempts)) == (PeerState.CONNECTING, 1)
    link = scene.connected(FakeBroker(name_it))
    assert scene.peer.state is PeerState.READY
    assert [result.cluster_id for result in scene.results] == ["here", "here"]
    scene.ask()
    link.pump()
    assert (len(scene.results), len(scene.endpoint.attempts)) == (3, 1)


def test_requests_are_pipelined(scene: Scene) -> None:
    """A request goes out while earlier ones are unanswered."""
    broker = FakeBroker(silence)
    scene.ask()
    link = scene.connected(broker)
    scene.ask()
    scene.ask()
    link.pump()
    assert [header.api_key for header, _ in broker.seen].count(Api.METADATA) == 3


def test_refused_connection_fails_what_waits_and_backs_off(scene: Scene) -> None:
    """The senders hear of it at once; the next attempt waits for the back-off, and doubles it if it fails too."""
    scene.ask()
    scene.endpoint.refuse()
    assert scene.errors() == [NetworkException]
    scene.ask()
    assert (scene.peer.state, len(scene.endpoint.attempts)) == (PeerState.BACKING_OFF, 1)
    scene.clock.advance(0.05)
    assert len(scene.endpoint.attempts) == 2
    scene.endpoint.refuse()
    scene.ask()
    scene.clock.advance(0.05)
    assert len(scene.endpoint.attempts) == 2
    scene.clock.advance(0.05)
    scene.connected(FakeBroker(name_it))
    assert scene.results[-1].cluster_id == "here"


def test_request_after_a_long_pause_connects_at_once(scene: Scene) -> None:
    """A back-off that has passed while nobody asked costs nothing."""
    scene.ask()
    scene.endpoint.refuse()
    scene.clock.advance(5)
    scene.ask()
    assert len(scene.endpoint.attempts) == 2


def test_connection_that_is_lost_fails_what_was_sent(scene: Scene) -> None:
    """Sent requests end with NetworkException; they are not sent again on the next connection."""
    scene.ask()
    scene.connected(FakeBroker(silence)).hang_up()
    assert scene.errors() == [NetworkException]
    scene.clock.advance(1)
    scene.ask()
    broker = FakeBroker(name_it)
    scene.connected(broker)
    assert [header.api_key for header, _ in broker.seen] == [Api.API_VERSIONS, Api.METADATA]


def test_unanswered_request_closes_the_connection(scene: Scene) -> None:
    """The late one ends with RequestTimedOut, those behind it with NetworkException: they would be late too."""
    scene.ask()
    link = scene.connected(FakeBroker(silence))
    scene.ask(timeout=2 * TIMEOUT)
    scene.clock.advance(TIMEOUT)
    assert sorted(str(kind) for kind in scene.errors()) == sorted(map(str, [RequestTimedOut, NetworkException]))
    assert link.aborted


def test_request_that_waits_too_long_for_a_connection_ends(scene: Scene) -> None:
    """A time-out before it was sent harms nobody else, and the attempt to connect has its own end."""
    scene.ask(timeout=1.0)
    scene.ask()
    scene.clock.advance(1.0)
    assert scene.errors() == [RequestTimedOut]
    scene.clock.advance(TIMEOUT)
    assert len(scene.results) == 2
    assert scene.endpoint.cancelled == 1


def test_broker_that_never_says_its_versions_is_given_up(scene: Scene) -> None:
    """Connected is not ready: negotiation has the same limit."""
    scene.ask(timeout=60.0)
    link = scene.endpoint.accept(FakeBroker(silence))
    scene.clock.advance(TIMEOUT)
    assert (scene.errors(), link.aborted) == ([NetworkException], True)


def test_rubbish_ends_the_connection(scene: Scene) -> None:
    """Bytes that are no answer fail what waits, and the peer connects anew."""
    scene.ask()
    link = scene.connected(FakeBroker(silence))
    link.arrive(b"\xff" * 8)
    assert (scene.errors(), link.aborted, scene.peer.state) == ([NetworkException], True, PeerState.IDLE)


def test_cancelled_request_drops_its_answer(scene: Scene) -> None:
    """The answer is read in its turn and given to nobody; the connection lives on."""
    asked = scene.ask()
    broker = FakeBroker(name_it)
    link = scene.endpoint.accept(broker)
    asked.cancel()
    link.pump()
    late = scene.ask()
    late.cancel()
    scene.ask()
    link.pump()
    assert scene.errors() == [CancelledError, CancelledError, None]
    assert not link.aborted


def test_produce_without_acks_ends_when_sent(scene: Scene) -> None:
    """acks=0 has no answer: the result is None."""
    scene.ask(Api.PRODUCE, ProduceRequest(acks=0, topic_data=()))
    scene.connected(FakeBroker(silence))
    assert scene.results == [None]


def test_api_that_the_broker_lacks_fails_alone(scene: Scene) -> None:
    """UnsupportedVersion is the request's own end; others are answered."""
    scene.ask(Api.CREATE_TOPICS, CreateTopicsRequest())
    scene.ask()
    scene.connected(FakeBroker(name_it))
    assert scene.errors() == [UnsupportedVersion, None]


def test_closed_peer_takes_nothing(scene: Scene) -> None:
    """Closing fails what waits, hangs up, and is for good."""
    scene.ask()
    link = scene.connected(FakeBroker(silence))
    scene.peer.close()
    scene.ask()
    assert (scene.errors(), link.aborted) == ([NetworkException, NetworkException], True)


def test_sender_may_ask_again_from_its_errback(scene: Scene) -> None:
    """A request made while the connection is being given up waits for the next connection."""

    def ask_again(_failure: Failure) -> None:
        scene.ask()

    scene.peer.request(Api.METADATA, MetadataRequest(topics=())).addErrback(ask_again)
    scene.connected(FakeBroker(silence)).hang_up()
    assert (scene.results, scene.peer.state) == ([], PeerState.BACKING_OFF)
    scene.clock.advance(1)
    scene.connected(FakeBroker(name_it))
    assert scene.errors() == [None]
