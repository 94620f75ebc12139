"""One data directory: its lock, its identity, its clean-shutdown marker and its checkpoints, in Kafka's formats.

    .lock                                flock: one broker at a time
    meta.properties                      version=0, broker.id, cluster.id
    .kafka_cleanshutdown                 there only between a clean stop and the next start
    recovery-point-offset-checkpoint     everything below is on the disk
    log-start-offset-checkpoint          where logs start whose first segment starts earlier (DeleteRecords)
    replication-offset-checkpoint        high watermarks
    .barnabas.properties                 ours: the machine's boot id at the last start, and what others remember here

The checkpoints are kept here as they were last stored. They may be stored from any thread.
"""

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import javaproperties

from brokerd.storage import checkpoint
from brokerd.storage.deferred_sync import with_sync
from brokerd.storage.errors import LogDirError
from brokerd.storage.file_range import OpenFile, sync_directory
from kafka_wire.ids import TopicPartition

LOCK = ".lock"
META = "meta.properties"
CLEAN = ".kafka_cleanshutdown"
NOTES = ".barnabas.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_MARKER = {"version": 0, "brokerEpoch": -1}
BOOT_ID = "boot.id"
_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Names this run of the machine; "" where the system does not say."""
    try:
        return _BOOT_ID_FILE.read_text("ascii").strip()
    except OSError:
        return ""


class LogDir:
    """A data directory. Offline once it has failed: `problem` says why, and it stays so until the next start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.online = True
        self.problem = ""
        self.was_clean = False
        self.was_rebooted = False
        self.cluster_id: str | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._lock: OpenFile | None = None
        self._storing = threading.RLock()
        self.version = 0  # of what `lower` and `forget` have changed

    def __repr__(self) -> str:
        return f"LogDir({str(self.path)!r})"

    def fail(self, problem: str) -> None:
        """Takes the directory offline."""
        if self.online:
            self.online, self.problem = False, problem

    # ---- opening

    def open(self, broker_id: int) -> list[str]:
        """Locks the directory, checks whose it is, reads the checkpoints. Returns notices for the log.

        Raises LogDirError if it is in use or another broker's, OSError if it cannot be used at all.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._check_identity(broker_id)
        notices: list[str] = []
        self.recovery_points = self._read(RECOVERY_POINTS, notices)
        self.log_starts = self._read(LOG_STARTS, notices)
        self.high_watermarks = self._read(HIGH_WATERMARKS, notices)
        self.was_clean = (self.path / CLEAN).exists()
        now = boot_id()
        self.was_rebooted = not now or self.recall(BOOT_ID) != now
        return notices

    def _take_lock(self) -> None:
        lock = OpenFile(os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            fcntl.flock(lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogDirError(f"{self.path} is in use by another broker (its {LOCK} is held)") from None
        self._lock = lock

    def _check_identity(self, broker_id: int) -> None:
        path = self.path / META
        try:
            found = javaproperties.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            checkpoint.write_atomically(path, _properties({"version": "0", "broker.id": str(broker_id)}))
            return
        except ValueError as problem:
            raise LogDirError(f"{path} cannot be read: {problem}") from None
        if found.get("version") != "0":
            raise LogDirError(f"{path}: version {found.get('version')} is not 0, the one of ZooKeeper clusters")
        if found.get("broker.id") != str(broker_id):
            raise LogDirError(f"{path} belongs to broker {found.get('broker.id')}, not to {broker_id}")
        self.cluster_id = found.get("cluster.id")

    def _read(self, name: str, notices: list[str]) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self.path / name)
        except checkpoint.BadCheckpoint as problem:
            notices.append(f"{problem}; going on without it")
            return {}

    def start(self) -> None:
        """From here on a stop without `mark_clean` counts as a crash."""
        self.remember({BOOT_ID: boot_id()})
        (self.path / CLEAN).unlink(missing_ok=True)
        sync_directory(self.path)

    def set_cluster_id(self, cluster_id: str, broker_id: int) -> None:
        """Stores the cluster that the directory belongs to from now on."""
        fields = {"version": "0", "broker.id": str(broker_id), "cluster.id": cluster_id}
        checkpoint.write_atomically(self.path / META, _properties(fields))
        self.cluster_id = cluster_id

    # ---- closing

    def mark_clean(self) -> None:
        """Says that everything is on the disk and indexed: the next start need not look."""
        checkpoint.write_atomically(self.path / CLEAN, json.dumps(CLEAN_MARKER).encode())

    def unlock(self) -> None:
        """Lets another broker have the directory."""
        self._lock = None

    # ---- remembering

    def recall(self, name: str) -> str | None:
        """A text stored by `remember`; None if there is none or the file is damaged."""
        try:
            return javaproperties.loads((self.path / NOTES).read_text("utf-8")).get(name)
        except (OSError, ValueError):
            return None

    def remember(self, notes: Mapping[str, str]) -> None:
        """Stores small texts durably, beside those that are there."""
        with self._storing:
            try:
                old = javaproperties.loads((self.path / NOTES).read_text("utf-8"))
            except (OSError, ValueError):
                old = {}
            checkpoint.write_atomically(self.path / NOTES, _properties({**old, **notes}))

    # ---- checkpoints

    def store_checkpoints(
        self,
        recovery_points: Mapping[TopicPartition, int],
        log_starts: Mapping[TopicPartition, int],
        high_watermarks: Mapping[TopicPartition, int],
        version: int,
    ) -> None:
        """Replaces the three checkpoints by what was true at `version`: not at all, if a log was cut or deleted since
        then. A log start never goes back: one that was stored meanwhile stays."""
        with self._storing:
            if version != self.version:
                return
            starts = {tp: max(start, self.log_starts.get(tp, 0)) for tp, start in log_starts.items()}
            self.recovery_points = self._store(RECOVERY_POINTS, recovery_points, self.recovery_points)
            self.log_starts = self._store(LOG_STARTS, starts, self.log_starts)
            self.high_watermarks = self._store(HIGH_WATERMARKS, high_watermarks, self.high_watermarks)

    def store_log_start(self, tp: TopicPartition, offset: int) -> None:
        """Makes a new start of a log durable."""
        with self._storing:
            self.log_starts = self._store(LOG_STARTS, {**self.log_starts, tp: offset}, self.log_starts)

    def lower(self, tp: TopicPartition, offset: int) -> None:
        """To be called before a log is cut: a recovery point or high watermark beyond its end would mean damage."""
        with self._storing:
            self.version += 1
            if self.recovery_points.get(tp, 0) > offset:
                points = {**self.recovery_points, tp: offset}
                self.recovery_points = self._store(RECOVERY_POINTS, points, self.recovery_points)
            if self.high_watermarks.get(tp, 0) > offset:
                marks = {**self.high_watermarks, tp: offset}
                self.high_watermarks = self._store(HIGH_WATERMARKS, marks, self.high_watermarks)
            if self.log_starts.get(tp, 0) > offset:
                self.store_log_start(tp, offset)

    def forget(self, tp: TopicPartition) -> None:
        """Takes a partition out of the checkpoints: another log may come under its name."""
        with self._storing:
            self.version += 1
            self.recovery_points = self._store_without(RECOVERY_POINTS, tp, self.recovery_points)
            self.log_starts = self._store_without(LOG_STARTS, tp, self.log_starts)
            self.high_watermarks = self._store_without(HIGH_WATERMARKS, tp, self.high_watermarks)

    def _store_without(
        self, name: str, tp: TopicPartition, old: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return self._store(name, {key: offset for key, offset in old.items() if key != tp}, old)

    def _store(
        self, name: str, offsets: Mapping[TopicPartition, int], old: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        new = dict(offsets)
        if new != old or not (self.path / name).exists():
            with with_sync():
                checkpoint.write_offsets(self.path / name, new)
        return new


def _properties(fields: Mapping[str, str]) -> bytes:
    return javaproperties.dumps(fields, timestamp=False).encode("utf-8")
