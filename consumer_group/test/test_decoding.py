"""Promises of the decoders: the same records as kafka_wire's, and only clear errors for anything else."""

from __future__ import annotations

import contextlib
import random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from consumer_group.decoding import read_batch, records_of, values_of
from consumer_group.types import LOG_APPEND_TIME
from kafka_wire import batches
from kafka_wire.errors import CorruptMessage, KafkaError
from kafka_wire.ids import TopicPartition
from kafka_wire.records import Record, decode_batch, encode_batch

TP = TopicPartition("logs", 3)
some_bytes = st.none() | st.binary(max_size=9) | st.integers(60, 20_000).map(lambda size: b"x" * size)
some_headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(Record, st.just(0), st.integers(-(10**6), 10**12), some_bytes, some_bytes, some_headers),
    min_size=1,
    max_size=6,
)


@given(some_records, st.sampled_from([0, 1, 4]), st.integers(0, 10**12), st.none() | st.integers(0, 10**12))
def test_any_batch_same_records_as_the_plain_decoder(
    records: list[Record], codec: int, base: int, append_time: int | None
) -> None:
    """The fast way and the plain way agree."""
    raw = encode_batch(records, codec=codec, base_offset=base, leader_epoch=7, log_append_time=append_time)
    header, data = read_batch(raw, 0)
    plain = decode_batch(raw)
    fast = records_of(TP, header, data)
    assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in fast] == [tuple(o) for o in plain]
    assert values_of(header, data) == [one.value for one in plain]
    assert {one[:3] for one in fast} == {("logs", 3, 7)}
    assert {one.timestamp_type for one in fast} == {LOG_APPEND_TIME if append_time is not None else 0}


def test_record_tells_its_sizes_as_kafka_python_does() -> None:
    """-1 stands for none."""
    header, data = read_batch(encode_batch([Record(0, 0, None, b"four")]), 0)
    record = records_of(TP, header, data)[0]
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, 4)


def test_damaged_batch_is_corrupt_not_wrong() -> None:
    """A flipped bit is found by the CRC."""
    raw = bytearray(encode_batch([Record(0, 0, b"k", b"value")]))
    raw[-3] ^= 1
    with pytest.raises(CorruptMessage):
        read_batch(raw, 0)


@given(some_records, st.randoms(use_true_random=False))
def test_any_bytes_under_a_good_crc_give_records_or_a_kafka_error(
    records: list[Record], dice: random.Random
) -> None:
    """A producer may write nonsense with a right CRC; it must not take the consumer down."""
    raw = bytearray(encode_batch(records))
    for _ in range(dice.randint(1, 4)):
        raw[dice.randrange(batches.HEADER_SIZE, len(raw))] = dice.randrange(256)
    raw[17:21] = crc32c(bytes(raw[batches.CRC_COVERS_FROM :])).to_bytes(4, "big")
    header, data = read_batch(bytes(raw), 0)
    fast: list[bytes | None] | None = None
    values: list[bytes | None] | None = None
    with contextlib.suppress(KafkaError):
        fast = [record.value for record in records_of(TP, header, data)]
    with contextlib.suppress(KafkaError):
        values = values_of(header, data)
    if fast is not None and values is not None:
        assert fast == values
