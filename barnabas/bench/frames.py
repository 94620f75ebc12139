"""Requests encoded once and sent many times, and how to see in a raw answer that all went well.

The answers to one Produce request differ only in offsets, so they have one size and the error codes stand at fixed
places. Those are found by encoding an answer with and without errors, not by knowledge of the format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from barnabas.bench.payload import log_lines
from kafka_wire import compression
from kafka_wire.apis import Api
from kafka_wire.messages import encode_request, encode_response
from kafka_wire.records import Record, encode_batch
from kafka_wire.schema import produce

CLIENT_ID = "barnabas-bench"
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
CODECS = {"none": compression.NONE, "gzip": compression.GZIP, "snappy": compression.SNAPPY,
          "lz4": compression.LZ4, "zstd": compression.ZSTD}  # fmt: skip
_TIMEOUT_MS = 30_000


@attrs.frozen(slots=True)
class AnswerShape:
    """Size of the good answer with its length field, and where its error codes stand (every byte of them)."""

    size: int
    error_bytes: tuple[int, ...]


def filled_batch(size: int, count: int, codec: str = "none", timestamp_ms: int = 1_700_000_000_000) -> bytes:
    """A record batch of `count` messages of `size` bytes each."""
    lines = log_lines(size, min(count, 997))
    records = (Record(0, timestamp_ms, None, lines[index % len(lines)]) for index in range(count))
    return encode_batch(records, codec=CODECS[codec])


def encode_produce(version: int, topic: str, batches: Mapping[int, bytes], acks: str = "all") -> bytes:
    """A whole Produce request, length included, with one batch for each of some partitions."""
    data = [produce.PartitionProduceData(partition, batch) for partition, batch in batches.items()]
    body = produce.ProduceRequest(None, ACKS[acks], _TIMEOUT_MS, [produce.TopicProduceData(topic, data)])
    return b"".join(map(bytes, encode_request(Api.PRODUCE, version, 1, CLIENT_ID, body)))


def produce_answer(version: int, topic: str, partitions: Sequence[int]) -> AnswerShape:
    """What the answer to `encode_produce` of the same topic and partitions looks like."""
    good = _answer(version, topic, partitions, 0)
    bad = _answer(version, topic, partitions, -1)
    return AnswerShape(len(good), tuple(place for place in range(len(good)) if good[place] != bad[place]))


def _answer(version: int, topic: str, partitions: Sequence[int], error: int) -> bytes:
    answers = [produce.PartitionProduceResponse(index=partition, error_code=error) for partition in partitions]
    body = produce.ProduceResponse([produce.TopicProduceResponse(topic, answers)])
    return b"".join(map(bytes, encode_response(Api.PRODUCE, version, 1, body)))
