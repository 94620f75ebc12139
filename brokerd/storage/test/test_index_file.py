"""Index files: memory and disk give the same answers."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from brokerd.storage.file_range import FilePool
from brokerd.storage.index_file import IndexFile
from brokerd.storage.offset_index import OffsetIndex
from brokerd.storage.time_index import TimeIndex


def made(path: Path, entries: list[tuple[int, int]]) -> IndexFile:
    """An index with entries in memory."""
    index = IndexFile(str(path), "qi", FilePool())
    index.start_over()
    for entry in entries:
        index.add(*entry)
    return index


@given(st.sets(st.integers(0, 100), max_size=20), st.integers(-1, 101))
def test_search_in_memory_and_on_disk_agree(tmp_path_factory: object, numbers: set[int], limit: int) -> None:
    """Whether an index is held is nobody's business."""
    path = tmp_path_factory.mktemp("index") / "x"  # type: ignore[attr-defined]
    entries = [(number, 2 * number) for number in sorted(numbers)]
    held = made(path, entries)
    held.store()
    stored = IndexFile(str(path), "qi", FilePool())
    for column in (0, 1):
        expected = [entry for entry in entries if entry[column] <= limit]
        for index in (held, stored):
            assert index.count_up_to(limit, column) == len(expected)
            assert index.last_up_to(limit, column) == (expected[-1] if expected else None)


def test_store_writes_only_what_is_new(tmp_path: Path) -> None:
    """And after a release the file says the same."""
    index = made(tmp_path / "x", [(1, 2)])
    index.store()
    index.add(3, 4)
    index.store()
    index.store()
    assert (tmp_path / "x").stat().st_size == 24
    index.release()
    assert [index.entry(0), index.entry(1)] == [(1, 2), (3, 4)]
    assert not index.is_held


def test_start_over_replaces_an_old_file(tmp_path: Path) -> None:
    """What a crash left under the name does not come back."""
    (tmp_path / "x").write_bytes(bytes(120))
    index = made(tmp_path / "x", [(1, 2)])
    index.store()
    assert (tmp_path / "x").stat().st_size == 12


def test_truncation_holds_in_memory_and_file(tmp_path: Path) -> None:
    """Entries beyond a cut are gone for good."""
    index = made(tmp_path / "x", [(1, 2), (3, 4), (5, 6)])
    index.store()
    index.truncate(1)
    index.add(4, 5)
    index.release()
    index.hold()
    assert [index.entry(0), index.entry(1)] == [(1, 2), (4, 5)]
    assert len(index) == 2


def test_soundness(tmp_path: Path) -> None:
    """Kafka's preallocated zeros, a cut entry and a missing file are not sound."""
    index = made(tmp_path / "x", [(1, 2), (3, 4)])
    index.release()
    assert index.is_sound()
    with (tmp_path / "x").open("ab") as file:
        file.write(bytes(24))
    assert not IndexFile(index.path, "qi", FilePool()).is_sound()
    (tmp_path / "x").write_bytes(bytes(13))
    assert not IndexFile(index.path, "qi", FilePool()).is_sound()
    (tmp_path / "x").unlink()
    assert not IndexFile(index.path, "qi", FilePool()).is_sound()


def test_offset_and_time_index_have_kafkas_entries(tmp_path: Path) -> None:
    """8 bytes: relative offset, position; 12 bytes: timestamp, relative offset."""
    offsets = OffsetIndex(str(tmp_path / "o"), 100, FilePool())
    times = TimeIndex(str(tmp_path / "t"), 100, FilePool())
    for index in (offsets, times):
        index.start_over()
        index.add(5, 6)
        index.store()
    assert (tmp_path / "o").read_bytes().hex() == "0000000500000006"
    assert (tmp_path / "t").read_bytes().hex() == "000000000000000500000006"
    assert offsets.batch_before(10) == 6
    assert offsets.batch_before(5) == 0
    assert times.offset_before(6) == 106
    assert times.offset_before(5) == 100
    assert times.last() == (5, 106)
    assert times.highest_up_to(105) is None
