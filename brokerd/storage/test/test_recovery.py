"""Starts after a crash: nothing durable is lost, nothing torn is served, nothing damaged is hidden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerd.storage.segment_file import SegmentFile
from brokerd.storage.test.kit import NOW, TP, Home, append, batch, read_all, segment_paths, sequenced, values
from kafka_wire.errors import KafkaStorageError

SIZE = len(batch("10"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A broker's data directory with tiny segments."""
    return Home(tmp_path / "data")


def filled(home: Home, count: int = 40, start: int = 0) -> None:
    """Batches with one record each, their values counting up."""
    append(home.log(), *[batch(str(number), timestamp=NOW + number) for number in range(start, start + count)])


def texts(count: int) -> list[str]:
    """What `filled` wrote."""
    return [str(number) for number in range(count)]


def flip(path: Path, place: int) -> None:
    """One bit."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_F33_cut_at_every_byte_of_the_last_batch(home: Home) -> None:
    """Always exactly the whole batches before the cut, and appends go on."""
    filled(home, 5)
    path = segment_paths(home.log())[-1]
    whole = path.read_bytes()
    home.manager.close({})
    (home.paths[0] / ".kafka_cleanshutdown").unlink()
    (home.paths[0] / "recovery-point-offset-checkpoint").unlink()
    size = len(whole) // 5
    for cut in range(len(whole) - size, len(whole) + 1):
        path.write_bytes(whole[:cut])
        home.start()
        log = home.manager.logs[TP]
        kept = 4 if cut < len(whole) else 5
        assert values(read_all(log)) == texts(kept)
        assert path.stat().st_size == kept * size
        assert append(log, batch("next"))[0].first_offset == kept
        home.crash()


def test_garbage_after_the_tail_is_cut_and_reported(home: Home) -> None:
    """With a line that says how much."""
    filled(home, 3)
    path = segment_paths(home.log())[-1]
    home.crash()
    with path.open("ab") as file:
        file.write(b"\0" * 500)
    home.start()
    assert values(read_all(home.manager.logs[TP])) == texts(3)
    assert any("500 bytes after offset 3" in line for line in home.reports)


def test_bad_batch_after_the_recovery_point_ends_the_log(home: Home) -> None:
    """And later segments go with what cannot be reached any more."""
    filled(home, 60)
    paths = segment_paths(home.log())
    assert len(paths) > 3
    home.crash()
    flip(paths[1], 100)
    home.start()
    log = home.manager.logs[TP]
    found = values(read_all(log))
    assert found == texts(len(found))
    assert int(paths[1].stem) <= len(found) < int(paths[2].stem)
    assert segment_paths(log) == paths[:2]
    filled(home, 40, len(found))
    assert values(read_all(home.log())) == texts(len(found) + 40)


def test_hole_between_segments_ends_the_log(home: Home) -> None:
    """A segment whose end never reached the disk was whole batches only: offsets tell."""
    filled(home)
    paths = segment_paths(home.log())
    home.crash()
    size = paths[1].stat().st_size
    count = int(paths[2].stem) - int(paths[1].stem)
    os.truncate(paths[1], size - size // count)
    home.start()
    log = home.manager.logs[TP]
    assert log.log_end == int(paths[2].stem) - 1
    assert values(read_all(log)) == texts(log.log_end)


@pytest.mark.parametrize("damage", ["flip a header", "cut", "remove the segment", "remove all"])
def test_damage_below_the_recovery_point_takes_the_partition_offline(home: Home, damage: str) -> None:
    """It is never shortened: the message says what is wrong, and the files stay as they are."""
    filled(home)
    home.log().flush()
    home.manager.checkpoint({})
    paths = segment_paths(home.log())
    home.crash()
    if damage == "flip a header":
        flip(paths[-1], paths[-1].stat().st_size - SIZE + 16)
    elif damage == "cut":
        os.truncate(paths[-1], paths[-1].stat().st_size - 1)
    elif damage == "remove the segment":
        paths[-1].unlink()
    else:
        for path in paths:
            path.unlink()
    before = {path.name: path.read_bytes() for path in sorted(paths[0].parent.glob("*.log"))}
    home.start()
    assert TP not in home.manager.logs
    assert "durable" in home.manager.offline[TP]
    assert TP in home.manager.suspects
    assert {path.name: path.read_bytes() for path in sorted(paths[0].parent.glob("*.log"))} == before
    with pytest.raises(KafkaStorageError, match="durable"):
        home.log()


def test_same_damage_above_the_recovery_point_is_only_a_torn_tail(home: Home) -> None:
    """The control of the test before: without the checkpoint the log is cut instead."""
    filled(home)
    path = segment_paths(home.log())[-1]
    home.crash()
    os.truncate(path, path.stat().st_size - 1)
    home.start()
    assert values(read_all(home.manager.logs[TP])) == texts(39)


def test_only_what_is_above_the_recovery_point_is_scanned(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to start does not grow with the log."""
    filled(home, 200)
    home.log().flush()
    home.manager.checkpoint({})
    filled(home, 5, 200)
    home.crash()
    scanned: list[int] = []
    scan = SegmentFile.scan

    def counted(self: SegmentFile, position: int) -> object:
        for found in scan(self, position):
            scanned.append(found[1].base_offset)
            yield found

    monkeypatch.setattr(SegmentFile, "scan", counted)
    home.start()
    assert scanned == [200, 201, 202, 203, 204]
    assert values(read_all(home.manager.logs[TP])) == texts(205)


def test_clean_start_scans_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marker says that everything is there; it is gone once the broker runs."""
    filled(home, 100)
    home.manager.close({TP: 100})
    assert (home.paths[0] / ".kafka_cleanshutdown").exists()
    monkeypatch.setattr(SegmentFile, "scan", None)
    monkeypatch.setattr(SegmentFile, "headers", _refuse_more_than_one(SegmentFile.headers))
    home.start()
    assert not (home.paths[0] / ".kafka_cleanshutdown").exists()
    monkeypatch.undo()
    assert values(read_all(home.manager.logs[TP])) == texts(100)
    assert home.manager.high_watermarks[TP] == 100


def _refuse_more_than_one(headers: object) -> object:
    def limited(self: SegmentFile, position: int) -> object:
        for number, found in enumerate(headers(self, position)):  # type: ignore[operator]
            assert number == 0, "a clean start walked the log"
            yield found

    return limited


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_lost_indexes_are_made_again(home: Home, suffix: str, clean: bool) -> None:
    """The same entries as before, wherever the stop was clean."""
    filled(home, 60)
    home.stop()
    home.manager.close({})
    paths = sorted(home.paths[0].glob(f"*/*{suffix}"))
    contents = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    if not clean:
        (home.paths[0] / ".kafka_cleanshutdown").unlink()
        (home.paths[0] / "recovery-point-offset-checkpoint").unlink()
    home.start()
    log = home.manager.logs[TP]
    for number in range(60):
        assert log.offset_for_timestamp(NOW + number, 60) == (NOW + number, number, 0)
    home.manager.close({})
    assert len(contents) > 2
    assert all(path.stat().st_size for path in paths)


def test_zeros_in_an_index_are_noticed(home: Home) -> None:
    """Kafka's preallocation, or what a file system leaves after a power loss."""
    filled(home, 30)
    home.log().flush()
    home.manager.checkpoint({})
    home.crash()
    for path in home.paths[0].glob("*/*index"):
        with path.open("ab") as file:
            file.write(bytes(240))
    home.start()
    assert values(read_all(home.manager.logs[TP])) == texts(30)
    assert home.manager.logs[TP].max_timestamp(30) == (NOW + 29, 29, 0)


def test_damaged_epoch_file_is_made_again(home: Home) -> None:
    """The batches carry their epochs."""
    log = home.log()
    append(log, batch("a"), batch("b"))
    log.start_epoch(5)
    append(log, batch("c"), epoch=5)
    home.crash()
    (log.directory / "leader-epoch-checkpoint").write_bytes(b"\xff\xff")
    home.start()
    assert home.manager.logs[TP].epoch_end_offset(0) == (0, 2)
    assert home.manager.logs[TP].latest_epoch == 5


def test_damaged_snapshots_do_not_matter(home: Home) -> None:
    """Producers are found in the log."""
    append(home.log(), *[sequenced(number) for number in range(40)])
    home.stop()
    home.manager.close({})
    for path in home.paths[0].glob("*/*.snapshot"):
        flip(path, 12)
    home.start()
    log = home.manager.logs[TP]
    assert log.append_as_leader(sequenced(36), 0, NOW).duplicate
    assert not log.append_as_leader(sequenced(40), 0, NOW).duplicate


def test_A7_log_below_its_high_watermark_is_suspect(home: Home) -> None:
    """Records that consumers have seen are gone."""
    filled(home, 5)
    home.manager.checkpoint({TP: 5})
    (home.paths[0] / "recovery-point-offset-checkpoint").unlink()
    path = segment_paths(home.log())[-1]
    home.crash()
    os.truncate(path, path.stat().st_size - 1)
    home.start()
    assert "high watermark 5" in home.manager.suspects[TP]
    assert home.manager.is_suspect(TP, "flushed")


@pytest.mark.parametrize(
    ("rebooted", "durability", "suspect"),
    [(True, "replicated", True), (True, "flushed", False), (False, "replicated", False)],
)
def test_A7_power_loss_makes_replicated_logs_suspect(
    home: Home, rebooted: bool, durability: str, suspect: bool
) -> None:
    """The same boot id means that the page cache has survived: SIGKILL must not cost a place in the ISR."""
    filled(home, 5)
    home.crash()
    if rebooted:
        (home.paths[0] / ".barnabas.properties").write_text("boot.id=another\n")
    home.start()
    assert home.manager.is_suspect(TP, durability) is suspect


def test_unclean_start_flushes_before_it_serves(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was only in the page cache counts as flushed afterwards."""
    filled(home, 5)
    assert home.log().flushed == 0
    home.crash()
    synced: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    home.start()
    assert home.manager.logs[TP].flushed == 5
    assert str(segment_paths(home.manager.logs[TP])[-1]) in synced
