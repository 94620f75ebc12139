"""Files of a log directory: what is sound is shown, and damage is found where it begins."""

import io
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.log_files import (
    Damage,
    OffsetEntry,
    ProducerEntry,
    StoredBatch,
    TimeEntry,
    base_offset_of,
    check_index,
    kind_of,
    read_checkpoint,
    read_index,
    read_log,
    read_snapshot,
    read_time_index,
)
from brokerd.storage.producer_state import Producer, decode_snapshot, encode_snapshot
from kafka_wire.records import Record, encode_batch


def batch(base_offset: int, count: int = 2) -> bytes:
    return encode_batch([Record(0, 10 + i, None, b"v%d" % i) for i in range(count)], base_offset=base_offset)


FIRST, SECOND = batch(0), batch(2, 3)
LOG = FIRST + SECOND


def contents(data: bytes) -> list[StoredBatch | Damage]:
    return list(read_log(io.BytesIO(data), len(data)))


def damage_of(data: bytes) -> Damage:
    """The only damage, which is what the reader ends with."""
    *sound, last = contents(data)
    assert all(isinstance(found, StoredBatch) and found.problem is None for found in sound)
    assert isinstance(last, Damage)
    return last


def test_sound_log_gives_its_batches() -> None:
    """Positions, headers, and no problem."""
    found = contents(LOG)
    assert [
        (each.position, each.header.base_offset, each.problem) for each in found if isinstance(each, StoredBatch)
    ] == [(0, 0, None), (len(FIRST), 2, None)]
    assert contents(b"") == []


@given(st.integers(1, len(LOG) - 1))
def test_log_that_is_cut_is_damaged_where_the_cut_batch_begins(size: int) -> None:
    """Whole batches before the cut are shown."""
    if size == len(FIRST):
        assert len(contents(LOG[:size])) == 1
    else:
        damage = damage_of(LOG[:size])
        assert damage.position == (0 if size < len(FIRST) else len(FIRST))
        assert damage.unread == size - damage.position


@given(st.integers(17, len(FIRST) - 1), st.integers(1, 255))
def test_changed_byte_is_found(place: int, change: int) -> None:
    """Whatever byte behind the length changes, the batch is not valid, and the next one is still shown."""
    data = bytearray(LOG)
    data[place] ^= change
    first, second = contents(bytes(data))
    assert isinstance(first, StoredBatch)
    assert first.problem is not None
    assert isinstance(second, StoredBatch)
    assert second.problem is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (LOG + bytes(500), "zeros"),
        (LOG + b"\xff" * 500, "no batch begins here"),
        (LOG + FIRST[:16] + b"\1" + FIRST[17:], "magic 1"),
        (LOG + SECOND[:8] + struct.pack(">i", 5) + SECOND[12:], "no batch begins here"),
    ],
)
def test_what_is_no_batch_is_named(data: bytes, words: str) -> None:
    """Reserved space, rubbish and old formats are told apart."""
    damage = damage_of(data)
    assert damage.position == len(LOG)
    assert words in damage.reason


def test_offset_that_goes_back_is_a_problem() -> None:
    """Batches are in order."""
    *_, last = contents(LOG + FIRST)
    assert isinstance(last, StoredBatch)
    assert "below 5" in (last.problem or "")


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    """No content makes a reader fail."""
    contents(data)
    list(read_index(data, 0))
    list(read_time_index(data, 0))
    list(read_snapshot(data))
    list(read_checkpoint(data, 2))


def test_index_entries_are_shown_without_reserved_space() -> None:
    """Offsets are absolute; zeros behind the entries are no entries, and a cut entry is damage."""
    data = struct.pack(">iiii", 4, 4096, 9, 8192)
    expected = [OffsetEntry(104, 4096), OffsetEntry(109, 8192)]
    assert list(read_index(data + bytes(80), 100)) == expected
    assert list(read_index(bytes(80), 100)) == []
    assert list(read_index(data + b"\1\2\3", 100)) == [
        *expected,
        Damage(16, "3 bytes are too few for an entry of 8", 3),
    ]


def test_index_that_goes_back_is_damaged() -> None:
    """An entry before its predecessor ends the reading."""
    first, damage = read_index(struct.pack(">iiii", 9, 4096, 4, 8192), 0)
    assert first == OffsetEntry(9, 4096)
    assert isinstance(damage, Damage)
    assert damage.position == 8


def test_time_index_entries_are_shown() -> None:
    """Times rise; otherwise it is damaged."""
    data = struct.pack(">qiqi", 1000, 1, 2000, 7)
    assert list(read_time_index(data + bytes(24), 50)) == [TimeEntry(1000, 51), TimeEntry(2000, 57)]
    assert isinstance(list(read_time_index(struct.pack(">qiqi", 2000, 1, 1000, 7), 0))[-1], Damage)


def test_index_is_compared_with_its_log() -> None:
    """An entry points to the begin of a batch that its offset can be in."""
    log = io.BytesIO(LOG)
    assert check_index(OffsetEntry(4, len(FIRST)), log, len(LOG)) is None
    assert "no batch" in (check_index(OffsetEntry(4, len(FIRST) + 1), log, len(LOG)) or "")
    assert "begins at offset 2" in (check_index(OffsetEntry(1, len(FIRST)), log, len(LOG)) or "")
    assert "beyond" in (check_index(OffsetEntry(9, 10_000), log, len(LOG)) or "")


def test_snapshot_of_the_broker_is_read() -> None:
    """What the storage writes, and refuses when it is damaged, is shown or named."""
    entry = struct.pack(">qhiqiqiq", 7, 1, 4, 104, 2, 1234, -1, -1)
    body = struct.pack(">i", 1) + entry
    data = struct.pack(">hI", 1, crc32c(body)) + body
    assert list(read_snapshot(data)) == [ProducerEntry(7, 1, 4, 104, 2, 1234, -1, -1)]
    producers: dict[int, Producer] = dict(decode_snapshot(data))
    assert list(read_snapshot(encode_snapshot(producers))) == [ProducerEntry(7, 1, 4, 104, 2, 1234, -1, -1)]
    for broken in (data[:-1], data[:-1] + b"\0", b"\0\2" + data[2:], b""):
        [damage] = read_snapshot(broken)
        assert isinstance(damage, Damage)


def test_checkpoint_lines_are_checked_against_their_number() -> None:
    """Fields of each line; too many, too few and odd lines are damage."""
    assert list(read_checkpoint(b"0\n2\n0 0\n3 17\n", 2)) == [[0, 0], [3, 17]]
    for broken in (b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0 0\n1 1\n", b"0\n1\nx y\n", b"0\n1\n1\n"):
        assert isinstance(list(read_checkpoint(broken, 2))[-1], Damage)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000000000000000042.log", "log"),
        ("00000000000000000042.log.deleted", "log"),
        ("00000000000000000042.index", "index"),
        ("00000000000000000042.timeindex", "timeindex"),
        ("00000000000000000042.snapshot", "snapshot"),
        ("leader-epoch-checkpoint", "checkpoint"),
        ("meta.properties", None),
    ],
)
def test_kind_follows_from_the_name(name: str, kind: str | None) -> None:
    """The name says how to read a file, and where its segment begins."""
    assert kind_of(Path(name)) == kind
    assert base_offset_of(Path(name)) == (42 if name.startswith("0") else 0)
