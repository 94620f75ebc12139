"""Small text files in Kafka's formats, replaced as a whole: after a crash there is the old content or the new one.

recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint:
    0 / number of lines / `topic partition offset` ...
partition.metadata:
    version: 0 / topic_id: 22 characters of URL-safe base64
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

from brokerd.storage.deferred_sync import is_deferred
from brokerd.storage.file_range import sync_directory
from kafka_wire.ids import TopicPartition

VERSION = 0
PARTITION_METADATA = "partition.metadata"


class BadCheckpoint(Exception):
    """A file whose content is not of its format; the message names it."""


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file durably: write beside it, fsync, rename, fsync the directory (the syncs may be deferred)."""
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if not is_deferred():
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_directory(path.parent)


def read_lines(path: Path) -> list[list[str]]:
    """The fields of the lines after `version` and `count`; nothing if there is no file. Raises BadCheckpoint."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise BadCheckpoint(f"{path}: not a text") from None
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError):
        raise BadCheckpoint(f"{path}: no version and count") from None
    rows = [line.split() for line in lines[2:] if line.strip()]
    if version != VERSION or count != len(rows):
        raise BadCheckpoint(f"{path}: version {version}, {len(rows)} lines where {count} are announced")
    return rows


def write_lines(path: Path, lines: list[str]) -> None:
    """Replaces such a file."""
    write_atomically(path, "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode())


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """An offset checkpoint; empty if there is none. Raises BadCheckpoint."""
    try:
        return {TopicPartition(topic, int(index)): int(offset) for topic, index, offset in read_lines(path)}
    except ValueError:
        raise BadCheckpoint(f"{path}: a line is not `topic partition offset`") from None


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces an offset checkpoint."""
    write_lines(path, [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])


def read_topic_id(directory: Path) -> bytes | None:
    """The topic id of a partition's directory; None if it has no such file. Raises BadCheckpoint."""
    path = directory / PARTITION_METADATA
    try:
        text = path.read_text("utf-8")
        if not text:
            return None  # the machine stopped while a new partition was being made
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line)
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
        if fields["version"] == "0" and len(topic_id) == 16:
            return topic_id
    except FileNotFoundError:
        return None
    except (ValueError, KeyError):
        pass
    raise BadCheckpoint(f"{path}: no `version: 0` and `topic_id`")


def write_topic_id(directory: Path, topic_id: bytes) -> None:
    """Stores the topic id of a partition's directory."""
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    write_atomically(directory / PARTITION_METADATA, f"version: 0\ntopic_id: {text}\n".encode())
