"""kcat: librdkafka 2.0 of Debian, driven by its command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from integration import tools
from integration.clients.base import CODECS, Headers, Received, Record

_KEY_SEPARATOR = "|"


class Kcat:
    """It takes one set of headers for a whole run, so records are sent in runs of equal headers."""

    name: ClassVar[str] = "kcat"
    writes: ClassVar[Sequence[str]] = CODECS
    sets_timestamps: ClassVar[bool] = False
    line_bound: ClassVar[bool] = True

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """See base.Client."""
        first = 0
        while first < len(records):
            last = first
            while last < len(records) and records[last].headers == records[first].headers:
                last += 1
            _produce(bootstrap, topic, records[first:last], codec)
            first = last
        return None

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """See base.Client."""
        command = [tools.kcat(), "-C", "-q", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning"]
        # Lengths come first, so that the fields may hold any byte; -1 is null. Headers are text.
        command += ["-c", str(count), "-f", "%o %T %K %S %h<end>%k%s"]
        return list(_parse(tools.run(command, timeout=30).stdout))


def _produce(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
    command = [tools.kcat(), "-P", "-Z", "-b", bootstrap, "-t", topic, "-p", "0", "-K", _KEY_SEPARATOR]
    command += ["-X", "acks=all", "-X", f"compression.codec={codec}"]
    for name, value in records[0].headers:
        assert value is not None, "kcat cannot send a null header"
        command += ["-H", f"{name}={value.decode()}"]
    lines = [(record.key or b"") + _KEY_SEPARATOR.encode() + (record.value or b"") for record in records]
    tools.run(command, stdin=b"\n".join(lines) + b"\n", timeout=30)


def _parse(output: bytes) -> list[Received]:
    received, position = [], 0
    prefix = re.compile(rb"(\d+) (-?\d+) (-?\d+) (-?\d+) (.*?)<end>", re.DOTALL)
    while position < len(output):
        match = prefix.match(output, position)
        assert match is not None, f"kcat printed {output[position : position + 80]!r}"
        offset, timestamp, key_size, value_size = (int(group) for group in match.groups()[:4])
        key_start = match.end()
        value_start = key_start + max(key_size, 0)
        position = value_start + max(value_size, 0)
        received.append(
            Received(
                offset,
                None if key_size < 0 else output[key_start:value_start],
                None if value_size < 0 else output[value_start:position],
                _headers(match.group(5)),
                timestamp,
            )
        )
    return received


def _headers(text: bytes) -> Headers:
    pairs = (pair.partition(b"=") for pair in text.split(b",") if pair)
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
