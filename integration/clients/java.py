"""Apache Kafka's console producer and consumer: the Java client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from integration import tools
from integration.clients.base import CODECS, Headers, Received, Record

PRODUCER = "kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_NULL = "<null>"
_FIELD, _HEADER, _END = "<field>", "<header>", "<end>"


class JavaConsole:
    """Null is written as a marker; it chooses no partition, so topics have one."""

    name: ClassVar[str] = "java"
    writes: ClassVar[Sequence[str]] = CODECS
    sets_timestamps: ClassVar[bool] = False
    line_bound: ClassVar[bool] = True

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """See base.Client."""
        options = {"parse.key": "true", "key.separator": "|", "parse.headers": "true", "null.marker": _NULL}
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
        for name, value in options.items():
            arguments += ["--property", f"{name}={value}"]
        lines = []
        for record in records:
            headers = ",".join(f"{name}:{'' if value is None else value.decode()}" for name, value in record.headers)
            lines.append(
                b"\t".join([headers.encode() or _NULL.encode(), _field(record.key) + b"|" + _field(record.value)])
            )
        tools.run_java(PRODUCER, *arguments, stdin=b"\n".join(lines) + b"\n")
        return None

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """See base.Client."""
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"]
        arguments += ["--max-messages", str(count), "--timeout-ms", "20000"]
        properties = {
            "key.separator": _FIELD,
            "headers.separator": _HEADER,
            "line.separator": _END,
            "null.literal": _NULL,
        }
        shown = {f"print.{part}": "true" for part in ("timestamp", "offset", "headers", "key", "value")}
        for name, value in (properties | shown).items():
            arguments += ["--property", f"{name}={value}"]
        done = tools.run(tools.java_command(CONSUMER, *arguments))
        return [_parse(line) for line in done.stdout.split(_END.encode()) if line]


def _field(value: bytes | None) -> bytes:
    return _NULL.encode() if value is None else value


def _parse(line: bytes) -> Received:
    timestamp, offset, headers, key, value = line.split(_FIELD.encode())
    return Received(
        int(offset.removeprefix(b"Offset:")),
        None if key == _NULL.encode() else key,
        None if value == _NULL.encode() else value,
        _headers(headers),
        int(timestamp.rpartition(b":")[2]),
    )


def _headers(text: bytes) -> Headers:
    if text == b"NO_HEADERS":
        return ()
    pairs = (pair.partition(b":") for pair in text.split(_HEADER.encode()))
    return tuple((name.decode(), None if value == _NULL.encode() else value) for name, _, value in pairs)
