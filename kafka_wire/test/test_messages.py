"""Whole frames with their headers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire import messages
from kafka_wire.apis import SPOKEN, Api
from kafka_wire.errors import Malformed
from kafka_wire.schema.api_versions import ApiVersion, ApiVersionsResponse
from kafka_wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.schema.produce import ProduceResponse, TopicProduceResponse

CASES = [(api, version) for api, (first, last) in SPOKEN.items() for version in range(first, last + 1)]


def frame(api: Api, version: int, body: object, client_id: str | None = "me") -> bytes:
    """A request without its length."""
    data = b"".join(messages.encode_request(api, version, 7, client_id, body))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


@pytest.mark.parametrize(("api", "version"), CASES)
def test_header_of_any_request_reads_back(api: Api, version: int) -> None:
    schema = __import__(f"kafka_wire.schema.{api.schema}", fromlist=["x"])
    shape = getattr(schema, "".join(part.capitalize() for part in api.schema.split("_")) + "Request")
    for client_id in ("me", "", None):
        data = b"--" + frame(api, version, shape(), client_id)
        header, body = messages.decode_request(data, 2, len(data))
        assert header == (api, version, 7, client_id)
        assert type(body) is shape


def test_metadata_0_without_topics_asks_for_all_of_them() -> None:
    for topics in (None, ()):
        data = frame(Api.METADATA, 0, MetadataRequest(topics=topics))
        assert messages.decode_request(data, 0, len(data))[1].topics is None
    data = frame(Api.METADATA, 1, MetadataRequest(topics=()))
    assert messages.decode_request(data, 0, len(data))[1].topics == []


def test_answer_to_api_versions_never_has_tags_in_its_header() -> None:
    body = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    data = b"".join(messages.encode_response(Api.API_VERSIONS, 3, 5, body))
    assert data[:10] == len(data[4:]).to_bytes(4, "big") + b"\0\0\0\5\0\0"
    assert messages.decode_response(Api.API_VERSIONS, 3, data[4:])[1].api_keys[0].api_key == 18


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_response_reads_back_with_its_correlation_id(version: int) -> None:
    body = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[])])
    data = b"".join(messages.encode_response(Api.PRODUCE, version, 99, body))
    assert messages.decode_response(Api.PRODUCE, version, data, 4, len(data)) == (99, body)


@given(st.binary(max_size=64))
def test_random_bytes_are_malformed_or_a_request(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        messages.decode_request(data, 0, len(data))


@given(st.sampled_from(CASES), st.binary(max_size=100))
def test_random_body_of_a_known_api_is_malformed_or_a_request(case: tuple[Api, int], body: bytes) -> None:
    data = case[0].to_bytes(2, "big") + case[1].to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0" + body
    with contextlib.suppress(Malformed):
        messages.decode_request(data, 0, len(data))


def test_bad_text_is_malformed() -> None:
    data = frame(Api.METADATA, 4, MetadataRequest(topics=[MetadataRequestTopic(name="abc")]))
    with pytest.raises(Malformed):
        messages.decode_request(data.replace(b"abc", b"\xff\xfe\xfd"), 0, len(data))


def test_large_request_without_records_is_refused() -> None:
    data = frame(Api.METADATA, 4, MetadataRequest(topics=[])) + bytes(messages.MAX_PLAIN_REQUEST)
    with pytest.raises(Malformed, match="too many"):
        messages.decode_request(data, 0, len(data))
