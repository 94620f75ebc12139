"""What the tests of storage share: batches, a log in a temporary directory, and readers that check what they read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from brokerd.config import BrokerConfig, load
from brokerd.storage.log_manager import LogManager
from brokerd.storage.partition_log import Appended, PartitionLog
from brokerd.topic_config import TopicConfig
from kafka_wire import records
from kafka_wire.ids import TopicPartition
from kafka_wire.records import Record

NOW = 1_700_000_000_000
TP = TopicPartition("events", 0)
TOPIC_ID = bytes(range(16))
SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)


def batch(*values: str | bytes, timestamp: int = NOW, step: int = 1, **fields: Any) -> memoryview:
    """A batch as a producer sends it; record k has the timestamp `timestamp` + k * `step`."""
    made = [
        Record(0, timestamp + number * step, None, value.encode() if isinstance(value, str) else value)
        for number, value in enumerate(values)
    ]
    return memoryview(records.encode_batch(made, **fields))


def sequenced(first: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0) -> memoryview:
    """A batch of an idempotent producer."""
    values = [f"{producer_id}/{number}" for number in range(first, first + count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)


def broker_config(*paths: Path, **overrides: str) -> BrokerConfig:
    """A broker's settings with these data directories."""
    given = {"broker.id": "1", "log.dirs": ",".join(map(str, paths)), "log.index.interval.bytes": "100"}
    return load(given | {name.replace("_", "."): text for name, text in overrides.items()})[0]


class Home:
    """Data directories and the manager that has them open."""

    def __init__(self, *paths: Path, config: TopicConfig = SMALL) -> None:
        self.paths = paths
        self.config = config
        self.reports: list[str] = []
        self.manager = self._load()

    def _load(self) -> LogManager:
        manager = LogManager(broker_config(*self.paths))
        manager.load(self.reports.append)
        for log in manager.logs.values():
            log.configure(self.config)
        return manager

    def log(self, tp: TopicPartition = TP) -> PartitionLog:
        """The log of a partition, made if need be."""
        log = self.manager.create(tp, TOPIC_ID, self.config)
        if log.latest_epoch < 0:
            log.start_epoch(0)
        return log

    def stop(self) -> None:
        """A clean stop and a start."""
        self.manager.close({})
        self.manager = self._load()

    def crash(self) -> None:
        """The process is gone: what was written stays, nothing is marked. Call `start` after touching the files."""
        for log_dir in self.manager.dirs:
            log_dir.unlock()

    def start(self) -> None:
        """A start after `crash`."""
        self.manager = self._load()

    def settings(self, **changes: Any) -> TopicConfig:
        """New settings for the logs that are opened from now on."""
        self.config = attrs.evolve(self.config, **changes)
        return self.config


def append(log: PartitionLog, *batches: memoryview, now_ms: int = NOW, epoch: int = 0) -> list[Appended]:
    """Appends in one turn and writes."""
    done = [log.append_as_leader(one, epoch, now_ms) for one in batches]
    log.write()
    return done


def read_all(log: PartitionLog, *, max_bytes: int = 500, start: int | None = None) -> list[Record]:
    """Reads like a consumer from the start to the end, and checks that offsets have no hole."""
    offset = log.log_start if start is None else start
    found: list[Record] = []
    while offset < log.written_end:
        piece = log.read(offset, max_bytes, log.written_end, min_one=True)
        got = list(records.decode_batches(piece.read(), from_offset=offset))
        assert got, f"nothing was read at {offset} of {log.written_end}"
        assert [record.offset for record in got] == list(range(offset, offset + len(got)))
        found += got
        offset = got[-1].offset + 1
    return found


def values(found: Sequence[Record]) -> list[str]:
    """The values as text."""
    return [(record.value or b"").decode() for record in found]


def segment_paths(log: PartitionLog) -> list[Path]:
    """The log files in order."""
    return sorted(log.directory.glob("*.log"))


def open_descriptors(under: Path) -> int:
    """How many files below a directory this process has open."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return sum(name.startswith(str(under)) for name in names)
