"""Whole frames: requests and responses with their headers, to shapes and back.

The only place, with `codec.py`, where versions matter. What the shapes cannot show is settled here: in Metadata 0 an
empty list of topics means all of them, in later versions null does; readers of the shape only ever see null.

Everything that can be wrong with received bytes comes out as Malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_wire import codec
from kafka_wire.apis import SPOKEN, Api, is_flexible, speaks
from kafka_wire.errors import Malformed

MAX_PLAIN_REQUEST = 16 << 20
"""Only Produce carries records. A larger request of another kind would be millions of small fields, which would hold
up every other client while they are read."""

_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE_HEADER = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_UNREADABLE = (IndexError, struct.error, UnicodeDecodeError)
_read_header = _REQUEST_HEADER.unpack_from
_pack_response_header = _RESPONSE_HEADER.pack
_new = tuple.__new__
_FETCH = int(Api.FETCH)
_PRODUCE = int(Api.PRODUCE)


class RequestHeader(NamedTuple):
    """What stands before every request; `api_key` and `api_version` may be ones that we do not know."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buffer: Any, start: int, end: int) -> tuple[RequestHeader, int]:
    """The header of the request in buffer[start:end], and where its body starts. Raises Malformed."""
    position = start + 10
    if position > end:
        raise Malformed(f"{end - start} bytes are too few for a request header")
    api_key, version, correlation_id, size = _read_header(buffer, start)
    client_id = None
    try:
        if size >= 0:
            if position + size > end:
                raise Malformed("a client id beyond the end")
            client_id = str(buffer[position : position + size], "utf-8")
            position += size
        if _has_tags(api_key, version):
            position = _skip_tags(buffer, position, end)
    except _UNREADABLE as problem:
        raise Malformed(f"the request header: {problem}") from None
    return _new(RequestHeader, (api_key, version, correlation_id, client_id)), position


def decode_request(buffer: Any, start: int, end: int) -> tuple[RequestHeader, Any]:
    """Header and body of a request of a version that we speak; `records` are views of the buffer. Raises Malformed."""
    header, position = read_request_header(buffer, start, end)
    return header, decode_request_body(header, buffer, position, end)


def decode_request_body(header: RequestHeader, buffer: Any, position: int, end: int) -> Any:
    """The body behind a header that `read_request_header` found. Raises Malformed."""
    key = (header.api_key, header.api_version)
    read = _REQUEST_READERS.get(key)
    if read is None:
        if not speaks(*key):
            raise Malformed(f"API {key[0]} version {key[1]} is not spoken here")
        read = _REQUEST_READERS[key] = _request_reader(Api(key[0]), key[1])
    if end - position > MAX_PLAIN_REQUEST and key[0] != _PRODUCE:
        raise Malformed(f"{end - position} bytes are too many for a {Api(key[0]).name} request")
    try:
        return read(buffer, position, end)[0]
    except _UNREADABLE as problem:
        raise Malformed(f"{Api(key[0]).name} version {key[1]}: {problem}") from None


def encode_response(api_key: int, version: int, correlation_id: int, body: Any) -> list[Any]:
    """The parts of a response, length first. Only a Fetch has several: its `records` are passed through as they are."""
    key = (api_key, version)
    found = _RESPONSE_WRITERS.get(key)
    if found is None:
        api = Api(api_key)
        tags = api is not Api.API_VERSIONS and is_flexible(api_key, version)
        found = _RESPONSE_WRITERS[key] = (codec.writer(api, version, "response"), b"\0" if tags else b"")
    write, tags_of_header = found
    if api_key != _FETCH:
        whole = tags_of_header + b"".join(write(body))
        return [_pack_response_header(4 + len(whole), correlation_id) + whole]
    parts = write(body)
    size = 4 + len(tags_of_header) + sum(map(len, parts))
    return [_pack_response_header(size, correlation_id) + tags_of_header, *parts]


def encode_request(api: Api, version: int, correlation_id: int, client_id: str | None, body: Any) -> list[Any]:
    """The parts of a request, length first."""
    name = None if client_id is None else client_id.encode()
    header = _REQUEST_HEADER.pack(api, version, correlation_id, -1 if name is None else len(name)) + (name or b"")
    if _has_tags(api, version):
        header += b"\0"
    if api is Api.METADATA and version == 0 and body.topics is None:
        body = body._replace(topics=())
    parts = codec.writer(api, version, "request")(body)
    size = len(header) + sum(map(len, parts))
    return [_LENGTH.pack(size) + header, *parts]


def decode_response(api: Api, version: int, frame: Any, start: int = 0, end: int | None = None) -> tuple[int, Any]:
    """(correlation id, body) of the response in frame[start:end], which has no length in front. Raises Malformed."""
    stop = len(frame) if end is None else end
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame, start)
        position = start + 4
        if api is not Api.API_VERSIONS and is_flexible(api, version):
            position = _skip_tags(frame, position, stop)
        return correlation_id, codec.reader(api, version, "response")(frame, position, stop)[0]
    except _UNREADABLE as problem:
        raise Malformed(f"the answer to {api.name} version {version}: {problem}") from None


def _request_reader(api: Api, version: int) -> codec.Reader:
    read = codec.reader(api, version, "request")
    if (api, version) != (Api.METADATA, 0):
        return read

    def read_metadata_0(buffer: Any, position: int, end: int) -> tuple[Any, int]:
        body, position = read(buffer, position, end)
        return (body if body.topics else body._replace(topics=None)), position

    return read_metadata_0


def _has_tags(api_key: int, version: int) -> bool:
    found = _FLEXIBLE.get((api_key, version))
    return is_flexible(api_key, version) if found is None else found


def _skip_tags(buffer: Any, position: int, end: int) -> int:
    """The position after the tags of a header; we know none of them."""
    if position >= end:
        raise Malformed("the header is cut")
    count = buffer[position]
    position += 1
    if not count:
        return position
    if count > 127:
        count, position = codec.long_uvarint(buffer, position, count)
    if count > end - position:
        raise Malformed("more tags than bytes")
    for _ in range(count):
        for _ in range(2):  # the tag, then its size
            size = buffer[position]
            position += 1
            if size > 127:
                size, position = codec.long_uvarint(buffer, position, size)
        position += size
        if position > end:
            raise Malformed("a tag beyond the end")
    return position


_FLEXIBLE = {
    (int(api), version): is_flexible(api, version)
    for api, (first, last) in SPOKEN.items()
    for version in range(first, last + 1)
}
_REQUEST_READERS: dict[tuple[int, int], codec.Reader] = {}
_RESPONSE_WRITERS: dict[tuple[int, int], tuple[Callable[[Any], list[Any]], bytes]] = {}
