"""All logs of a broker: several data directories, each partition in one of them.

A directory that fails goes offline with its partitions, the others go on. A partition whose files are damaged is
offline alone. Nothing is deleted but by `delete`, by retention, and what a crash has torn (A29).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from brokerd.config import BrokerConfig
from brokerd.storage import checkpoint
from brokerd.storage.errors import FAILED, FULL, LogDamaged, LogDirError, StorageError, storage_error
from brokerd.storage.file_range import FilePool, sync_directory, usual_open_files
from brokerd.storage.flusher import sync_all
from brokerd.storage.log_dir import LogDir
from brokerd.storage.log_writer import FLUSHED, clock_ms
from brokerd.storage.partition_log import PartitionLog
from brokerd.storage.recovery import open_log
from brokerd.storage.remover import Remover
from brokerd.topic_config import TopicConfig
from kafka_wire.errors import InconsistentTopicId, KafkaError, KafkaStorageError
from kafka_wire.ids import TopicPartition

DELETED_DIR = "-delete"
DAMAGED_DIR = "-damaged"
REPORT_EVERY_S = 2.0


class LogManager:
    """The logs of one broker. `load` comes first, `close` last."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        open_files: int | None = None,
        on_offline: Callable[[list[TopicPartition], str], None] = lambda partitions, problem: None,
    ) -> None:
        """`on_offline` is told of partitions that go offline while the broker runs, and why."""
        self.config = config
        self.on_offline = on_offline
        self.dirs = [LogDir(Path(os.path.abspath(path))) for path in dict.fromkeys(config.log_dirs)]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[TopicPartition, str] = {}
        self.suspects: dict[TopicPartition, str] = {}
        self.suspects_unless_flushed: set[TopicPartition] = set()
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cluster_id: str | None = None
        self._pool = FilePool(open_files or usual_open_files())
        self._defaults = TopicConfig.of(config, {})
        self._deleted: list[tuple[int, Path]] = []  # directories of deleted partitions, and when they may go
        self._remover = Remover()

    # ---- starting

    def load(self, report: Callable[[str], None]) -> None:
        """Locks the directories, opens every log, recovers what a crash left. Blocks; `report` gets lines to log.

        Raises LogDirError if a directory is another broker's or in use, or if none can be used.
        """
        for log_dir in self.dirs:
            try:
                for notice in log_dir.open(self.config.broker_id):
                    report(notice)
            except OSError as problem:
                self._dir_failed(log_dir, f"{log_dir.path} cannot be used: {problem.strerror or problem}")
                report(log_dir.problem)
        online = [log_dir for log_dir in self.dirs if log_dir.online]
        if not online:
            raise LogDirError(f"none of the log directories can be used: {self.dirs[0].problem}")
        clusters = {log_dir.cluster_id for log_dir in online} - {None}
        if len(clusters) > 1:
            raise LogDirError(
                f"the log directories belong to different clusters: {', '.join(sorted(map(str, clusters)))}"
            )
        self.cluster_id = next(iter(clusters), None)
        for log_dir in online:
            try:
                self._load_dir(log_dir, report)
                log_dir.start()
            except OSError as problem:
                self._dir_failed(log_dir, f"{log_dir.path} failed while it was read: {problem.strerror or problem}")
                report(log_dir.problem)

    def _load_dir(self, log_dir: LogDir, report: Callable[[str], None]) -> None:
        found = self._partition_dirs(log_dir, report)
        if not log_dir.was_clean and found:
            report(
                f"{log_dir.path}: the last stop was not clean; checking {len(found)} logs from their recovery points"
            )
        started = reported = time.monotonic()
        for number, (tp, directory) in enumerate(found, start=1):
            self._load_log(tp, log_dir, directory, report)
            if time.monotonic() - reported > REPORT_EVERY_S:
                reported = time.monotonic()
                report(f"{log_dir.path}: {number} of {len(found)} logs opened after {reported - started:.0f} s")
        report(f"{log_dir.path}: {len(found)} logs opened in {time.monotonic() - started:.1f} s")

    def _partition_dirs(self, log_dir: LogDir, report: Callable[[str], None]) -> list[tuple[TopicPartition, Path]]:
        found = []
        for entry in os.scandir(log_dir.path):
            if not entry.is_dir():
                continue
            path = Path(entry.path)
            topic, dash, number = entry.name.rpartition("-")
            if entry.name.endswith(DELETED_DIR):
                self._deleted.append((0, path))
            elif dash and topic and number.isdigit():
                found.append((TopicPartition(topic, int(number)), path))
            elif entry.name != "lost+found":
                report(f"{path} is not the directory of a partition; it is left alone")
        return sorted(found)

    def _load_log(self, tp: TopicPartition, log_dir: LogDir, directory: Path, report: Callable[[str], None]) -> None:
        try:
            if tp in self.logs:
                raise LogDamaged(f"{tp} is in {self.logs[tp].directory} and in {directory}; one of them must go")
            log = self._open(tp, checkpoint.read_topic_id(directory), log_dir, directory, report=report)
        except (LogDamaged, checkpoint.BadCheckpoint, KafkaError) as problem:
            self.logs.pop(tp, None)
            self.offline[tp] = str(problem)
            self.suspects[tp] = str(problem)
            report(f"{tp} is offline: {problem}")
            return
        self.logs[tp] = log
        high_watermark = log_dir.high_watermarks.get(tp, 0)
        if log.log_end < high_watermark:
            self.suspects[tp] = f"the log ends at {log.log_end}, below its high watermark {high_watermark}"
            report(f"{tp}: {self.suspects[tp]}")
        elif not log_dir.was_clean and log_dir.was_rebooted:
            self.suspects_unless_flushed.add(tp)
        self.high_watermarks[tp] = min(high_watermark, log.log_end)

    def _open(
        self,
        tp: TopicPartition,
        topic_id: bytes | None,
        log_dir: LogDir,
        directory: Path,
        config: TopicConfig | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> PartitionLog:
        return open_log(
            tp,
            topic_id,
            log_dir,
            directory,
            config or self._defaults,
            self._pool,
            clean=log_dir.was_clean,
            report=report,
            producer_expiration_ms=self.config.producer_id_expiration_ms,
        )

    def configure(self, config: BrokerConfig) -> None:
        """Takes new settings of the broker. Those of a topic's logs change with `PartitionLog.configure`."""
        self.config = config
        self._defaults = TopicConfig.of(config, {})
        for log in self.logs.values():
            log.expire_producers_after(config.producer_id_expiration_ms)

    def is_suspect(self, tp: TopicPartition, durability: str) -> bool:
        """A7: whether the log may have lost records that it once had."""
        return tp in self.suspects or (durability != FLUSHED and tp in self.suspects_unless_flushed)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Stores the cluster that the directories belong to from now on; LogDirError if it is another one already."""
        if self.cluster_id not in (None, cluster_id):
            raise LogDirError(f"the log directories belong to cluster {self.cluster_id}, not to {cluster_id}")
        for log_dir in self.dirs:
            if log_dir.online and log_dir.cluster_id != cluster_id:
                log_dir.set_cluster_id(cluster_id, self.config.broker_id)
        self.cluster_id = cluster_id

    # ---- partitions

    def create(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> PartitionLog:
        """The log of a partition, made if there is none, in the directory with the fewest.

        Raises InconsistentTopicId if a log of another topic with this name is there (A29), and KafkaStorageError if
        the partition is offline or nothing can be created.
        """
        if tp in self.offline:
            raise KafkaStorageError(self.offline[tp])
        log = self.logs.get(tp)
        if log is None:
            log = self.logs[tp] = self._create(tp, topic_id, config)
        elif log.topic_id is None:
            try:
                checkpoint.write_topic_id(log.directory, topic_id)
            except OSError as problem:
                raise self._not_created(tp, log.log_dir, problem) from problem
            log.topic_id = topic_id
        if log.topic_id != topic_id:
            raise InconsistentTopicId(f"{log.directory} is the log of another topic that was called {tp.topic}")
        log.configure(config)
        return log

    def _create(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> PartitionLog:
        held = {log_dir: 0 for log_dir in self.dirs if log_dir.online}
        if not held:
            raise KafkaStorageError("all log directories are offline")
        for log in self.logs.values():
            held[log.log_dir] += 1
        log_dir = min(held, key=lambda one: held[one])
        directory = log_dir.path / f"{tp.topic}-{tp.partition}"
        try:
            log_dir.forget(tp)
            directory.mkdir()
            try:
                checkpoint.write_topic_id(directory, topic_id)
                sync_directory(log_dir.path)
                return self._open(tp, topic_id, log_dir, directory, config)
            except OSError:
                shutil.rmtree(directory, ignore_errors=True)
                raise
        except OSError as problem:
            raise self._not_created(tp, log_dir, problem) from problem

    def _not_created(self, tp: TopicPartition, log_dir: LogDir, problem: OSError) -> KafkaStorageError:
        error = storage_error(problem, f"the log of {tp} cannot be created in {log_dir.path}")
        if error.kind == FAILED:
            self.dir_failed(log_dir, problem)
        return KafkaStorageError(str(error))

    def offline_topic_id(self, tp: TopicPartition) -> bytes | None:
        """Whose the log of an offline partition is; None: its directory is offline, or cannot say."""
        for log_dir in self.dirs:
            directory = log_dir.path / f"{tp.topic}-{tp.partition}"
            if tp in self.offline and log_dir.online and directory.is_dir():
                with contextlib.suppress(OSError, checkpoint.BadCheckpoint):
                    return checkpoint.read_topic_id(directory)
        return None

    def set_aside(self, tp: TopicPartition) -> Path | None:
        """Renames the damaged log of an offline partition, so that it can be copied anew from another broker; the new
        name, for a person who wants to look at it. None: its directory is offline, or there is nothing."""
        places = [one for one in self.dirs if (one.path / f"{tp.topic}-{tp.partition}").is_dir()]
        if tp not in self.offline or len(places) != 1 or not places[0].online:
            return None
        (log_dir,) = places
        away = log_dir.path / f"{tp.topic[:200]}-{tp.partition}.{uuid.uuid4().hex}{DAMAGED_DIR}"
        self._pool.forget_directory(log_dir.path / f"{tp.topic}-{tp.partition}")
        try:
            os.rename(log_dir.path / f"{tp.topic}-{tp.partition}", away)
            sync_directory(log_dir.path)
            log_dir.forget(tp)
        except OSError as problem:
            self.dir_failed(log_dir, problem)
            return None
        del self.offline[tp]
        self.suspects.pop(tp, None)
        return away

    def delete(self, tp: TopicPartition) -> None:
        """Takes a partition's log away; its files go after file.delete.delay.ms. An offline one goes as well."""
        log = self.logs.pop(tp, None)
        self.offline.pop(tp, None)
        self.suspects.pop(tp, None)
        self.suspects_unless_flushed.discard(tp)
        self.high_watermarks.pop(tp, None)
        delay = self._defaults.file_delete_delay_ms if log is None else log.config.file_delete_delay_ms
        for log_dir in self.dirs:
            directory = log_dir.path / f"{tp.topic}-{tp.partition}"
            if not log_dir.online or not directory.is_dir():
                continue
            # The name is cut as Kafka cuts it, so that it stays a valid file name.
            away = log_dir.path / f"{tp.topic[:200]}-{tp.partition}.{uuid.uuid4().hex}{DELETED_DIR}"
            if log is not None:
                log.forget_files()
            else:
                self._pool.forget_directory(directory)
            os.rename(directory, away)
            sync_directory(log_dir.path)
            log_dir.forget(tp)
            self._deleted.append((clock_ms() + delay, away))

    # ---- failing

    def append_failed(self, log: PartitionLog, problem: Exception) -> list[TopicPartition]:
        """A write failed. A full disk is no reason to give up; anything else takes the directory offline.

        Returns the partitions that went offline.
        """
        if isinstance(problem, StorageError) and problem.kind != FAILED:
            return []
        return self.dir_failed(log.log_dir, problem)

    def dir_failed(self, log_dir: LogDir, problem: Exception) -> list[TopicPartition]:
        """A write or flush failed for good: the directory goes offline with its partitions, which are returned."""
        text = str(problem)
        if isinstance(problem, OSError):
            text = problem.strerror or text
        return self._dir_failed(log_dir, f"{log_dir.path} is offline: {text}")

    def _dir_failed(self, log_dir: LogDir, problem: str) -> list[TopicPartition]:
        log_dir.fail(problem)
        gone = [tp for tp, log in self.logs.items() if log.log_dir is log_dir]
        for tp in gone:
            del self.logs[tp]
            self.offline[tp] = log_dir.problem
        if gone:
            self.on_offline(gone, log_dir.problem)
        return gone

    # ---- upkeep

    def apply_retention(
        self,
        now_ms: int,
        high_watermark_of: Callable[[TopicPartition], int],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> int:
        """Removes old segments and files whose time has come; returns how many segments went.

        `partitions` restricts it to some: with thousands of them, one call would keep the reactor too long.
        """
        count = 0
        for tp in list(self.logs if partitions is None else partitions):
            log = self.logs.get(tp)
            if log is None:
                continue  # its directory failed meanwhile
            try:
                count += log.delete_old(now_ms, high_watermark_of(tp))
            except StorageError as problem:
                self.append_failed(log, problem)
            self._remover.remove(log.purge(now_ms))
        due = [path for when, path in self._deleted if when <= now_ms]
        self._deleted = [(when, path) for when, path in self._deleted if when > now_ms]
        self._remover.remove(map(str, due))
        return count

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Stores recovery points, log starts and high watermarks. Blocks for some syncs: see `checkpoint_job`."""
        for log_dir, problem in self.checkpoint_job(high_watermarks)():
            self.dir_failed(log_dir, problem)

    def checkpoint_job(
        self, high_watermarks: Mapping[TopicPartition, int]
    ) -> Callable[[], list[tuple[LogDir, OSError]]]:
        """`checkpoint` in two steps: this one belongs to the reactor, the function that it returns may run in any
        thread; what that one returns is to be given to `dir_failed`."""
        self.high_watermarks.update(high_watermarks)
        jobs = []
        for log_dir in self.dirs:
            if not log_dir.online:
                continue
            logs = self._logs_in(log_dir)
            for log in logs:
                with contextlib.suppress(OSError, StorageError):  # only the next start would take longer
                    log.prepare_checkpoint()
            jobs.append((log_dir, *self._checkpoints(logs), log_dir.version))

        def store() -> list[tuple[LogDir, OSError]]:
            failed = []
            for log_dir, points, starts, marks, version in jobs:
                try:
                    log_dir.store_checkpoints(points, starts, marks, version)
                except OSError as problem:
                    if storage_error(problem, "").kind != FULL:
                        failed.append((log_dir, problem))
            return failed

        return store

    def _logs_in(self, log_dir: LogDir) -> list[PartitionLog]:
        return [log for log in self.logs.values() if log.log_dir is log_dir]

    def _checkpoints(
        self, logs: list[PartitionLog]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
        return (
            {log.tp: log.flushed for log in logs},
            {log.tp: log.log_start for log in logs if log.log_start > log.first_offset},
            {log.tp: self.high_watermarks.get(log.tp, 0) for log in logs},
        )

    # ---- stopping

    def close(self, high_watermarks: Mapping[TopicPartition, int]) -> list[str]:
        """Flushes everything, stores the checkpoints and the clean-shutdown marker, lets go of the directories.

        Returns what went wrong: a directory that failed gets no marker, and the next start will look at its logs.
        """
        self.high_watermarks.update(high_watermarks)
        self._remover.stop()
        for log_dir in self.dirs:
            if log_dir.online:
                try:
                    self._close_dir(log_dir)
                except (OSError, StorageError) as problem:
                    self.dir_failed(log_dir, problem)
            log_dir.unlock()
        return [log_dir.problem for log_dir in self.dirs if not log_dir.online]

    def _close_dir(self, log_dir: LogDir) -> None:
        logs = self._logs_in(log_dir)
        sync_all(log_dir, {log: log.close() for log in logs})
        for log in logs:
            log.closed()
        log_dir.store_checkpoints(*self._checkpoints(logs), log_dir.version)
        log_dir.mark_clean()
