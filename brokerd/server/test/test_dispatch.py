"""Requests of one connection: order, versions, and what ends it."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from brokerd.handlers.test.fakes import FakeBroker
from brokerd.handlers.types import LATER, Request
from brokerd.server import dispatch
from brokerd.server.dispatch import MAX_PENDING, KafkaProtocol
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.messages import decode_response, encode_request
from kafka_wire.schema.api_versions import ApiVersionsRequest
from kafka_wire.schema.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_wire.schema.metadata import MetadataRequest


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
