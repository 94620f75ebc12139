"""Records: both ways by property, and against kafka-python's own builder and reader."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kafka_wire import batches, compression, records
from kafka_wire.errors import CorruptMessage, KafkaError, MessageTooLarge
from kafka_wire.records import Record

CODECS = list(range(5))
TIMES = st.one_of(st.just(-1), st.integers(0, 2**43))
BYTES = st.one_of(st.none(), st.binary(max_size=300))
HEADERS = st.lists(st.tuples(st.text(max_size=20), BYTES), max_size=4).map(tuple)
RECORD = st.builds(Record, st.just(0), TIMES, BYTES, BYTES, HEADERS)
BATCH = st.lists(RECORD, min_size=1, max_size=12)


def numbered(made: list[Record], base: int = 0) -> list[Record]:
    return [record._replace(offset=base + i) for i, record in enumerate(made)]


@given(BATCH, st.sampled_from(CODECS), st.integers(0, 2**60))
def test_any_records_come_back(made: list[Record], codec: int, base: int) -> None:
    """Nulls, missing timestamps, headers and every codec survive the way out and back."""
    raw = records.encode_batch(made, codec=codec, base_offset=base)
    assert records.decode_batch(raw) == numbered(made, base)
    header = batches.check_batch(raw, 0, len(raw))
    assert header.max_timestamp == max(record.timestamp for record in made)
    assert header.next_offset == base + len(made)


@given(BATCH, st.sampled_from(CODECS))
def test_kafka_python_reads_ours(made: list[Record], codec: int) -> None:
    """An independent reader sees the same records and takes the CRC for right."""
    raw = records.encode_batch(made, codec=codec)
    read: Any = DefaultRecordBatch(raw)
    assert read.validate_crc()
    seen = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in read]
    assert seen == numbered(made)


@given(BATCH, st.sampled_from(CODECS))
def test_kafka_python_batches_are_read(made: list[Record], codec: int) -> None:
    """What an independent producer builds is what we read."""
    builder: Any = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for i, record in enumerate(made):
        builder.append(i, record.timestamp, record.key, record.value, list(record.headers))
    raw = bytes(builder.build())
    assert batches.check_batch(raw, 0, len(raw)).record_count == len(made)
    assert records.decode_batch(raw) == numbered(made)


@given(BATCH, st.sampled_from(CODECS))
def test_kafka_python_producer_batches_are_equal_to_ours(made: list[Record], codec: int) -> None:
    """The builder of its producer, with an idempotent one's fields: same header, and uncompressed the same bytes."""
    builder: Any = MemoryRecordsBuilder(2, codec, 1 << 20, producer_id=77, producer_epoch=3, base_sequence=12)
    for record in made:
        builder.append(record.timestamp, record.key, record.value, list(record.headers))
    builder.close()
    raw = bytes(builder.buffer())
    ours = records.encode_batch(made, codec=codec, producer_id=77, producer_epoch=3, base_sequence=12)
    header = batches.check_batch(raw, 0, len(raw))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)
    assert records.decode_batch(raw) == records.decode_batch(ours) == numbered(made)
    if codec == compression.NONE:
        assert raw[16:] == ours[16:]


def test_kafka_python_reads_a_run_of_ours() -> None:
    """Several batches in a row, as in a Fetch answer."""
    run = b"".join(records.encode_batch([Record(0, 5, b"k", b"v")] * 2, base_offset=2 * i, codec=i) for i in range(5))
    memory: Any = MemoryRecords(run)
    offsets = []
    while memory.has_next():
        offsets += [record.offset for record in memory.next_batch()]
    assert offsets == list(range(10))


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_number_as_varint_comes_back(value: int) -> None:
    """Zigzag holds for all 64 bits, and the length is the shortest."""
    raw = records.varint(value)
    assert records.read_varint(raw, 0) == (value, len(raw))
    assert len(raw) <= 10


def test_endless_number_is_corrupt() -> None:
    """Continuation bits without an end are refused."""
    with pytest.raises(CorruptMessage):
        records.read_varint(b"\xff" * 20, 0)


def test_empty_batch_is_refused() -> None:
    """A batch without records cannot be made."""
    with pytest.raises(ValueError, match="record"):
        records.encode_batch([])


def test_kept_offsets_leave_holes() -> None:
    """Compaction can keep records at their own offsets."""
    made = [Record(10, 1, b"a", b"1"), Record(14, 2, b"b", b"2")]
    raw = records.encode_batch(made, base_offset=10, keep_offsets=True)
    assert records.decode_batch(raw) == made
    assert batches.read_header(raw).next_offset == 15
    with pytest.raises(ValueError, match="rise"):
        records.encode_batch(made[::-1], base_offset=10, keep_offsets=True)


def test_header_name_that_is_no_text_comes_back() -> None:
    """Bytes that are not UTF-8 do not stop a consumer and are not changed."""
    made = [Record(0, 1, None, None, ((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"x"),))]
    assert records.decode_batch(records.encode_batch(made)) == made


def test_run_with_control_and_cut_batches_gives_the_rest() -> None:
    """Control batches, a cut last batch and records before the wanted offset are left out."""
    one = records.encode_batch([Record(0, 1, None, b"%d" % i) for i in range(3)], base_offset=0, codec=2)
    control = bytearray(records.encode_batch([Record(0, 1, b"\0\0\0\0", b"")], base_offset=3))
    control[22] |= batches.CONTROL
    two = records.encode_batch([Record(0, 1, None, b"x")], base_offset=4)
    run = one + control + two + one[:70]
    assert [record.offset for record in records.decode_batches(run, from_offset=1)] == [1, 2, 4]
    assert records.next_fetch_offset(run, 1) == 5
    assert records.next_fetch_offset(b"", 9) == 9


def test_compressed_batch_above_the_limit_is_too_large() -> None:
    """The cap on decompressed bytes holds for records too."""
    raw = records.encode_batch([Record(0, 1, None, bytes(100_000))], codec=compression.ZSTD)
    with pytest.raises(MessageTooLarge):
        records.decode_batch(raw, limit=50_000)


@given(BATCH, st.data())
def test_damaged_body_ends_in_a_kafka_error(made: list[Record], data: st.DataObject) -> None:
    """Records changed behind a right CRC are read as something or refused, but nothing else happens."""
    raw = records.encode_batch(made)
    header = batches.read_header(raw)
    body = bytearray(raw[batches.HEADER_SIZE :])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(KafkaError):
        records.decode_records(header, body)


@given(st.binary(max_size=200), st.integers(-3, 40))
def test_rubbish_body_ends_in_a_kafka_error(body: bytes, count: int) -> None:
    """No bytes and no count make the reader do anything else than refuse."""
    header = batches.read_header(records.encode_batch([Record(0, 1, None, None)]))._replace(record_count=count)
    with contextlib.suppress(KafkaError):
        assert len(records.decode_records(header, body)) == count
