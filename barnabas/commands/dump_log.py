"""`barnabas dump-log FILE...`: what is in the files of a log directory, and where damage begins."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from barnabas import log_files, options
from barnabas.errors import UserError
from barnabas.log_files import Damage, StoredBatch
from barnabas.message_format import bytes_field
from kafka_wire import compression
from kafka_wire.batches import HEADER_SIZE
from kafka_wire.errors import KafkaError
from kafka_wire.records import Record, decode_records

Row = dict[str, Any]
"""What is printed on one line: names and values in order; `type` says what it is and is not printed as text."""


def _batch_row(batch: StoredBatch) -> Row:
    """Names and order as Kafka's own dump tool has them, since scripts read them."""
    header = batch.header
    row: Row = {
        "type": "batch",
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.base_sequence + header.last_offset_delta if header.base_sequence >= 0 else -1,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "position": batch.position,
        _time_name(batch): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": _codec_name(header.codec),
        "crc": header.crc,
        "isvalid": batch.problem is None,
    }
    if batch.problem is not None:
        row["problem"] = batch.problem
    return row


def _time_name(batch: StoredBatch) -> str:
    return "LogAppendTime" if batch.header.uses_log_append_time else "CreateTime"


def _codec_name(codec: int) -> str:
    return compression.NAMES[codec] if codec < len(compression.NAMES) else str(codec)


def _record_row(batch: StoredBatch, index: int, record: Record) -> Row:
    header = batch.header
    row: Row = {
        "type": "record",
        "offset": record.offset,
        _time_name(batch): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": header.base_sequence + index if header.base_sequence >= 0 else -1,
        "headers": [{"name": _printable(name)} | bytes_field("value", value) for name, value in record.headers],
    }
    if record.key is not None:
        row |= bytes_field("key", record.key)
    if record.value is not None:
        row |= bytes_field("payload", record.value)
    return row


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _log_rows(path: Path, with_records: bool) -> Iterator[Row | Damage]:
    with path.open("rb") as file:
        for found in log_files.read_log(file, path.stat().st_size):
            if isinstance(found, Damage):
                yield found
                continue
            yield _batch_row(found)
            if found.problem is not None:
                yield Damage(found.position, f"the batch of offset {found.header.base_offset}: {found.problem}")
            elif with_records:
                yield from _record_rows(found)


def _record_rows(batch: StoredBatch) -> Iterator[Row | Damage]:
    try:
        records = decode_records(batch.header, memoryview(batch.data)[HEADER_SIZE:])
    except KafkaError as error:
        yield Damage(batch.position, f"the records of the batch of offset {batch.header.base_offset}: {error.message}")
        return
    for index, record in enumerate(records):
        yield _record_row(batch, index, record)


def _index_rows(path: Path) -> Iterator[Row | Damage]:
    """The entries, each compared with the log beside the index, if there is one."""
    log = path.with_name(path.name.replace(".index", ".log"))
    with log.open("rb") if log.exists() and log != path else io.BytesIO() as file:
        size = file.seek(0, 2)
        for entry in log_files.read_index(path.read_bytes(), log_files.base_offset_of(path)):
            if isinstance(entry, Damage):
                yield entry
                continue
            yield {"type": "index", **entry._asdict()}
            problem = log_files.check_index(entry, file, size) if size else None
            if problem is not None:
                yield Damage(entry.position, f"offset {entry.offset}: {problem} of {log.name}")


def _checkpoint_rows(path: Path) -> Iterator[Row | Damage]:
    names = ("epoch", "startOffset") if path.name.startswith("leader-epoch") else ("topic", "partition", "offset")
    for fields in log_files.read_checkpoint(path.read_bytes(), len(names)):
        yield fields if isinstance(fields, Damage) else {"type": "checkpoint", **dict(zip(names, fields, strict=True))}


def _rows(path: Path, kind: str, with_records: bool) -> Iterator[Row | Damage]:
    if kind == "log":
        yield from _log_rows(path, with_records)
    elif kind == "index":
        yield from _index_rows(path)
    elif kind == "checkpoint":
        yield from _checkpoint_rows(path)
    else:
        base = log_files.base_offset_of(path)
        data = path.read_bytes()
        found = log_files.read_time_index(data, base) if kind == "timeindex" else log_files.read_snapshot(data)
        for entry in found:
            yield entry if isinstance(entry, Damage) else {"type": kind, **entry._asdict()}


def _damage_row(damage: Damage) -> Row:
    return {"type": "damage", "position": damage.position, "reason": damage.reason, "unread": damage.unread}


def _text(row: Row) -> str:
    """`name: value name: value`, records indented behind their batch; line breaks in values are escaped."""
    if row["type"] == "damage":
        unread = f"; {row['unread']} bytes from there on were not read" if row["unread"] else ""
        return f"DAMAGE at position {row['position']}: {row['reason']}{unread}"
    shown = " ".join(f"{name}: {_value(value)}" for name, value in row.items() if name != "type")
    return f"| {shown}" if row["type"] == "record" else shown


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(f"{item['name']}={_header_text(item)}" for item in value) + "]"
    return str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _header_text(item: dict[str, Any]) -> str:
    return str(item.get("value", item.get("value_base64")))


def dump(path: Path, with_records: bool, as_json: bool) -> Damage | None:
    """Print one file; the first damage in it."""
    kind = log_files.kind_of(path)
    if kind is None:
        raise UserError(f"{path}: not a .log, .index, .timeindex, .snapshot or -checkpoint file")
    first: Damage | None = None
    write = sys.stdout.write
    if not as_json:
        write(f"Dumping {path}\n")
    for found in _rows(path, kind, with_records):
        if isinstance(found, Damage):
            first = first or found
            row = _damage_row(found)
        else:
            row = found
        write((json.dumps({"file": str(path), **row}, ensure_ascii=False) if as_json else _text(row)) + "\n")
    return first


@click.command("dump-log")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("-r", "--records", "with_records", is_flag=True, help="Also the records of each batch.")
@options.json_output
def command(files: tuple[Path, ...], with_records: bool, as_json: bool) -> None:
    """Print what is in the FILEs of a log directory: batches and records of .log, entries of .index, .timeindex and
    .snapshot (producers), leader-epoch-checkpoint and the other checkpoints.

    Nothing is changed; the broker may be running. With --json one object a line. The exit code is 1 if a file is
    damaged, and the message says where the damage begins.

    \b
    barnabas dump-log data/broker-0/logs-0/00000000000000000000.log --records
    """
    damaged: list[str] = []
    for path in files:
        damage = dump(path, with_records, as_json)
        if damage is not None:
            damaged.append(f"{path}: damage begins at position {damage.position}: {damage.reason}")
    sys.stdout.flush()
    if damaged:
        raise UserError("; ".join(damaged))
