"""Batches to what applications iterate over: whole records, or only their values. Pure, and the consumer's hot path.

The loops have the usual cases of a varint (one and two bytes) written out, because a call costs more than the rest of a
record. Bytes are checked where they could mislead: each record must end where its length says, and the batch where its
last record does. Whatever the bytes are, the result is records or CorruptMessage, InvalidRecord or MessageTooLarge.
"""

from __future__ import annotations

from consumer_group.types import CREATE_TIME, LOG_APPEND_TIME, ConsumerRecord, Headers
from kafka_wire import compression
from kafka_wire.batches import HEADER_SIZE, BatchHeader, Buffer, check_batch, read_header
from kafka_wire.errors import CorruptMessage, InvalidRecord
from kafka_wire.ids import TopicPartition
from kafka_wire.records import DECOMPRESSED_LIMIT, MIN_RECORD_SIZE, read_varint

_NO_HEADERS: Headers = ()


def read_batch(buffer: Buffer, position: int, *, check_crc: bool = True) -> tuple[BatchHeader, bytes]:
    """(header, decompressed records) of the whole batch at `position`."""
    if check_crc:
        header = check_batch(buffer, position, len(buffer), from_client=False)
    else:
        header = read_header(buffer, position)
    body = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    data = compression.decompress(header.codec, body, DECOMPRESSED_LIMIT)
    if header.record_count < 0 or header.record_count * MIN_RECORD_SIZE > len(data):
        raise CorruptMessage(f"{header.record_count} records in {len(data)} bytes")
    return header, data


def records_of(partition: TopicPartition, header: BatchHeader, data: bytes) -> list[ConsumerRecord]:
    """All records of one batch."""
    topic, index = partition
    epoch, base_offset, base_time = header.leader_epoch, header.base_offset, header.base_timestamp
    fixed_time = header.max_timestamp if header.uses_log_append_time else None
    time_type = CREATE_TIME if fixed_time is None else LOG_APPEND_TIME
    records: list[ConsumerRecord] = []
    make, new, add = ConsumerRecord, tuple.__new__, records.append
    pos = 0
    try:
        for _ in range(header.record_count):
            first = data[pos]
            if first < 0x80:
                pos += 1
                end = pos + (first >> 1)
            else:
                second = data[pos + 1]
                if second < 0x80:
                    pos += 2
                    end = pos + ((first & 0x7F | second << 7) >> 1)
                else:
                    size, pos = read_varint(data, pos)
                    end = pos + size
            pos += 1
            first = data[pos]
            if first < 0x80:
                pos += 1
                time_delta = (first >> 1) ^ -(first & 1)
            else:
                second = data[pos + 1]
                if second < 0x80:
                    pos += 2
                    time_delta = ((first & 0x7F | second << 7) >> 1) ^ -(first & 1)
                else:
                    time_delta, pos = read_varint(data, pos)
            first = data[pos]
            if first < 0x80:
                pos += 1
                offset_delta = (first >> 1) ^ -(first & 1)
            else:
                second = data[pos + 1]
                if second < 0x80:
                    pos += 2
                    offset_delta = ((first & 0x7F | second << 7) >> 1) ^ -(first & 1)
                else:
                    offset_delta, pos = read_varint(data, pos)
            first = data[pos]
            if first == 1:
                pos += 1
                key = None
            else:
                if first < 0x80:
                    pos += 1
                    size = (first >> 1) ^ -(first & 1)
                else:
                    size, pos = read_varint(data, pos)
                if size < 0:
                    raise CorruptMessage(f"a key of {size} bytes")
                stop = pos + size
                key = data[pos:stop]
                pos = stop
            first = data[pos]
            if first == 1:
                pos += 1
                value = None
            else:
                if first < 0x80:
                    pos += 1
                    size = (first >> 1) ^ -(first & 1)
                else:
                    second = data[pos + 1]
                    if second < 0x80:
                        pos += 2
                        size = ((first & 0x7F | second << 7) >> 1) ^ -(first & 1)
                    else:
                        size, pos = read_varint(data, pos)
                if size < 0:
                    raise CorruptMessage(f"a value of {size} bytes")
                stop = pos + size
                value = data[pos:stop]
                pos = stop
            if data[pos] == 0:
                headers = _NO_HEADERS
                pos += 1
            else:
                headers, pos = _read_headers(data, pos, end)
            if pos != end:
                raise CorruptMessage(f"a record ends {pos - end} bytes from where its length says")
            timestamp = base_time + time_delta if fixed_time is None else fixed_time
            offset = base_offset + offset_delta
            add(new(make, (topic, index, epoch, offset, timestamp, time_type, key, value, headers)))
    except IndexError:
        raise CorruptMessage("a record is cut short") from None
    if pos != len(data):
        raise InvalidRecord(f"{len(data) - pos} bytes after the last of {header.record_count} records")
    return records


def values_of(header: BatchHeader, data: bytes) -> list[bytes | None]:
    """Only the values of one batch, in order."""
    values: list[bytes | None] = []
    add = values.append
    pos = 0
    try:
        for _ in range(header.record_count):
            first = data[pos]
            if first < 0x80:
                pos += 1
                end = pos + (first >> 1)
            else:
                second = data[pos + 1]
                if second < 0x80:
                    pos += 2
                    end = pos + ((first & 0x7F | second << 7) >> 1)
                else:
                    size, pos = read_varint(data, pos)
                    end = pos + size
            pos += 1
            while data[pos] >= 0x80:  # timestamp
                pos += 1
            pos += 1
            while data[pos] >= 0x80:  # offset
                pos += 1
            pos += 1
            if data[pos] == 1:  # no key
                pos += 1
            else:
                size, pos = read_varint(data, pos)
                if size < 0:
                    raise CorruptMessage(f"a key of {size} bytes")
                pos += size
            first = data[pos]
            if first == 1:
                pos += 1
                add(None)
            else:
                if first < 0x80:
                    pos += 1
                    stop = pos + (first >> 1)
                else:
                    second = data[pos + 1]
                    if second < 0x80:
                        pos += 2
                        stop = pos + ((first & 0x7F | second << 7) >> 1)
                    else:
                        size, pos = read_varint(data, pos)
                        stop = pos + size
                        if size < 0:
                            raise CorruptMessage(f"a value of {size} bytes")
                add(data[pos:stop])
                pos = stop
            if data[pos] == 0 and pos + 1 == end:
                pos = end
            else:
                pos = _read_headers(data, pos, end)[1]
                if pos != end:
                    raise CorruptMessage(f"a record ends {pos - end} bytes from where its length says")
    except IndexError:
        raise CorruptMessage("a record is cut short") from None
    if pos != len(data):
        raise InvalidRecord(f"{len(data) - pos} bytes after the last of {header.record_count} records")
    return values


def _read_headers(data: bytes, pos: int, end: int) -> tuple[Headers, int]:
    count, pos = read_varint(data, pos)
    if count < 0 or 2 * count > end - pos:
        raise CorruptMessage(f"{count} headers in a room of {end - pos} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = read_varint(data, pos)
        if size < 0 or pos + size > end:
            raise CorruptMessage(f"a header's name of {size} bytes")
        name = data[pos : pos + size].decode("utf-8", "surrogateescape")
        size, pos = read_varint(data, pos + size)
        if size < -1 or pos + size > end:
            raise CorruptMessage(f"a header of {size} bytes")
        headers.append((name, None if size < 0 else data[pos : pos + size]))
        pos += max(0, size)
    return tuple(headers), pos
