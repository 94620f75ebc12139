"""Any value of any message, as kio's class and as our shape: the ground of the codec's property tests."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_wire.apis import SPOKEN, Api
from kafka_wire.from_kio import Field, entity_of, fields_of
from kafka_wire.layout import Direction

EVERYTHING: list[tuple[Api, int, Direction]] = [
    (api, version, direction)
    for api, (first, last) in SPOKEN.items()
    for version in range(first, last + 1)
    for direction in ("request", "response")
]
FROM_KIO = [case for case in EVERYTHING if case[:2] != (Api.LIST_OFFSETS, 0)]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TEXT = st.text(max_size=6)
_INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _milliseconds(ms: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=ms)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in _INTS.items()},
    "uint16": st.integers(0, 65535),
    "uint32": st.integers(0, (1 << 32) - 1),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "string": _TEXT,
    "bytes": st.binary(max_size=8),
    "records": st.binary(max_size=80),
    "uuid": st.one_of(st.none(), st.uuids().filter(lambda value: value.int != 0)),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": st.integers(0, (1 << 31) - 1).map(_milliseconds),
    "timedelta_i64": st.integers(0, 1 << 50).map(_milliseconds),
    "datetime_i64": st.integers(0, 1 << 41).map(lambda ms: _EPOCH + _milliseconds(ms)),
}


def entities(entity: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of a class of kio's."""
    return st.builds(entity, **{field.source: _field(field) for field in fields_of(entity)})


def _field(field: Field) -> st.SearchStrategy[Any]:
    value = entities(field.struct) if field.struct is not None else _VALUES[field.kind]
    if field.is_array:
        if field.kind == "uuid":
            value = st.uuids()
        value = st.lists(value, max_size=3).map(tuple)
    if field.nullable and (field.is_array or field.kind != "uuid"):
        # kio reads a tagged field that is there as not null, and None is its default, which is not written.
        value = st.one_of(st.none(), value)
    if field.default is not dataclasses.MISSING:
        value = st.one_of(st.just(field.default), value)
    return value


def shape_of(api: Api, direction: Direction) -> Callable[[Any], Any]:
    """The function from kio's values of a message to ours."""
    module, prefix = import_module(f"kafka_wire.schema.{api.schema}"), direction.capitalize()

    def convert(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            kind: type[Any] = type(value)
            shape = getattr(module, prefix + kind.__name__, None) or getattr(module, kind.__name__)
            return shape(
                **{field.name: _plain(field, getattr(value, field.source)) for field in fields_of(kind)}
            )
        if isinstance(value, tuple):
            return [convert(item) for item in value]
        if isinstance(value, uuid.UUID):
            return value.bytes
        if isinstance(value, datetime.datetime):
            return (value - _EPOCH) // _milliseconds(1)
        if isinstance(value, datetime.timedelta):
            return value // _milliseconds(1)
        if isinstance(value, ErrorCode):
            return int(value)
        return value

    def _plain(field: Field, value: Any) -> Any:
        if value is None and not field.is_array:
            return {"uuid": bytes(16), "datetime_i64": -1}.get(field.kind)
        return convert(value)

    return convert


def entity(case: tuple[Api, int, Direction]) -> type[Any]:
    """kio's class of a message."""
    api, version, direction = case
    return entity_of(api.schema, version, direction)


def comparable(value: Any) -> Any:
    """A shape with views as bytes and sequences as lists, so that == compares contents."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return (type(value).__name__, *map(comparable, value))
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return value
