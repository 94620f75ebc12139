"""All logs of a broker: identity, several directories, checkpoints, deletion."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from brokerd.storage import checkpoint
from brokerd.storage.deferred_sync import without_sync
from brokerd.storage.errors import LogDirError
from brokerd.storage.log_manager import LogManager
from brokerd.storage.test.kit import NOW, SMALL, TOPIC_ID, TP, Home, append, batch, broker_config, read_all, values
from kafka_wire.errors import InconsistentTopicId, KafkaStorageError
from kafka_wire.ids import TopicPartition


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A broker's data directory with tiny segments."""
    return Home(tmp_path / "data")


def test_fresh_directory_gets_kafkas_files(home: Home) -> None:
    """Names and contents."""
    append(home.log(), batch("a"))
    home.manager.set_cluster_id("cluster-x")
    home.manager.close({TP: 1})
    data = home.paths[0]
    assert (data / "meta.properties").read_text() == "version=0\nbroker.id=1\ncluster.id=cluster-x\n"
    assert (data / "recovery-point-offset-checkpoint").read_text() == "0\n1\nevents 0 1\n"
    assert (data / "replication-offset-checkpoint").read_text() == "0\n1\nevents 0 1\n"
    assert (data / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert sorted(path.name for path in (data / "events-0").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (data / "events-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"


def test_second_broker_is_refused_by_the_lock(home: Home) -> None:
    """And may have the directory once the first one is gone."""
    other = LogManager(broker_config(home.paths[0]))
    with pytest.raises(LogDirError, match="in use"):
        other.load(print)
    home.manager.close({})
    other.load(print)


def test_directory_of_another_broker_is_refused(home: Home) -> None:
    """By name."""
    home.manager.close({})
    other = LogManager(broker_config(home.paths[0], broker_id="2"))
    with pytest.raises(LogDirError, match="belongs to broker 1, not to 2"):
        other.load(print)


def test_cluster_id_is_kept_and_another_one_refused(home: Home) -> None:
    """A wrong ZooKeeper must not be served from these files."""
    before = home.manager.cluster_id
    home.manager.set_cluster_id("x")
    home.stop()
    assert (before, home.manager.cluster_id) == (None, "x")
    with pytest.raises(LogDirError, match="belong to cluster x"):
        home.manager.set_cluster_id("y")


def test_directories_of_different_clusters_are_refused(tmp_path: Path) -> None:
    """One of them was moved here by mistake."""
    for name in ("a", "b"):
        one = Home(tmp_path / name)
        one.manager.set_cluster_id(name)
        one.manager.close({})
    with pytest.raises(LogDirError, match="different clusters: a, b"):
        LogManager(broker_config(tmp_path / "a", tmp_path / "b")).load(print)


def test_unusable_directory_is_offline_and_the_other_one_serves(tmp_path: Path) -> None:
    """A file where the directory should be."""
    (tmp_path / "a").write_text("not a directory")
    home = Home(tmp_path / "a", tmp_path / "b")
    assert [log_dir.online for log_dir in home.manager.dirs] == [False, True]
    append(home.log(), batch("a"))
    assert any("cannot be used" in line for line in home.reports)


def test_no_usable_directory_is_an_error(tmp_path: Path) -> None:
    """There is nothing to serve from."""
    (tmp_path / "a").write_text("not a directory")
    with pytest.raises(LogDirError, match="none of the log directories"):
        Home(tmp_path / "a")


def test_partitions_are_spread_and_found_again(tmp_path: Path) -> None:
    """Each new one goes where the fewest are."""
    home = Home(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    for number in range(7):
        append(home.log(TopicPartition("t-x", number)), batch(str(number)))
    home.stop()
    assert sorted(tp.partition for tp in home.manager.logs) == list(range(7))
    for tp, log in home.manager.logs.items():
        assert values(read_all(log)) == [str(tp.partition)]
        assert log.topic_id == TOPIC_ID
    held = [log.log_dir for log in home.manager.logs.values()]
    assert sorted(held.count(log_dir) for log_dir in home.manager.dirs) == [2, 2, 3]


def test_A29_another_topic_id_under_the_same_name_is_refused(home: Home) -> None:
    """Its records belong to somebody else."""
    append(home.log(), batch("a"))
    with pytest.raises(InconsistentTopicId):
        home.manager.create(TP, bytes(16), SMALL)
    assert values(read_all(home.log())) == ["a"]


def test_deleted_partition_can_be_created_anew(home: Home) -> None:
    """From offset 0, with nothing of the old one, also after a crash."""
    log = home.log()
    append(log, *[batch(str(number)) for number in range(20)])
    log.flush()
    log.advance_log_start(5)
    home.manager.checkpoint({TP: 20})
    home.manager.delete(TP)
    assert TP not in home.manager.logs
    away = [path.name for path in home.paths[0].iterdir() if path.name.endswith("-delete")]
    assert len(away) == 1
    new = home.manager.create(TP, bytes(16), SMALL)
    append(new, batch("new"))
    home.crash()
    home.start()
    assert not home.manager.offline
    log = home.manager.logs[TP]
    assert (log.log_start, log.topic_id) == (0, bytes(16))
    assert values(read_all(log)) == ["new"]


def test_files_of_a_deleted_partition_go_after_the_delay(home: Home) -> None:
    """And at a start at once."""
    home.log()
    home.manager.delete(TP)
    home.manager.apply_retention(0, lambda tp: 0)
    assert list(home.paths[0].glob("*-delete"))
    home.crash()
    home.start()
    home.manager.apply_retention(1, lambda tp: 0)
    home.manager.close({})
    assert not list(home.paths[0].glob("*-delete"))


def test_retention_runs_over_all_logs(home: Home) -> None:
    """Up to each one's high watermark."""
    home.settings(retention_ms=0)
    for number in range(2):
        append(home.log(TP._replace(partition=number)), *[batch(str(text)) for text in range(40)])
    gone = home.manager.apply_retention(NOW + 10_000, lambda tp: 40 if tp.partition == 0 else 0)
    assert gone > 1
    assert [log.log_start for log in home.manager.logs.values()] == [40, 0]


def test_checkpoint_survives_a_crash(home: Home) -> None:
    """High watermarks, recovery points and log starts."""
    log = home.log()
    append(log, *[batch(str(text)) for text in range(30)])
    log.flush()
    log.advance_log_start(7)
    home.manager.checkpoint({TP: 25})
    home.crash()
    home.start()
    assert home.manager.high_watermarks[TP] == 25
    assert home.manager.dirs[0].recovery_points[TP] == 30
    assert home.manager.logs[TP].log_start == 7


def test_checkpoint_does_not_take_a_newer_log_start_back(home: Home) -> None:
    """A job that runs late in another thread."""
    log = home.log()
    append(log, *[batch(str(text)) for text in range(30)])
    log.advance_log_start(3)
    job = home.manager.checkpoint_job({})
    log.advance_log_start(9)
    assert job() == []
    assert home.manager.dirs[0].log_starts[TP] == 9


def test_late_checkpoint_does_not_outlive_a_cut(home: Home) -> None:
    """A recovery point beyond the end would look like damage at the next start."""
    log = home.log()
    append(log, *[batch(str(text)) for text in range(30)])
    log.flush()
    job = home.manager.checkpoint_job({TP: 30})
    log.truncate_to(10)
    job()
    home.crash()
    home.start()
    assert home.manager.logs[TP].log_end == 10
    assert TP not in home.manager.suspects


def test_full_disk_at_creation_leaves_nothing_behind(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try may succeed."""

    def full(directory: Path, topic_id: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_topic_id", full)
    with pytest.raises(KafkaStorageError, match="No space left"):
        home.log()
    monkeypatch.undo()
    assert home.manager.dirs[0].online
    append(home.log(), batch("a"))


def test_new_log_is_made_without_waiting_where_that_is_deferred(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand new partitions are synced together, not one by one."""
    home.log()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with without_sync():
        home.log(TP._replace(partition=1))
    assert synced == []
    home.log(TP._replace(partition=2))
    assert synced


def test_failed_close_leaves_no_marker_and_says_why(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start looks at the logs."""
    append(home.log(), batch("a"))

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    (problem,) = home.manager.close({})
    monkeypatch.undo()
    assert "Input/output error" in problem
    assert not (home.paths[0] / ".kafka_cleanshutdown").exists()
    home.start()
    assert values(read_all(home.manager.logs[TP])) == ["a"]


def test_damaged_checkpoint_is_reported_and_done_without(home: Home) -> None:
    """The logs are then read from their beginning."""
    append(home.log(), batch("a"))
    home.manager.checkpoint({})
    home.crash()
    (home.paths[0] / "recovery-point-offset-checkpoint").write_bytes(b"\xff\x00")
    home.start()
    assert any("recovery-point-offset-checkpoint" in line for line in home.reports)
    assert values(read_all(home.manager.logs[TP])) == ["a"]


def test_same_partition_in_two_directories_is_offline(tmp_path: Path) -> None:
    """Nobody can tell which one is right."""
    for name in ("a", "b"):
        one = Home(tmp_path / name)
        append(one.log(), batch(name))
        one.manager.close({})
    home = Home(tmp_path / "a", tmp_path / "b")
    assert "one of them must go" in home.manager.offline[TP]
    assert TP not in home.manager.logs


def test_notes_are_remembered(home: Home) -> None:
    """For what others must find again in the locked directory (A8)."""
    log_dir = home.manager.dirs[0]
    log_dir.remember({"zookeeper.session": "0x1"})
    log_dir.remember({"zxid": "17"})
    home.stop()
    assert home.manager.dirs[0].recall("zookeeper.session") == "0x1"
    assert home.manager.dirs[0].recall("zxid") == "17"
    assert home.manager.dirs[0].recall("other") is None


def test_damaged_log_is_set_aside_and_kept(home: Home) -> None:
    """Another broker has the records: ours is copied anew, and nothing is deleted."""
    append(home.log(), batch("a", "b"))
    home.log().flush()
    home.manager.checkpoint({TP: 2})
    home.manager.close({TP: 2})
    os.truncate(home.paths[0] / "events-0" / "00000000000000000000.log", 10)
    (home.paths[0] / ".kafka_cleanshutdown").unlink()
    manager = LogManager(broker_config(*home.paths))
    manager.load(lambda text: None)
    assert TP in manager.offline
    away = manager.set_aside(TP)
    assert away is not None
    assert (away / "00000000000000000000.log").exists()
    copy = manager.create(TP, TOPIC_ID, SMALL)
    append(copy, batch("c"))
    assert (home.paths[0] / "events-0" / "00000000000000000000.log").stat().st_size == copy.size, "a file of its own"
    assert manager.set_aside(TP) is None
    manager.close({})
