"""`barnabas dump-log` as a user sees it."""

import json
import struct
from pathlib import Path

from click.testing import CliRunner, Result

from barnabas.cli import cli
from kafka_wire import compression
from kafka_wire.records import Record, encode_batch

NAME = "00000000000000000100"


def write_log(directory: Path, *, damaged: bool = False) -> Path:
    """Two batches from offset 100, the second one cut if damaged."""
    first = encode_batch(
        [Record(0, 5, b"k", b"line\nbreak", (("h", b"1"),)), Record(0, 6, None, None)],
        base_offset=100,
        codec=compression.ZSTD,
        producer_id=9,
        producer_epoch=0,
        base_sequence=3,
    )
    second = encode_batch([Record(0, 7, None, b"\xff")], base_offset=102)
    path = directory / f"{NAME}.log"
    path.write_bytes(first + (second[:-1] if damaged else second))
    return path


def dump(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["dump-log", *map(str, arguments)])


def test_batches_are_printed_with_the_names_of_kafkas_tool(tmp_path: Path) -> None:
    """One line for each batch; records only when asked for."""
    result = dump(write_log(tmp_path))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("baseOffset: 100 lastOffset: 101 count: 2 baseSequence: 3 lastSequence: 4 producerId: 9")
    assert "position: 0 CreateTime: 6 size: " in lines[1]
    assert lines[1].endswith(" isvalid: true")


def test_records_are_printed_one_a_line(tmp_path: Path) -> None:
    """Line breaks are escaped, null is a size of -1, and bytes that are no text come as base64."""
    lines = dump("--records", write_log(tmp_path)).stdout.splitlines()
    expected = (
        r"| offset: 100 CreateTime: 5 keySize: 1 valueSize: 10 sequence: 3 headers: [h=1] key: k payload: line\nbreak"
    )
    assert lines[2] == expected
    assert lines[3] == "| offset: 101 CreateTime: 6 keySize: -1 valueSize: -1 sequence: 4 headers: []"
    assert lines[5].endswith("payload_base64: /w==")


def test_json_is_one_object_a_line(tmp_path: Path) -> None:
    """Every line says what it is and from which file."""
    path = write_log(tmp_path)
    rows = [json.loads(line) for line in dump("--records", "--json", path).stdout.splitlines()]
    assert [row["type"] for row in rows] == ["batch", "record", "record", "batch", "record"]
    assert {row["file"] for row in rows} == {str(path)}
    assert rows[1]["headers"] == [{"name": "h", "value": "1"}]


def test_damage_is_shown_and_is_the_exit_code(tmp_path: Path) -> None:
    """What is sound is printed, then where damage begins, on both outputs; other files are still read."""
    path = write_log(tmp_path, damaged=True)
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(struct.pack(">ii", 1, 0))
    result = dump(path, index)
    assert result.exit_code == 1
    assert "DAMAGE at position " in result.stdout
    assert "offset: 101 position: 0" in result.stdout
    assert "damage begins at position" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_index_that_does_not_fit_its_log_is_damage(tmp_path: Path) -> None:
    """An index is compared with the log beside it."""
    write_log(tmp_path)
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(struct.pack(">ii", 1, 7))
    result = dump(index)
    assert result.exit_code == 1
    assert "no batch begins at position 7" in result.stderr


def test_other_files_of_the_directory_are_read(tmp_path: Path) -> None:
    """Time index, leader epochs and offset checkpoints."""
    times, epochs = tmp_path / f"{NAME}.timeindex", tmp_path / "leader-epoch-checkpoint"
    offsets = tmp_path / "replication-offset-checkpoint"
    times.write_bytes(struct.pack(">qi", 7, 2))
    epochs.write_bytes(b"0\n1\n3 100\n")
    offsets.write_bytes(b"0\n1\nlogs 0 103\n")
    lines = dump(times, epochs, offsets).stdout.splitlines()
    assert lines[1::2] == [
        "timestamp: 7 offset: 102",
        "epoch: 3 startOffset: 100",
        "topic: logs partition: 0 offset: 103",
    ]


def test_unknown_and_missing_files_are_refused(tmp_path: Path) -> None:
    """A file of another kind is a failure, a missing one a wrong call."""
    other = tmp_path / "meta.properties"
    other.touch()
    assert dump(other).exit_code == 1
    assert dump(tmp_path / "none.log").exit_code == 2
