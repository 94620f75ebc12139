"""Produce requests that repeat: the same topic and partition as an earlier one of the same connection.

A producer's requests for one partition differ only in correlation id and records; everything between them, client id,
acks, time-out, topic, partition, is the same bytes again. Whoever has read one of them can recognise the next by
comparing those bytes, and answer it by filling three numbers into the answer to the first: a third of the work of
reading and writing them in full. Nothing here guesses: a request that differs in any byte is not recognised.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kafka_wire import codec
from kafka_wire.apis import Api, is_flexible
from kafka_wire.messages import RequestHeader, encode_response
from kafka_wire.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

MAX_KNOWN = 256
"""Partitions that are remembered for a connection; a client that uses more is served in full."""

_KIND = slice(0, 4)  # API key and version; the four bytes after them are the correlation id
_AFTER_CORRELATION_ID = 8
_length = struct.Struct(">i").unpack_from
_MARKS = (0x1122334455667788, 0x2233445566778899, 0x33445566778899AA)


class Repeat:
    """What is known of a partition's requests on one connection."""

    __slots__ = ("_flexible", "_tail", "acks", "answer", "index", "kind", "timeout_ms", "topic", "version")

    def __init__(self, header: RequestHeader, body: ProduceRequest) -> None:
        topic = body.topic_data[0]
        self.version = header.api_version
        self.kind = struct.pack(">hh", header.api_key, header.api_version)
        self.topic = topic.name
        self.index = topic.partition_data[0].index
        self.acks = body.acks
        self.timeout_ms = body.timeout_ms
        self.answer = _answer(self.version, self.topic, self.index)
        self._flexible = is_flexible(header.api_key, header.api_version)
        self._tail = b"\0\0\0" if self._flexible else b""  # no tags: of the partition, the topic, the request

    def records(self, buffer: bytes, position: int, end: int) -> memoryview | None:
        """The records, whose length stands at `position`; None if the rest of the request is not as expected."""
        if self._flexible:
            size = buffer[position]
            position += 1
            if size > 127:
                size, position = codec.long_uvarint(buffer, position, size)
            stop = position + size - 1
        else:
            (size,) = _length(buffer, position)
            position += 4
            stop = position + size
        if stop < position or buffer[stop:end] != self._tail or stop + len(self._tail) != end:
            return None
        return memoryview(buffer)[position:stop]


class Repeats:
    """The partitions that one connection has produced to."""

    __slots__ = ("_by_size", "_count")

    def __init__(self) -> None:
        self._by_size: dict[int, dict[bytes, Repeat]] = {}
        self._count = 0

    def find(self, buffer: bytes, start: int, end: int) -> tuple[Repeat, memoryview] | None:
        """The partition that the request in buffer[start:end] is for, and its records, if both are recognised."""
        for size, known in self._by_size.items():
            stop = start + size
            found = known.get(buffer[start + _AFTER_CORRELATION_ID : stop])
            if found is not None and stop + 4 <= end and buffer[start : start + 4] == found.kind:
                try:
                    records = found.records(buffer, stop, end)
                except (ValueError, IndexError):  # Malformed is a ValueError: whoever reads in full will say so
                    return None
                return None if records is None else (found, records)
        return None

    def learn(self, header: RequestHeader, body: ProduceRequest, buffer: Any, start: int, end: int) -> None:
        """Remembers a request that was read in full, if it is for one partition and in no way unusual."""
        if type(buffer) is not bytes or body.transactional_id is not None or body.acks not in (1, -1):
            return
        if len(body.topic_data) != 1 or len(body.topic_data[0].partition_data) != 1 or self._count >= MAX_KNOWN:
            return
        records = body.topic_data[0].partition_data[0].records
        if records is None:
            return
        repeat = Repeat(header, body)
        flexible = is_flexible(header.api_key, header.api_version)
        size_of_length = len(codec.uvarint(len(records) + 1)) if flexible else 4
        stop = end - (3 if flexible else 0) - len(records) - size_of_length
        if stop - start <= _AFTER_CORRELATION_ID or repeat.records(buffer, stop, end) != records:
            return  # tags, or a length that is written in more bytes than it needs
        self._by_size.setdefault(stop - start, {})[buffer[start + _AFTER_CORRELATION_ID : stop]] = repeat
        self._count += 1


def _answer(version: int, topic: str, index: int) -> Callable[[int, int, int, int], bytes]:
    """The function (correlation id, base offset, append time, log start) -> a whole response without an error.

    The response is written once with marks in the places of the numbers, and cut there: so this needs to know nothing
    of the layout. Versions without a log start have one mark less.
    """
    base, time, start = _MARKS
    body = ProduceResponse([TopicProduceResponse(topic, [PartitionProduceResponse(index, 0, base, time, start)])])
    (whole,) = encode_response(Api.PRODUCE, version, 0, body)
    pieces = [whole[8:]]
    for mark in _MARKS:
        before, found, after = pieces[-1].partition(mark.to_bytes(8, "big"))
        if found:
            pieces[-1:] = [before, after]
    size = len(whole) - 4
    pack = struct.Struct(">ii" + "q".join(f"{len(piece)}s" for piece in pieces)).pack
    if len(pieces) == 4:
        one, two, three, four = pieces
        return lambda number, base, time, start: pack(size, number, one, base, two, time, three, start, four)
    one, two, three = pieces
    return lambda number, base, time, start: pack(size, number, one, base, two, time, three)
