"""What consumers write into a group's metadata and assignments (protocol type "consumer"). Pure.

The broker needs it for tools only: which topics a member subscribes to, which partitions it was given. Both begin with
a version, and later versions only append; so the beginning is all that is read. Bytes that are something else (other
protocol types, or a client's own invention) give None.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

CONSUMER = "consumer"

_short = struct.Struct(">h")
_int = struct.Struct(">i")


class _Cursor:
    """Reads from the front; runs into struct.error or ValueError where the bytes are something else."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def short(self) -> int:
        (value,) = _short.unpack_from(self._data, self._place)
        self._place += 2
        return int(value)

    def integer(self) -> int:
        (value,) = _int.unpack_from(self._data, self._place)
        self._place += 4
        return int(value)

    def count(self, least: int) -> range:
        """A count of things that take at least so many bytes each."""
        number = self.integer()
        if not 0 <= number <= (len(self._data) - self._place) // least:
            raise ValueError(f"{number} things do not fit")
        return range(number)

    def text(self) -> str:
        size = self.short()
        end = self._place + size
        if size < 0 or end > len(self._data):
            raise ValueError("a text does not fit")
        found = self._data[self._place : end].decode()
        self._place = end
        return found


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """The topics of a subscription."""
    cursor = _Cursor(metadata)
    try:
        cursor.short()
        return tuple(cursor.text() for _ in cursor.count(2))
    except (struct.error, ValueError):
        return None


def assigned_partitions(assignment: bytes) -> dict[str, tuple[int, ...]] | None:
    """The partitions of an assignment, by topic."""
    if not assignment:
        return {}
    cursor = _Cursor(assignment)
    found: dict[str, tuple[int, ...]] = {}
    try:
        cursor.short()
        for _ in cursor.count(6):
            topic = cursor.text()
            found[topic] = tuple(cursor.integer() for _ in cursor.count(4))
    except (struct.error, ValueError):
        return None
    return found


def encode_subscription(topics: Iterable[str]) -> bytes:
    """A subscription of version 0."""
    names = [topic.encode() for topic in topics]
    texts = b"".join(_short.pack(len(name)) + name for name in names)
    return _short.pack(0) + _int.pack(len(names)) + texts + _int.pack(-1)


def encode_assignment(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """An assignment of version 0."""
    parts = [_short.pack(0), _int.pack(len(partitions))]
    for topic, indexes in sorted(partitions.items()):
        name, numbers = topic.encode(), sorted(indexes)
        parts += [_short.pack(len(name)), name, _int.pack(len(numbers)), *(_int.pack(number) for number in numbers)]
    return b"".join([*parts, _int.pack(-1)])
