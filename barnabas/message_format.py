"""A message as text: kcat's format strings and kcat's JSON.

    %t topic    %p partition    %o offset    %T timestamp in ms (-1 none)
    %k key      %K its length   %s payload   %S its length (-1 null)   %R the length as four bytes, big endian
    %h headers, name=value with commas between           %% a percent sign
    \\n \\r \\t \\0 \\\\ \\xHH                                what they mean in most languages
"""

import base64
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_wire.records import Record

DEFAULT = "%s\\n"

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|([^%\\]+)", re.DOTALL)


class Message(NamedTuple):
    """A record and where it was read."""

    topic: str
    partition: int
    broker: int
    log_append_time: bool
    record: Record


Formatter = Callable[[Message], bytes]
_Piece = bytes | Formatter


def _headers(message: Message) -> bytes:
    pairs = message.record.headers
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (b"NULL" if value is None else value) for name, value in pairs
    )


def _length(value: bytes | None) -> int:
    return -1 if value is None else len(value)


_FIELDS: dict[str, Formatter] = {
    "t": lambda message: message.topic.encode(),
    "p": lambda message: b"%d" % message.partition,
    "o": lambda message: b"%d" % message.record.offset,
    "T": lambda message: b"%d" % message.record.timestamp,
    "k": lambda message: message.record.key or b"",
    "K": lambda message: b"%d" % _length(message.record.key),
    "s": lambda message: message.record.value or b"",
    "S": lambda message: b"%d" % _length(message.record.value),
    "R": lambda message: _length(message.record.value).to_bytes(4, "big", signed=True),
    "h": _headers,
}


def _pieces(text: str, fields: dict[str, Formatter]) -> list[_Piece]:
    """Literal bytes, neighbours joined, and fields; ValueError for a field or an escape that is not known."""
    pieces: list[_Piece] = []
    for field, escape, literal in _TOKEN.findall(text):
        piece: _Piece
        if literal:
            piece = literal.encode("utf-8", "surrogateescape")
        elif field == "%":
            piece = b"%"
        elif field in fields:
            piece = fields[field]
        elif len(escape) == 3:
            piece = bytes.fromhex(escape[1:])
        elif escape in _ESCAPES:
            piece = _ESCAPES[escape]
        else:
            raise ValueError(f"{'%' + field if field else chr(92) + escape!r} means nothing")
        if pieces and isinstance(piece, bytes) and isinstance(pieces[-1], bytes):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


def unescape(text: str) -> bytes:
    """A text with its escapes resolved. ValueError names one that is not known."""
    return b"".join(piece for piece in _pieces(text.replace("%", "%%"), {}) if isinstance(piece, bytes))


def compile_format(text: str) -> Formatter:
    """A function that formats messages. ValueError names what is not known."""
    pieces = _pieces(text, _FIELDS)
    if pieces == [_FIELDS["s"], b"\n"]:  # the default, worth being fast
        return lambda message: (message.record.value or b"") + b"\n"
    return lambda message: b"".join([piece if isinstance(piece, bytes) else piece(message) for piece in pieces])


def json_line(message: Message) -> bytes:
    """kcat's object for a message on one line. What is not UTF-8 comes as `payload_base64` (or key_) instead."""
    record = message.record
    found: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": record.offset,
        "tstype": _timestamp_type(message),
        "ts": record.timestamp,
        "broker": message.broker,
        "headers": [text for name, value in record.headers for text in (_printable(name), _as_text(value))],
    }
    found |= bytes_field("key", record.key)
    found |= bytes_field("payload", record.value)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    """{name: text}, or {name_base64: ...} for bytes that are no text: JSON has no other way to keep them."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _as_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _timestamp_type(message: Message) -> str:
    if message.record.timestamp < 0:
        return "unknown"
    return "logappend" if message.log_append_time else "create"
