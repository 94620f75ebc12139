"""Requests encoded once."""

import pytest

from barnabas.bench.frames import encode_produce, filled_batch, produce_answer
from kafka_wire.apis import Api
from kafka_wire.batches import HEADER_SIZE
from kafka_wire.messages import decode_request, encode_response
from kafka_wire.schema import produce


@pytest.mark.parametrize("version", [7, 9])
def test_encoded_request_reads_back(version: int) -> None:
    """The broker sees one topic with a batch for every partition."""
    batch = filled_batch(100, 3)
    frame = encode_produce(version, "t", {0: batch, 4: batch}, "1")
    header, body = decode_request(frame, 4, len(frame))
    assert (header.api_key, header.api_version, body.acks) == (Api.PRODUCE, version, 1)
    assert [(one.index, bytes(one.records)) for one in body.topic_data[0].partition_data] == [(0, batch), (4, batch)]


@pytest.mark.parametrize("version", [7, 9])
def test_answer_shape_finds_every_error_code(version: int) -> None:
    """An error in any partition changes a byte that is looked at; an offset does not."""
    shape = produce_answer(version, "t", [0, 1])
    for failing in (0, 1):
        answers = [
            produce.PartitionProduceResponse(index=index, error_code=3 if index == failing else 0, base_offset=2**40)
            for index in (0, 1)
        ]
        body = produce.ProduceResponse([produce.TopicProduceResponse("t", answers)])
        frame = b"".join(map(bytes, encode_response(Api.PRODUCE, version, 9, body)))
        assert len(frame) == shape.size
        assert sum(frame[place] for place in shape.error_bytes) == 3


def test_compressed_batch_is_smaller() -> None:
    """The messages give a codec something to do, but not everything."""
    plain, packed = filled_batch(200, 500), filled_batch(200, 500, "snappy")
    assert len(plain) / 4 < len(packed) < len(plain) * 0.8
    assert len(plain) > HEADER_SIZE + 500 * 200
