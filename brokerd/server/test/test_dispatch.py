"""Requests of one connection: order, versions, and what ends it."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from brokerd.handlers.test.fakes import FakeBroker
from brokerd.handlers.test.real_logs import RealBroker, batch
from brokerd.handlers.types import LATER, Request
from brokerd.server import dispatch
from brokerd.server.dispatch import MAX_PENDING, KafkaProtocol
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.ids import TopicPartition
from kafka_wire.messages import decode_response, encode_request
from kafka_wire.schema.api_versions import ApiVersionsRequest
from kafka_wire.schema.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_wire.schema.metadata import MetadataRequest
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Transport:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False
        self.reading = True

    def sendParts(self, parts: list[Any], size: int) -> None:
        data = b"".join(parts)
        assert size == len(data)
        self.sent.append(data)

    def loseConnection(self) -> None:
        self.closed = True

    def pauseReading(self) -> None:
        self.reading = False

    def resumeReading(self) -> None:
        self.reading = True

    def correlation_ids(self) -> list[int]:
        """Of the answers, in the order in which they left."""
        return [struct.unpack_from(">i", data, 4)[0] for data in self.sent]


@pytest.fixture
def wire() -> SimpleNamespace:
    protocol, transport = KafkaProtocol(FakeBroker(), "client", "PLAINTEXT"), Transport()
    protocol.makeConnection(transport)
    return SimpleNamespace(protocol=protocol, transport=transport)


def send(wire: Any, api: Api, version: int, body: Any, correlation_id: int = 1) -> None:
    """Hands one request over as the connection would."""
    data = b"".join(encode_request(api, version, correlation_id, "test", body))
    wire.protocol.frameReceived(b"??" + data, 6, 2 + len(data))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """DescribeCluster is answered when the test says so."""
    waiting: list[Request] = []

    def handle(broker: Any, request: Request) -> Any:
        waiting.append(request)
        return LATER

    monkeypatch.setitem(dispatch._SERVED, (int(Api.DESCRIBE_CLUSTER), 0), handle)
    return waiting


def test_answers_leave_in_the_order_of_the_requests(wire: Any, later: list[Request]) -> None:
    send(wire, Api.DESCRIBE_CLUSTER, 0, DescribeClusterRequest(), 1)
    send(wire, Api.METADATA, 4, MetadataRequest(topics=()), 2)
    send(wire, Api.DESCRIBE_CLUSTER, 0, DescribeClusterRequest(), 3)
    send(wire, Api.METADATA, 4, MetadataRequest(topics=()), 4)
    assert wire.transport.sent == []
    later[1].respond(DescribeClusterResponse())
    assert wire.transport.sent == []
    later[0].respond(DescribeClusterResponse())
    assert wire.transport.correlation_ids() == [1, 2, 3, 4]


def test_too_many_waiting_requests_stop_the_reading_until_half_are_answered(wire: Any, later: list[Request]) -> None:
    for number in range(MAX_PENDING + 1):
        send(wire, Api.DESCRIBE_CLUSTER, 0, DescribeClusterRequest(), number)
    assert not wire.transport.reading
    for request in later[: MAX_PENDING // 2 + 1]:
        request.respond(DescribeClusterResponse())
    assert wire.transport.reading


def test_answer_after_the_connection_is_gone_is_dropped(wire: Any, later: list[Request]) -> None:
    send(wire, Api.DESCRIBE_CLUSTER, 0, DescribeClusterRequest())
    wire.protocol.connectionLost(None)
    assert later[0].gone
    later[0].respond(DescribeClusterResponse())
    assert wire.transport.sent == []


def test_unknown_version_of_api_versions_is_answered_in_version_0(wire: Any) -> None:
    data = struct.pack(">hhih", 18, 99, 7, -1) + b"\0 something of the future"
    wire.protocol.frameReceived(data, 0, len(data))
    correlation_id, body = decode_response(Api.API_VERSIONS, 0, wire.transport.sent[0][4:])
    assert (correlation_id, body.error_code) == (7, errors.UNSUPPORTED_VERSION)
    assert any(key.api_key == 18 and key.max_version == 4 for key in body.api_keys)
    assert not wire.transport.closed


def test_api_versions_offers_what_is_served(wire: Any) -> None:
    send(wire, Api.API_VERSIONS, 3, ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    _, body = decode_response(Api.API_VERSIONS, 3, wire.transport.sent[0][4:])
    offered = {key.api_key: (key.min_version, key.max_version) for key in body.api_keys}
    assert offered[Api.FETCH] == (4, 16)
    assert offered[Api.PRODUCE] == (0, 11)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 3, 4, 1, -1) + b"\x7f\xff\xff\xff",  # a forged count
        struct.pack(">hhih", 3, 4, 1, 999),  # a client id beyond the end
        struct.pack(">hhih", 3, 99, 1, -1),  # a version that is not served
        struct.pack(">hhih", 9999, 0, 1, -1),  # no such API
        b"12345678",  # too short
    ],
)
def test_frame_that_cannot_be_served_closes_the_connection(wire: Any, frame: bytes) -> None:
    wire.protocol.frameReceived(frame, 0, len(frame))
    assert wire.transport.closed
    assert wire.transport.sent == []


@pytest.mark.parametrize("late", [False, True])
def test_failure_of_a_handler_costs_only_its_connection(wire: Any, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    answer: Deferred[Any] = Deferred()

    def handle(broker: Any, request: Request) -> Any:
        if not late:
            raise RuntimeError("a bug")
        return answer

    monkeypatch.setitem(dispatch._SERVED, (int(Api.DESCRIBE_CLUSTER), 0), handle)
    send(wire, Api.DESCRIBE_CLUSTER, 0, DescribeClusterRequest())
    if late:
        assert not wire.transport.closed
        answer.errback(RuntimeError("a bug"))
    assert wire.transport.closed


# ---- Produce requests that repeat


@pytest.fixture
def real(tmp_path: Path) -> SimpleNamespace:
    broker = RealBroker(tmp_path, durability="flushed")
    protocol, transport = KafkaProtocol(broker, "client", "PLAINTEXT"), Transport()
    protocol.makeConnection(transport)
    return SimpleNamespace(protocol=protocol, transport=transport, broker=broker)


def produce(wire: Any, number: int, value: bytes, version: int = 9, acks: int = -1) -> None:
    """Sends one record to partition 0."""
    data = [TopicProduceData("logs", [PartitionProduceData(0, batch(value))])]
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)
    frame = b"".join(encode_request(Api.PRODUCE, version, number, "test", body))
    wire.protocol.frameReceived(frame, 4, len(frame))


def produced(wire: Any, version: int = 9) -> list[tuple[int, int, int]]:
    """(correlation id, error, base offset) of every answer so far."""
    found = []
    for data in wire.transport.sent:
        number, body = decode_response(Api.PRODUCE, version, data[4:])
        part = body.responses[0].partition_responses[0]
        found.append((number, part.error_code, part.base_offset))
    return found


@pytest.mark.parametrize("version", range(3, 12))
def test_repeated_produce_requests_are_answered_like_the_first(real: Any, version: int) -> None:
    for number in range(4):
        produce(real, number, b"x" * number, version)
    real.broker.turn()
    assert produced(real, version) == []
    real.broker.flush()
    assert produced(real, version) == [(number, 0, number) for number in range(4)]
    assert len(real.protocol._repeats._by_size) == 1


def test_repeated_and_other_requests_keep_their_order(real: Any) -> None:
    produce(real, 1, b"a")
    produce(real, 2, b"b")
    send(real, Api.METADATA, 4, MetadataRequest(topics=()), 3)
    produce(real, 4, b"c", acks=1)
    produce(real, 5, b"d", acks=1)
    real.broker.turn()
    assert real.transport.sent == []
    real.broker.flush()
    assert real.transport.correlation_ids() == [1, 2, 3, 4, 5]


def test_repeated_request_that_is_refused_is_told_why(real: Any) -> None:
    produce(real, 1, b"a")
    produce(real, 2, b"x" * (2 << 20))
    real.broker.turn()
    real.broker.flush()
    real.broker.partitions[TopicPartition("logs", 0)].resign()
    produce(real, 3, b"c")
    assert produced(real) == [
        (1, 0, 0),
        (2, errors.MESSAGE_TOO_LARGE, -1),
        (3, errors.NOT_LEADER_OR_FOLLOWER, -1),
    ]


def test_repeated_request_that_waits_is_failed_by_the_end_of_the_leadership_or_by_time(real: Any) -> None:
    produce(real, 1, b"a")
    produce(real, 2, b"b")
    real.broker.turn()
    real.broker.clock.pump([0.25] * 6)
    assert produced(real) == [(1, errors.REQUEST_TIMED_OUT, -1), (2, errors.REQUEST_TIMED_OUT, -1)]
    produce(real, 3, b"c")
    real.broker.turn()
    real.broker.partitions[TopicPartition("logs", 0)].resign()
    assert produced(real)[2:] == [(3, errors.NOT_LEADER_OR_FOLLOWER, -1)]


def test_repeated_request_of_a_client_that_is_gone_is_kept_but_not_answered(real: Any) -> None:
    produce(real, 1, b"a")
    produce(real, 2, b"b")
    real.protocol.connectionLost(None)
    real.broker.turn()
    real.broker.flush()
    assert real.transport.sent == []
    assert real.broker.partitions[TopicPartition("logs", 0)].high_watermark == 2
