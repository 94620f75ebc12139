"""Batch headers: what is read, what is refused, what a broker may rewrite."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire import batches, records
from kafka_wire.errors import CorruptMessage, InvalidRecord, KafkaError
from kafka_wire.records import Record


def batch(count: int = 3, **options: object) -> bytes:
    made = [Record(i, 1000 + i, b"key", b"value %d" % i) for i in range(count)]
    return records.encode_batch(made, **options)  # type: ignore[arg-type]


def resealed(raw: bytes, position: int, layout: str, value: int) -> bytes:
    """A batch with one field changed and the CRC made right again."""
    copy = bytearray(raw)
    struct.pack_into(layout, copy, position, value)
    struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return bytes(copy)


def test_sound_batch_reads_every_field() -> None:
    """Each field of the header comes out as it was put in."""
    raw = batch(codec=0, base_offset=70, leader_epoch=5, producer_id=9, producer_epoch=2, base_sequence=40)
    header = batches.check_batch(raw, 0, len(raw))
    assert header == batches.BatchHeader(
        70, len(raw), 5, 2, struct.unpack_from(">I", raw, 17)[0], 0, 2, 1000, 1002, 9, 2, 40, 3
    )
    assert (header.last_offset, header.next_offset, header.codec) == (72, 73, 0)
    assert not header.is_control
    assert not header.is_transactional
    assert not header.uses_log_append_time


def test_attribute_bits_have_their_names() -> None:
    """Codec, timestamp type, transaction and control are told apart."""
    header = batches.read_header(resealed(batch(), 21, ">h", 0x3C))
    assert (header.codec, header.uses_log_append_time, header.is_transactional, header.is_control) == (
        4,
        True,
        True,
        True,
    )


def test_batch_in_the_middle_of_a_view_is_checked_in_place() -> None:
    """A position other than zero, and a memoryview, work like the bytes alone."""
    raw = batch()
    header = batches.check_batch(memoryview(b"junk" + raw + b"more"), 4, 4 + len(raw))
    assert header == batches.check_batch(raw, 0, len(raw))


@pytest.mark.parametrize("cut", [0, 1, 12, 60])
def test_too_few_bytes_for_a_header_are_corrupt(cut: int) -> None:
    """A piece of a header is refused as damaged, not as an error of ours."""
    with pytest.raises(CorruptMessage):
        batches.check_batch(batch()[:cut], 0, cut)
    with pytest.raises(CorruptMessage):
        batches.read_header(batch()[:cut])


def test_batch_larger_than_its_room_is_corrupt() -> None:
    """The announced length may not reach beyond the end."""
    raw = batch()
    with pytest.raises(CorruptMessage):
        batches.check_batch(raw, 0, len(raw) - 1)


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31), 2**31 - 1])
def test_impossible_length_is_corrupt(length: int) -> None:
    """A length below the header's, or a huge one, is refused before anything is read there."""
    raw = bytearray(batch())
    struct.pack_into(">i", raw, 8, length)
    with pytest.raises(CorruptMessage):
        batches.check_batch(raw, 0, len(raw))


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_other_magic_is_invalid(magic: int) -> None:
    """Only magic 2 is served."""
    with pytest.raises(InvalidRecord):
        batches.check_batch(resealed(batch(), 16, ">b", magic), 0, len(batch()))


@given(st.data())
def test_any_flipped_bit_under_the_crc_is_corrupt(data: st.DataObject) -> None:
    """No single damaged bit behind the CRC goes unseen."""
    raw = bytearray(batch())
    position = data.draw(st.integers(17, len(raw) - 1))
    raw[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptMessage):
        batches.check_batch(raw, 0, len(raw))


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [(57, ">i", 0), (57, ">i", -1), (57, ">i", 2), (23, ">i", -1), (23, ">i", 7), (21, ">h", 5), (21, ">h", 0x20)],
)
def test_sound_bytes_that_a_client_may_not_send_are_invalid(position: int, layout: str, value: int) -> None:
    """Wrong counts, unknown codecs and control batches are refused from producers."""
    with pytest.raises(InvalidRecord):
        batches.check_batch(resealed(batch(), position, layout, value), 0, len(batch()))


def test_producer_id_without_sequence_is_invalid() -> None:
    """An idempotent producer's batch must say where it stands."""
    raw = batch(producer_id=4, producer_epoch=0)
    with pytest.raises(InvalidRecord):
        batches.check_batch(raw, 0, len(raw))


@pytest.mark.parametrize(("position", "layout", "value"), [(57, ">i", 0), (57, ">i", 2), (21, ">h", 0x20)])
def test_holes_and_control_batches_from_a_leader_are_taken(position: int, layout: str, value: int) -> None:
    """What compaction and transactions leave in a log can be copied."""
    raw = resealed(batch(), position, layout, value)
    assert batches.check_batch(raw, 0, len(raw), from_client=False).size == len(raw)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_end_in_a_kafka_error(data: bytes, pos: int) -> None:
    """Rubbish never raises anything but the errors that the broker answers with."""
    with pytest.raises(KafkaError):
        batches.check_batch(data, pos, len(data))


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 300))
def test_walk_yields_whole_batches_only(counts: list[int], cut: int) -> None:
    """A run cut anywhere gives exactly the batches that are complete."""
    made = [batch(count, base_offset=10 * i) for i, count in enumerate(counts)]
    run = b"".join(made)
    run = run[: max(0, len(run) - cut)]
    ends = [sum(map(len, made[: i + 1])) for i in range(len(made))]
    walked = list(batches.walk(run, 0, len(run)))
    assert [header.base_offset for _, header in walked] == [10 * i for i, end in enumerate(ends) if end <= len(run)]
    assert [pos + header.size for pos, header in walked] == [end for end in ends if end <= len(run)]


def test_walk_over_rubbish_is_corrupt() -> None:
    """Bytes that cannot be a batch end the walk with an error instead of a loop."""
    with pytest.raises(CorruptMessage):
        list(batches.walk(bytes(100), 0, 100))


def test_new_prefix_leaves_the_crc_right() -> None:
    """A leader's offset and epoch replace the producer's by 16 bytes, both ways of writing them agree."""
    raw = batch()
    replaced = batches.prefix(12345678901, len(raw), 77) + raw[16:]
    in_place = bytearray(raw)
    batches.set_offset_and_epoch(in_place, 0, 12345678901, 77)
    assert replaced == in_place
    header = batches.check_batch(replaced, 0, len(replaced))
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (12345678901, 77, 12345678903)


def test_log_append_time_stamps_all_records() -> None:
    """The broker's time replaces the records' own, and the batch stays sound."""
    stamped = batches.with_log_append_time(memoryview(batch(codec=1)), 5_000_000)
    header = batches.check_batch(stamped, 0, len(stamped))
    assert (header.uses_log_append_time, header.max_timestamp, header.codec) == (True, 5_000_000, 1)
    assert {record.timestamp for record in records.decode_batch(stamped)} == {5_000_000}
