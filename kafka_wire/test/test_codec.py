"""The compiled codec against kio's own writers, for every message and version that we speak."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from kafka_wire import codec
from kafka_wire.apis import SPOKEN, Api
from kafka_wire.errors import Malformed
from kafka_wire.from_kio import fields_of
from kafka_wire.generate import FOLDER, files
from kafka_wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_wire.schema.metadata import MetadataResponse, MetadataResponseTopic
from kafka_wire.test.entities import EVERYTHING, FROM_KIO, comparable, entities, entity, shape_of

MALFORMED = (Malformed, IndexError, struct.error, UnicodeDecodeError)
FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def _names(case: Any) -> str:
    return f"{case[0].name}-{case[1]}-{case[2]}"


def kio_bytes(value: Any) -> bytes:
    """What kio writes."""
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


@pytest.mark.parametrize("case", FROM_KIO, ids=_names)
def test_message_of_any_version_has_the_bytes_of_kio_and_reads_back(case: Any) -> None:
    api, _, direction = case
    write, read, convert = codec.writer(*case), codec.reader(*case), shape_of(api, direction)

    @FEW
    @given(entities(entity(case)))
    def holds(value: Any) -> None:
        expected, shape = kio_bytes(value), convert(value)
        assert b"".join(write(shape)) == expected
        found, position = read(b"xx" + expected + b"yy", 2, 2 + len(expected))
        assert position == 2 + len(expected)
        assert comparable(found) == comparable(shape)

    holds()


@pytest.mark.parametrize("case", FROM_KIO, ids=_names)
def test_cut_message_is_malformed_wherever_it_is_cut(case: Any) -> None:
    api, _, direction = case
    write, read, convert = codec.writer(*case), codec.reader(*case), shape_of(api, direction)

    @settings(FEW, max_examples=3)
    @given(entities(entity(case)), st.data())
    def holds(value: Any, data: Any) -> None:
        whole = b"".join(write(convert(value)))
        if whole:
            cut = data.draw(st.integers(0, len(whole) - 1))
            with pytest.raises(MALFORMED):
                read(whole[:cut], 0, cut)
            with pytest.raises(MALFORMED):
                read(whole, 0, cut)  # the bytes after the end belong to somebody else

    holds()


@pytest.mark.parametrize("case", EVERYTHING, ids=_names)
def test_random_bytes_are_malformed_or_a_message(case: Any) -> None:
    read = codec.reader(*case)

    @settings(FEW, max_examples=10)
    @given(st.binary(max_size=200))
    def holds(data: bytes) -> None:
        try:
            _, position = read(data, 0, len(data))
        except MALFORMED:
            return
        assert position <= len(data)

    holds()


def _ends_in_no_tags(case: Any) -> bool:
    found = entity(case)
    return bool(found.__flexible__) and all(field.tag is None for field in fields_of(found))


@pytest.mark.parametrize("case", filter(_ends_in_no_tags, FROM_KIO), ids=_names)
def test_unknown_tag_is_skipped(case: Any) -> None:
    api, _, direction = case
    write, read, convert = codec.writer(*case), codec.reader(*case), shape_of(api, direction)

    @settings(FEW, max_examples=3)
    @given(entities(entity(case)))
    def holds(value: Any) -> None:
        shape = convert(value)
        whole = b"".join(write(shape))
        tagged = whole[:-1] + b"\x02\xe7\x07\x03abc\xe8\x07\x00"
        found, position = read(tagged, 0, len(tagged))
        assert position == len(tagged)
        assert comparable(found) == comparable(shape)

    holds()


def test_forged_count_is_refused_before_anything_is_allocated() -> None:
    body = b"\xff\xff" + b"\0\1" + b"\0\0\0\1" + b"\x7f\xff\xff\xff"  # Produce 3 with two thousand million topics
    with pytest.raises(Malformed, match="count"):
        codec.reader(Api.PRODUCE, 3, "request")(body, 0, len(body))


def test_records_are_views_when_read_and_pass_through_when_written() -> None:
    class Range:
        def __len__(self) -> int:
            return 1000

    ranged = Range()
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=ranged)])]
    )
    assert ranged in codec.writer(Api.FETCH, 12, "response")(response)
    data = bytearray(b"\xff\xff\0\1\0\0\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\3abc")
    body, _ = codec.reader(Api.PRODUCE, 3, "request")(data, 0, len(data))
    records = body.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data


def test_none_is_written_as_empty_where_a_version_has_no_null() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(name=None)])
    body, _ = _round_trip(Api.METADATA, 9, response)
    assert body.topics[0].name == ""
    body, _ = _round_trip(Api.METADATA, 12, response)
    assert body.topics[0].name is None


def _round_trip(api: Api, version: int, shape: Any) -> tuple[Any, int]:
    data = b"".join(codec.writer(api, version, "response")(shape))
    return codec.reader(api, version, "response")(data, 0, len(data))


def test_generated_shapes_are_up_to_date() -> None:
    for name, text in files().items():
        assert (FOLDER / name).read_text() == text, f"run python -m kafka_wire.generate: {name} differs"


def test_version_that_is_not_spoken_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        codec.reader(Api.PRODUCE, SPOKEN[Api.PRODUCE][1] + 40, "request")
