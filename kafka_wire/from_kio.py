"""What kio's dataclasses say about the bytes of a message, in the few words that our compiler needs.

kio is our schema, not our codec: only its classes are read here (`kio.schema`), none of its readers or writers, and
only by `generate.py` and by tests: a broker runs on what was generated. The one version that kio does not have,
ListOffsets 0, is in `legacy.py` in the same form.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple
from uuid import UUID

from kafka_wire.layout import ZERO_UUID, Direction

_TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


class Field(NamedTuple):
    """One field of one version of a structure."""

    source: str  # kio's name
    name: str  # ours: times end in _ms
    kind: str  # "struct", or a key of layout.FIXED or layout.SIZED
    is_array: bool
    nullable: bool  # the array if it is one, else the value
    struct: type[Any] | None
    tag: int | None
    default: Any  # kio's value, or dataclasses.MISSING


def _without_none(kind: Any) -> tuple[Any, bool]:
    """The type inside `X | None`, and whether there was a None."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind, False
    (inner,) = [part for part in typing.get_args(kind) if part is not types.NoneType]
    return inner, True


def fields_of(entity: type[Any]) -> tuple[Field, ...]:
    """The fields in the order of the wire; tagged ones among them."""
    known = _FIELDS.get(entity)
    if known is None:
        known = _FIELDS[entity] = tuple(_read_fields(entity))
    return known


_FIELDS: dict[type[Any], tuple[Field, ...]] = {}


def _read_fields(entity: type[Any]) -> Iterator[Field]:
    for field in dataclasses.fields(entity):
        inner, nullable = _without_none(field.type)
        is_array = typing.get_origin(inner) is tuple
        if is_array:
            inner, _ = _without_none(typing.get_args(inner)[0])
        struct: type[Any] | None = inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None
        kind = "struct" if struct else field.metadata["kafka_type"]
        name = field.name
        if kind in _TIMES and not name.endswith("_ms"):
            name += "_ms"
        tag = field.metadata.get("tag")
        yield Field(field.name, name, kind, is_array, nullable, struct, tag, field.default)


def plain_value(value: Any) -> Any:
    """A default of kio's as our shapes hold it (structures are left to the caller)."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bool) or value is None:
        return value
    kinds: tuple[type[Any], ...] = (int, float, str, bytes)  # kio's are subclasses of these
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    return value


def zero_of(field: Field) -> Any:
    """The value of a field for which the schema names no default; for structures None."""
    if field.is_array:
        return ()
    if field.kind == "uuid":
        return ZERO_UUID
    if field.kind == "datetime_i64":
        return -1 if field.nullable else 0
    if field.nullable or field.kind in ("struct", "records"):
        return None
    zeros: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "float64": 0.0}
    return zeros.get(field.kind, 0)


def default_of(field: Field) -> Any:
    """The default of a field that is not a structure, as our shapes hold it."""
    if field.default is dataclasses.MISSING:
        return zero_of(field)
    if field.default is None:
        return {"uuid": ZERO_UUID, "datetime_i64": -1}.get(field.kind) if not field.is_array else None
    return plain_value(field.default)


def camel(name: str) -> str:
    """`list_offsets` -> `ListOffsets`"""
    return "".join(part.capitalize() for part in name.split("_"))


def entity_of(api_name: str, version: int, direction: Direction) -> type[Any]:
    """kio's class for a message (or ours, where kio has none); LookupError if there is no such version."""
    module = f"kio.schema.{api_name}.v{version}.{direction}"
    if (api_name, version) == ("list_offsets", 0):
        module = "kafka_wire.legacy"
    try:
        found: type[Any] = getattr(import_module(module), camel(api_name) + direction.capitalize())
    except ModuleNotFoundError as error:
        raise LookupError(f"no schema of {api_name} {direction} version {version}") from error
    return found
