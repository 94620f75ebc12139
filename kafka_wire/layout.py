"""The layout of messages: which fields stand in which version, in the order of the wire.

The tables themselves are in the generated modules of `kafka_wire.schema`, beside the shapes; this module gives them
their meaning.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

Direction = Literal["request", "response"]

#: Kinds with a fixed size, and how `struct` writes them. Durations and points in time are plain milliseconds.
FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
#: Kinds with a length in front, and how `struct` writes that length outside flexible versions.
SIZED = {"string": "h", "bytes": "i", "records": "i"}
ZERO_UUID = bytes(16)


class Field(NamedTuple):
    """One field of one version of a structure."""

    name: str
    kind: str  # "struct", or a key of FIXED or SIZED
    is_array: bool
    nullable: bool  # the array if it is one, else the value
    tag: int | None
    struct: Struct | None


class Struct(NamedTuple):
    """A structure in one version; `shape` is the class of `kafka_wire.schema` that holds its values."""

    shape: Any
    fields: tuple[Field, ...]


@cache
def struct_of(api_name: str, version: int, direction: Direction) -> tuple[Struct, bool]:
    """The structure of a whole message, and whether it is flexible; LookupError if there is no such version."""
    module = import_module(f"kafka_wire.schema.{api_name}")
    try:
        number, flexible = module.LAYOUTS[direction, version]
    except KeyError:
        raise LookupError(f"no schema of {api_name} {direction} version {version}") from None
    return _struct(module, number), flexible


def _struct(module: Any, number: int) -> Struct:
    shape, rows = module.STRUCTS[number]
    return Struct(shape, tuple(_field(module, *row) for row in rows))


def _field(module: Any, name: str, kind: str, marks: str = "", tag: int | None = None) -> Field:
    """`kind` is the number of a structure or the name of a kind; of the marks "a" is an array, "n" may be null."""
    struct = _struct(module, int(kind)) if kind.isdigit() else None
    return Field(name, "struct" if struct else kind, "a" in marks, "n" in marks, tag, struct)
