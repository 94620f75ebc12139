"""The client's conversation: negotiation, order, and what ends it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.apis import SPOKEN, Api
from kafka_wire.errors import Malformed, UnsupportedVersion
from kafka_wire.exchange import Exchange, State, back_off, common_versions, joined, parse_bootstrap
from kafka_wire.schema.metadata import MetadataRequest, MetadataResponse
from kafka_wire.schema.produce import ProduceRequest
from kafka_wire.test.fake_broker import FakeBroker


def cluster_name(_header: Any, _body: Any) -> MetadataResponse:
    return MetadataResponse(cluster_id="here")


def negotiated(broker: FakeBroker) -> Exchange:
    """An exchange that has asked for versions until it knew them."""
    exchange = Exchange("me")
    to_send = exchange.start()
    while to_send:
        answers, to_send = exchange.receive(broker.feed(joined(to_send)))
        assert answers == []
    return exchange


def test_first_answer_makes_it_ready() -> None:
    """The versions are learnt by asking once, with our name."""
    broker = FakeBroker()
    exchange = negotiated(broker)
    assert exchange.state is State.READY
    assert exchange.versions[Api.METADATA] == SPOKEN[Api.METADATA]
    [(header, body)] = broker.seen
    assert (header.client_id, body.client_software_name) == ("me", "barnabas")


def test_old_broker_is_asked_again_in_its_version() -> None:
    """A broker that refuses our ApiVersions version in version 0 is asked in its own (KIP-511)."""
    broker = FakeBroker(versions={Api.API_VERSIONS: (0, 1), Api.METADATA: (0, 5)})
    exchange = negotiated(broker)
    assert exchange.state is State.READY
    assert [header.api_version for header, _ in broker.seen] == [SPOKEN[Api.API_VERSIONS][1], 1]
    assert exchange.version(Api.METADATA) == 5


def test_requests_before_the_versions_are_known_are_refused() -> None:
    """Nothing but ApiVersions goes out first, and it goes out once."""
    exchange = Exchange(None)
    with pytest.raises(RuntimeError):
        exchange.request(Api.METADATA, MetadataRequest())
    exchange.start()
    with pytest.raises(RuntimeError):
        exchange.start()


def test_pipelined_requests_are_answered_in_order_in_any_pieces() -> None:
    """Answers that arrive a byte at a time are matched to their requests."""
    broker = FakeBroker(cluster_name)
    exchange = negotiated(broker)
    ids, sent = [], b""
    for _ in range(3):
        correlation_id, parts = exchange.request(Api.METADATA, MetadataRequest(topics=()))
        ids.append(correlation_id)
        sent += joined(parts)
    answers = []
    for byte in broker.feed(sent):
        answers += exchange.receive(bytes((byte,)))[0]
    assert [(answer.correlation_id, answer.body.cluster_id) for answer in answers] == [(i, "here") for i in ids]
    assert exchange.pending_count == 0


def test_produce_without_acks_awaits_nothing() -> None:
    """acks=0 has no answer, so none is waited for."""
    exchange = negotiated(FakeBroker())
    exchange.request(Api.PRODUCE, ProduceRequest(acks=0, topic_data=()))
    assert exchange.pending_count == 0
    exchange.request(Api.PRODUCE, ProduceRequest(acks=1, topic_data=()))
    assert exchange.pending_count == 1


def test_answer_to_nothing_is_malformed() -> None:
    """Bytes that nobody asked for end the conversation."""
    broker = FakeBroker(cluster_name)
    exchange = negotiated(broker)
    answer = broker.feed(joined(exchange.request(Api.METADATA, MetadataRequest(topics=()))[1]))
    exchange.receive(answer)
    with pytest.raises(Malformed):
        exchange.receive(answer)


def test_answer_out_of_order_is_malformed() -> None:
    """Another correlation id than the oldest one's ends the conversation."""
    broker = FakeBroker(cluster_name)
    exchange = negotiated(broker)
    exchange.request(Api.METADATA, MetadataRequest(topics=()))
    second = exchange.request(Api.METADATA, MetadataRequest(topics=()))[1]
    with pytest.raises(Malformed):
        exchange.receive(broker.feed(joined(second)))


def test_api_that_the_broker_lacks_is_unsupported() -> None:
    """No common version, or none under the caller's cap, is an error that leaves the exchange as it was."""
    exchange = negotiated(FakeBroker(versions={Api.API_VERSIONS: SPOKEN[Api.API_VERSIONS], Api.METADATA: (5, 7)}))
    with pytest.raises(UnsupportedVersion):
        exchange.request(Api.PRODUCE, ProduceRequest(acks=1))
    with pytest.raises(UnsupportedVersion):
        exchange.version(Api.METADATA, max_version=4)
    assert exchange.version(Api.METADATA, max_version=6) == 6
    assert exchange.version(Api.METADATA, max_version=99) == 7
    assert exchange.pending_count == 0


@given(st.dictionaries(st.sampled_from(list(SPOKEN)), st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_common_versions_lie_in_both_ranges(offered: dict[Api, tuple[int, int]]) -> None:
    """A version is chosen exactly where both ranges hold one."""
    common = common_versions({int(api): versions for api, versions in offered.items()})
    for api, (low, high) in SPOKEN.items():
        theirs = offered.get(api, (1, 0))
        both = [v for v in range(low, high + 1) if theirs[0] <= v <= theirs[1]]
        assert common.get(api) == ((both[0], both[-1]) if both else None)


def test_bootstrap_addresses_are_read() -> None:
    """Lists, default ports and IPv6 are understood."""
    assert parse_bootstrap("a:1, b ,[::1]:3,[fe80::2]") == [("a", 1), ("b", 9092), ("::1", 3), ("fe80::2", 9092)]


@pytest.mark.parametrize("bad", ["", " , ", "a:", "a:x", "a:0", "a:70000", ":9092"])
def test_bad_bootstrap_is_a_value_error(bad: str) -> None:
    """What is no address is refused before anything is tried."""
    with pytest.raises(ValueError, match="address"):
        parse_bootstrap(bad)


def test_back_off_doubles_up_to_its_limit() -> None:
    """Nothing at first, then longer, never beyond the limit."""
    waits = [back_off(n, 0.1, 1.0, lambda low, high: 1.0) for n in (0, 1, 2, 3, 9, 10_000)]
    assert waits == [0.0, 0.1, 0.2, 0.4, 1.0, 1.0]
