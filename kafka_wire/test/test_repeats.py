"""A recognised request means exactly what the full reader would have read, and is answered in the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.apis import SPOKEN, Api
from kafka_wire.errors import Malformed
from kafka_wire.messages import decode_request, encode_request, encode_response
from kafka_wire.repeats import MAX_KNOWN, Repeats
from kafka_wire.schema.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSIONS = range(SPOKEN[Api.PRODUCE][0], SPOKEN[Api.PRODUCE][1] + 1)
versions = st.sampled_from(VERSIONS)


def frame(
    version: int,
    records: bytes | None,
    topic: str = "t",
    index: int = 0,
    acks: int = -1,
    client: str | None = "me",
    number: int = 1,
) -> bytes:
    """A request without its length."""
    data = [TopicProduceData(topic, [PartitionProduceData(index, records)])]
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)
    return b"".join(encode_request(Api.PRODUCE, version, number, client, body))[4:]


def learned(*frames: bytes) -> Repeats:
    """Repeats that have seen these requests."""
    repeats = Repeats()
    for data in frames:
        header, body = decode_request(data, 0, len(data))
        repeats.learn(header, body, data, 0, len(data))
    return repeats


@given(
    versions,
    st.binary(min_size=1, max_size=300),
    st.binary(max_size=300),
    st.text(max_size=9),
    st.integers(0, 9),
    st.sampled_from([1, -1]),
    st.one_of(st.none(), st.text(max_size=9)),
    st.integers(0, 2**31 - 1),
)
def test_next_request_for_a_partition_is_recognised(
    version: int, first: bytes, records: bytes, topic: str, index: int, acks: int, client: str | None, number: int
) -> None:
    repeats = learned(frame(version, first, topic, index, acks, client))
    data = b"--" + frame(version, records, topic, index, acks, client, number) + b"++"
    found = repeats.find(data, 2, len(data) - 2)
    assert found is not None
    repeat, view = found
    assert bytes(view) == records
    assert (repeat.topic, repeat.index, repeat.acks, repeat.timeout_ms) == (topic, index, acks, 1000)


@given(versions, st.binary(max_size=40), st.data())
def test_request_with_any_other_bytes_is_not_taken_for_it(version: int, records: bytes, data: st.DataObject) -> None:
    """Whatever is changed: if it is still recognised, the full reader finds the same in it."""
    repeats = learned(frame(version, b"first"))
    changed = bytearray(frame(version, records))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(0, len(changed)))]) if data.draw(st.booleans()) else bytes(changed)
    found = repeats.find(cut, 0, len(cut))
    if found is None:
        return
    header, body = decode_request(cut, 0, len(cut))
    assert header.api_version == found[0].version
    assert [
        (topic.name, [(part.index, bytes(part.records)) for part in topic.partition_data]) for topic in body.topic_data
    ] == [(found[0].topic, [(found[0].index, bytes(found[1]))])]
    assert (body.acks, body.timeout_ms) == (found[0].acks, found[0].timeout_ms)


@given(versions, st.integers(-1, 2**40), st.integers(-1, 2**40), st.integers(-1, 2**40), st.integers(0, 2**31 - 1))
def test_answer_has_the_bytes_of_the_full_writer(version: int, base: int, time: int, start: int, number: int) -> None:
    data = frame(version, b"x", "topic", 3)
    found = learned(data).find(data, 0, len(data))
    assert found is not None
    body = ProduceResponse([TopicProduceResponse("topic", [PartitionProduceResponse(3, 0, base, time, start)])])
    (expected,) = encode_response(Api.PRODUCE, version, number, body)
    assert found[0].answer(number, base, time, start) == expected


def test_several_partitions_are_told_apart() -> None:
    frames = [frame(9, b"x", topic, index) for topic in ("a", "bb") for index in range(3)]
    repeats = learned(*frames)
    for topic in ("a", "bb"):
        for index in range(3):
            data = frame(9, b"yy", topic, index)
            found = repeats.find(data, 0, len(data))
            assert found is not None
            assert (found[0].topic, found[0].index) == (topic, index)
    data = frame(9, b"yy", "a", 7)
    assert repeats.find(data, 0, len(data)) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [None, b"x"])
def test_unusual_request_is_not_learned(version: int, records: bytes | None) -> None:
    data = frame(version, records, acks=0 if records else -1)
    assert learned(data).find(data, 0, len(data)) is None


def test_tags_are_not_taken_for_records() -> None:
    data = frame(9, b"x")
    tagged = data[:-1] + b"\1\0\0"
    assert learned(data).find(tagged, 0, len(tagged)) is None
    assert learned(tagged).find(data, 0, len(data)) is None
    with pytest.raises(Malformed):
        decode_request(tagged[:-1], 0, len(tagged) - 1)


def test_no_more_partitions_are_remembered_than_allowed() -> None:
    repeats = learned(*[frame(9, b"x", "t", index) for index in range(MAX_KNOWN + 5)])
    data = frame(9, b"x", "t", MAX_KNOWN + 2)
    assert repeats.find(data, 0, len(data)) is None
