"""The batches of a partition as they are on disk, read without the broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kafka_wire.batches import BatchHeader, walk
from kafka_wire.records import Record, decode_batch


def segments(directory: Path) -> list[Path]:
    """The segment files in order."""
    return sorted(directory.glob("*.log"))


def stored_batches(directory: Path) -> Iterator[BatchHeader]:
    """The header of every batch, in order."""
    for segment in segments(directory):
        data = segment.read_bytes()
        for _position, header in walk(data, 0, len(data)):
            yield header


def stored_records(directory: Path) -> Iterator[Record]:
    """Every record, in order."""
    for segment in segments(directory):
        data = segment.read_bytes()
        for position, _header in walk(data, 0, len(data)):
            yield from decode_batch(data, position)
