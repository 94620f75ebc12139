"""What all clients have in common: the record that goes in, the record that comes out, and what a client can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import attrs

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = tuple[tuple[str, bytes | None], ...]


@attrs.frozen(slots=True)
class Record:
    """What a producer is given; `timestamp` in milliseconds, None for the client's own clock."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


@attrs.frozen(slots=True)
class Received:
    """What a consumer is given."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


class Client(Protocol):
    """A third-party client. The capabilities say which fields its command line or API can carry at all."""

    name: ClassVar[str]
    writes: ClassVar[Sequence[str]]
    """Codecs it can write with."""
    sets_timestamps: ClassVar[bool]
    line_bound: ClassVar[bool]
    """Fields are text of one line and none is empty (console programs)."""

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """Produces all to partition 0 with acks=all; their offsets, None if it does not tell them."""

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """Consumes `count` records of partition 0 from the earliest offset, without a group."""
