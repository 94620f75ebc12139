"""Compiles readers and writers of messages from their layouts: one flat Python function per message and version.

A reader turns bytes into the shapes of `kafka_wire.schema`, which are the same for every version: fields that a version
does not have get their default. Runs of fixed-size fields are one struct call, varints are inlined. Every count and
length is checked against the bytes that remain before anything is allocated; unknown tags are skipped. A reader may
raise Malformed, struct.error, IndexError or UnicodeDecodeError; all of them mean a malformed message (`messages.py`
turns them into Malformed). It may look at bytes beyond `end` on its way, never beyond the buffer, and then raises.

A writer turns a shape into a list of parts: bytes, and whatever was given as `records` (a view or a range of a file)
untouched. It writes None as empty where a version has no null, and leaves out what a version does not have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from kafka_wire.apis import Api
from kafka_wire.errors import Malformed
from kafka_wire.layout import FIXED, SIZED, Direction, Field, Struct, struct_of

Reader = Callable[[Any, int, int], tuple[Any, int]]
"""(buffer, position, end) -> (message, position after it)"""
Writer = Callable[[Any], list[Any]]

MAX_VARINT_SHIFT = 28
"""Lengths are at most five bytes of seven bits."""
_SMALL = 1 << 12


def long_uvarint(buffer: Any, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte was `first` (above 127), and the position after it; `position` is after that byte."""
    value = first & 127
    shift = 7
    while shift <= MAX_VARINT_SHIFT:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise Malformed("a varint of more than five bytes")


def _uvarint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL_VARINTS = [_uvarint_bytes(value) for value in range(_SMALL)]


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    return _SMALL_VARINTS[value] if value < _SMALL else _uvarint_bytes(value)


class _Source:
    """The text of a function in the making, and the objects that it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Malformed": Malformed, "long_uvarint": long_uvarint, "uvarint": uvarint}
        self._structs: dict[str, str] = {}
        self._count = 0

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def fresh(self) -> str:
        """A new local variable."""
        self._count += 1
        return f"v{self._count}"

    def bind(self, value: Any) -> str:
        """A name for an object."""
        for name, known in self.names.items():
            if known is value:
                return name
        self._count += 1
        self.names[f"c{self._count}"] = value
        return f"c{self._count}"

    def literal(self, value: Any) -> str:
        """The text of a constant, or a name for it."""
        return repr(value) if value is None or type(value) in (int, bool, str, bytes) else self.bind(value)

    def pack(self, code: str) -> str:
        return self._packer(code, "pack")

    def unpack(self, code: str) -> str:
        return self._packer(code, "unpack_from")

    def _packer(self, code: str, method: str) -> str:
        key = f"{method} {code}"
        if key not in self._structs:
            self._structs[key] = self.bind(getattr(struct.Struct(">" + code), method))
        return self._structs[key]

    def function(self, name: str, arguments: str) -> Any:
        text = "\n".join([f"def {name}({arguments}):", *self.lines])
        namespace = dict(self.names)
        exec(compile(text, f"<kafka_wire {name}>", "exec"), namespace)
        return namespace[name]


def _is_fixed(field: Field) -> bool:
    return field.kind in FIXED and not field.is_array


def _runs(entity: Struct) -> list[list[Field]]:
    """The untagged fields, neighbours of fixed size together."""
    runs: list[list[Field]] = []
    for field in entity.fields:
        if field.tag is not None:
            continue
        if runs and _is_fixed(field) and _is_fixed(runs[-1][0]):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _tagged(entity: Struct) -> list[Field]:
    return sorted((field for field in entity.fields if field.tag is not None), key=lambda field: field.tag or 0)


def _code(fields: list[Field]) -> str:
    return "".join(FIXED[field.kind] for field in fields)


# ---- reading


class _ReaderMaker:
    def __init__(self, *, flexible: bool) -> None:
        self.source = _Source()
        self.flexible = flexible

    def size(self, depth: int, variable: str, code: str) -> None:
        """variable = the length; -1 for null."""
        add = self.source.add
        if self.flexible:
            add(depth, f"{variable} = b[p]; p += 1")
            add(depth, f"if {variable} > 127: {variable}, p = long_uvarint(b, p, {variable})")
            add(depth, f"{variable} -= 1")
        else:
            add(depth, f"{variable}, = {self.source.unpack(code)}(b, p); p += {struct.calcsize('>' + code)}")
            add(depth, f"if {variable} < -1: raise Malformed('a negative length')")

    def entity(self, depth: int, entity: Struct) -> str:
        """Reads a structure; the text of its value."""
        source = self.source
        values: dict[str, str] = {}
        for run in _runs(entity):
            if _is_fixed(run[0]):
                names = [source.fresh() for _ in run]
                code = _code(run)
                source.add(depth, f"{', '.join(names)}, = {source.unpack(code)}(b, p)")
                source.add(depth, f"p += {struct.calcsize('>' + code)}")
                values.update(zip((field.name for field in run), names, strict=True))
            else:
                values[run[0].name] = self.field(depth, run[0])
        if self.flexible:
            self.tags(depth, entity, values)
        shape = entity.shape
        defaults = shape._field_defaults
        order = [values.get(name) or source.literal(defaults[name]) for name in shape._fields]
        comma = "," if len(order) == 1 else ""
        return f"{source.bind(tuple.__new__)}({source.bind(shape)}, ({', '.join(order)}{comma}))"

    def field(self, depth: int, field: Field) -> str:
        """Reads a field that is not of fixed size; the text of its value."""
        if field.is_array:
            return self.array(depth, field)
        if field.struct is None:
            return self.sized(depth, field.kind, nullable=field.nullable)
        found = self.source.fresh()
        if not field.nullable:
            self.source.add(depth, f"{found} = {self.entity(depth, field.struct)}")
            return found
        present = self.source.fresh()
        self.source.add(depth, f"{present} = b[p]; p += 1")
        self.source.add(depth, f"if {present} == 1:")
        value = self.entity(depth + 1, field.struct)
        self.source.add(depth + 1, f"{found} = {value}")
        self.source.add(depth, f"elif {present} == 255: {found} = None")
        self.source.add(depth, "else: raise Malformed('neither null nor a structure')")
        return found

    def sized(self, depth: int, kind: str, *, nullable: bool) -> str:
        """Reads a string, bytes or records."""
        source = self.source
        found, stop = source.fresh(), source.fresh()
        self.size(depth, found, SIZED[kind])
        source.add(depth, f"if {found} >= 0:")
        source.add(depth + 1, f"{stop} = p + {found}")
        source.add(depth + 1, f"if {stop} > end: raise Malformed('a length beyond the end')")
        if kind == "string":
            source.add(depth + 1, f"{found} = str(b[p:{stop}], 'utf-8'); p = {stop}")
        elif kind == "records":
            source.add(depth + 1, f"{found} = memoryview(b)[p:{stop}]; p = {stop}")
        else:
            source.add(depth + 1, f"{found} = bytes(b[p:{stop}]); p = {stop}")
        may_be_null = nullable or kind == "records"
        source.add(depth, f"else: {found} = None" if may_be_null else "else: raise Malformed('null')")
        return found

    def array(self, depth: int, field: Field) -> str:
        source = self.source
        found, count = source.fresh(), source.fresh()
        self.size(depth, count, "i")
        null = f"{found} = None" if field.nullable else "raise Malformed('null')"
        source.add(depth, f"if {count} < 0: {null}")
        if field.struct is None and field.kind in FIXED:
            width = struct.calcsize(">" + FIXED[field.kind])
            source.add(depth, "else:")
            source.add(depth + 1, f"if {count} * {width} > end - p: raise Malformed('a count beyond the end')")
            source.add(
                depth + 1, f"{found} = {source.bind(struct.unpack_from)}('>' + '{FIXED[field.kind]}' * {count}, b, p)"
            )
            source.add(depth + 1, f"p += {count} * {width}")
            return found
        source.add(depth, f"elif {count} > end - p: raise Malformed('a count beyond the end')")
        source.add(depth, "else:")
        source.add(depth + 1, f"{found} = []")
        source.add(depth + 1, f"for _ in range({count}):")
        if field.struct is None:
            value = self.sized(depth + 2, field.kind, nullable=False)
        else:
            value = self.entity(depth + 2, field.struct)
        source.add(depth + 2, f"{found}.append({value})")
        source.add(depth + 2, "if p > end: raise Malformed('an array beyond the end')")
        return found

    def tags(self, depth: int, entity: Struct, values: dict[str, str]) -> None:
        source = self.source
        known = _tagged(entity)
        defaults = entity.shape._field_defaults
        for field in known:
            values[field.name] = source.fresh()
            source.add(depth, f"{values[field.name]} = {source.literal(defaults[field.name])}")
        count, tag, size, stop = (source.fresh() for _ in range(4))
        source.add(depth, f"{count} = b[p]; p += 1")
        source.add(depth, f"if {count}:")
        source.add(depth + 1, f"if {count} > 127: {count}, p = long_uvarint(b, p, {count})")
        source.add(depth + 1, f"if {count} > end - p: raise Malformed('more tags than bytes')")
        source.add(depth + 1, f"for _ in range({count}):")
        for variable in (tag, size):
            source.add(depth + 2, f"{variable} = b[p]; p += 1")
            source.add(depth + 2, f"if {variable} > 127: {variable}, p = long_uvarint(b, p, {variable})")
        source.add(depth + 2, f"{stop} = p + {size}")
        source.add(depth + 2, f"if {stop} > end: raise Malformed('a tag beyond the end')")
        for field in known:
            source.add(depth + 2, f"if {tag} == {field.tag}:")
            if _is_fixed(field):
                source.add(depth + 3, f"{values[field.name]}, = {source.unpack(FIXED[field.kind])}(b, p)")
                source.add(depth + 3, f"p += {struct.calcsize('>' + FIXED[field.kind])}")
            else:
                source.add(depth + 3, f"{values[field.name]} = {self.field(depth + 3, field)}")
            source.add(depth + 3, f"if p != {stop}: raise Malformed('a tag of another size than announced')")
        source.add(depth + 2, f"p = {stop}")


@cache
def reader(api: Api, version: int, direction: Direction) -> Reader:
    """The reader of one message; LookupError if there is no such version."""
    entity, flexible = struct_of(api.schema, version, direction)
    maker = _ReaderMaker(flexible=flexible)
    found = maker.entity(1, entity)
    maker.source.add(1, "if p > end: raise Malformed('the message is cut')")
    maker.source.add(1, f"return {found}, p")
    function: Reader = maker.source.function(f"read_{api.schema}_{direction}_v{version}", "b, p, end")
    return function


# ---- writing


class _WriterMaker:
    def __init__(self, *, flexible: bool) -> None:
        self.source = _Source()
        self.flexible = flexible

    def count(self, depth: int, text: str, code: str) -> None:
        """Writes a length or a count."""
        if self.flexible:
            self.source.add(depth, f"a(uvarint({text} + 1))")
        else:
            self.source.add(depth, f"a({self.source.pack(code)}({text}))")

    def entity(self, depth: int, entity: Struct, value: str) -> None:
        """Writes the structure that the text `value` names."""
        source = self.source
        shape = entity.shape
        names = {name: source.fresh() for name in shape._fields}
        if names:
            source.add(depth, f"{', '.join(names.values())}, = {value}")
        for run in _runs(entity):
            if _is_fixed(run[0]):
                given = ", ".join(names[field.name] for field in run)
                source.add(depth, f"a({source.pack(_code(run))}({given}))")
            else:
                self.field(depth, run[0], names[run[0].name])
        if self.flexible:
            self.tags(depth, entity, names)

    def field(self, depth: int, field: Field, value: str) -> None:
        source = self.source
        if field.is_array:
            self.array(depth, field, value)
        elif field.struct is None:
            self.sized(depth, field, value)
        elif not field.nullable or field.tag is not None:
            self.entity(depth, field.struct, value)
        else:
            source.add(depth, rf"if {value} is None: a(b'\xff')")
            source.add(depth, "else:")
            source.add(depth + 1, r"a(b'\x01')")
            self.entity(depth + 1, field.struct, value)

    def sized(self, depth: int, field: Field, value: str) -> None:
        null = self._null(field)
        self.source.add(depth, f"if {value} is None: a({null!r})")
        self.source.add(depth, "else:")
        if field.kind == "string":
            self.source.add(depth + 1, f"{value} = {value}.encode()")
        self.count(depth + 1, f"len({value})", SIZED[field.kind])
        self.source.add(depth + 1, f"a({value})")

    def _null(self, field: Field) -> bytes:
        """What is written for None: null where there is one, else an empty value."""
        if self.flexible:
            return b"\0" if field.nullable else b"\1"
        return struct.pack(">" + ("i" if field.is_array else SIZED[field.kind]), -1 if field.nullable else 0)

    def array(self, depth: int, field: Field, value: str) -> None:
        source = self.source
        null = self._null(field)
        source.add(depth, f"if {value} is None: a({null!r})")
        source.add(depth, "else:")
        self.count(depth + 1, f"len({value})", "i")
        if field.struct is None and field.kind in FIXED:
            source.add(
                depth + 1, f"a({source.bind(struct.pack)}('>' + '{FIXED[field.kind]}' * len({value}), *{value}))"
            )
            return
        item = source.fresh()
        source.add(depth + 1, f"for {item} in {value}:")
        if field.struct is None:
            self.sized(depth + 2, field._replace(is_array=False, nullable=False), item)
        else:
            self.entity(depth + 2, field.struct, item)

    def tags(self, depth: int, entity: Struct, names: dict[str, str]) -> None:
        known = _tagged(entity)
        source = self.source
        if not known:
            source.add(depth, r"a(b'\0')")
            return
        tags, kept, inner = (source.fresh() for _ in range(3))
        source.add(depth, f"{tags} = []")
        for field in known:
            value = names[field.name]
            source.add(depth, f"if {self._differs(entity, field, value)}:")
            source.add(depth + 1, f"{kept} = a; {inner} = []; a = {inner}.append")
            if _is_fixed(field):
                source.add(depth + 1, f"a({source.pack(FIXED[field.kind])}({value}))")
            else:
                self.field(depth + 1, field, value)
            source.add(depth + 1, f"a = {kept}; {inner} = b''.join({inner})")
            source.add(depth + 1, f"{tags}.append({uvarint(field.tag or 0)!r} + uvarint(len({inner})) + {inner})")
        source.add(depth, f"a(uvarint(len({tags})))")
        source.add(depth, f"if {tags}: a(b''.join({tags}))")

    def _differs(self, entity: Struct, field: Field, value: str) -> str:
        if field.is_array:
            return value
        default = entity.shape._field_defaults[field.name]
        if default is None:
            return f"{value} is not None"
        return f"{value} != {self.source.literal(default)}"


@cache
def writer(api: Api, version: int, direction: Direction) -> Writer:
    """The writer of one message; LookupError if there is no such version."""
    entity, flexible = struct_of(api.schema, version, direction)
    maker = _WriterMaker(flexible=flexible)
    maker.source.add(1, "out = []; a = out.append")
    maker.entity(1, entity, "m")
    maker.source.add(1, "return out")
    function: Writer = maker.source.function(f"write_{api.schema}_{direction}_v{version}", "m")
    return function
