"""Requests that a hostile or broken peer might send: plausible ones of every API and version, and ways to spoil them.

Everything comes from one `random.Random`, so that a seed names a run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from kafka_wire.apis import SPOKEN, Api
from kafka_wire.layout import Field, Struct, struct_of
from kafka_wire.messages import encode_request
from kafka_wire.records import Record, encode_batch

CASES = [(api, version) for api, (first, last) in SPOKEN.items() for version in range(first, last + 1)]
TEXTS = ("fuzz", "no such topic", "", "ü☃", "x" * 300, "retention.ms", "0", "-1")
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 64, "datetime_i64": 64}
#: What a length or a count may be forged to: negative, huge, and just too large for any frame.
_FORGED = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\0\x10\0\0")


def valid_body(api: Api, version: int, chance: Random, texts: Sequence[str] = TEXTS) -> Any:
    """A request body with values of the right types, many of them extreme."""

    def make(entity: Struct, depth: int) -> Any:
        return entity.shape(**{field.name: _value(field, depth, make, chance, texts) for field in entity.fields})

    return make(struct_of(api.schema, version, "request")[0], 0)


def _value(field: Field, depth: int, make: Callable[[Struct, int], Any], chance: Random, texts: Sequence[str]) -> Any:
    if field.nullable and chance.random() < 0.1:
        return {"uuid": bytes(16), "datetime_i64": -1}.get(field.kind) if not field.is_array else None
    if field.is_array:
        return [_single(field, depth, make, chance, texts) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
    return _single(field, depth, make, chance, texts)


def _single(field: Field, depth: int, make: Callable[[Struct, int], Any], chance: Random, texts: Sequence[str]) -> Any:
    if field.struct is not None:
        return make(field.struct, depth + 1)
    if field.kind == "string":
        return chance.choice(texts)
    if field.kind == "bytes":
        return chance.randbytes(chance.randrange(20))
    if field.kind == "records":
        return _records(chance)
    if field.kind == "uuid":
        return chance.randbytes(16)
    if field.kind == "bool":
        return chance.random() < 0.5
    if field.kind == "float64":
        return chance.random()
    if field.name in ("max_wait_ms", "timeout_ms"):
        return chance.choice((-1, 0, 1, 20))
    bits = _BITS.get(field.kind, 15)
    return chance.choice((-1, 0, 0, 1, 2, 3, chance.getrandbits(bits - 1), (1 << bits - 1) - 1, -(1 << bits - 1)))


def _records(chance: Random) -> bytes:
    """A batch that is sound, or damaged in one place, or no batch at all."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.randrange(100))
    batch = bytearray(
        encode_batch(
            [Record(0, chance.getrandbits(40), b"k", chance.randbytes(chance.randrange(50))) for _ in range(3)],
            codec=chance.randrange(5),
        )
    )
    if kind < 0.5:
        batch[chance.randrange(len(batch))] = chance.randrange(256)
    return bytes(batch)


def valid_frame(api: Api, version: int, chance: Random, texts: Sequence[str] = TEXTS) -> bytes:
    """A request without the length in front."""
    parts = encode_request(api, version, chance.getrandbits(31), "fuzz", valid_body(api, version, chance, texts))
    return b"".join(map(bytes, parts))[4:]


def _flip(frame: bytearray, chance: Random) -> None:
    for _ in range(chance.randrange(1, 6)):
        frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)


def _forge(frame: bytearray, chance: Random) -> None:
    forged = chance.choice(_FORGED)
    position = chance.randrange(8, len(frame) + 1)  # the first 8 bytes say which API this is
    frame[position : position + len(forged)] = forged


def _cut(frame: bytearray, chance: Random) -> None:
    del frame[chance.randrange(len(frame)) :]


def _insert(frame: bytearray, chance: Random) -> None:
    position = chance.randrange(len(frame))
    frame[position:position] = chance.randbytes(chance.randrange(1, 30))


def _scramble(frame: bytearray, chance: Random) -> None:
    frame[8:] = chance.randbytes(chance.randrange(1, 200))


def _other_version(frame: bytearray, chance: Random) -> None:
    struct.pack_into(">hh", frame, 0, chance.randrange(-2, 100), chance.randrange(-2, 30))


def _repeat(frame: bytearray, chance: Random) -> None:
    start = chance.randrange(len(frame))
    frame[start:start] = frame[start : start + chance.randrange(1, 40)] * chance.randrange(1, 20)


SPOILERS: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip,
    _forge,
    _forge,
    _cut,
    _insert,
    _scramble,
    _other_version,
    _repeat,
)


def hostile_frame(number: int, chance: Random, texts: Sequence[str] = TEXTS) -> bytes:
    """A frame without its length: the APIs and versions in turn, one in ten sound, one in twenty only noise."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(1, 300))
    frame = bytearray(valid_frame(*CASES[number % len(CASES)], chance, texts))
    if chance.random() > 0.1:
        for _ in range(chance.choice((1, 1, 2))):
            if len(frame) > 8:
                chance.choice(SPOILERS)(frame, chance)
    return bytes(frame)
