"""Lines, messages and batches of `barnabas produce`: nothing lost, nothing reordered within a partition."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from barnabas.sending import OUTBOX_BYTES, Outbox, Parser, Splitter
from kafka_wire.records import Record
from producer.partitioner import partition_of


def first(choices: Sequence[int]) -> int:
    return choices[0]


def message(value: bytes, key: bytes | None = None) -> Record:
    return Record(0, 1, key, value)


def drained(outbox: Outbox) -> dict[int, list[Record]]:
    """What was sent to each partition when every batch is stored at once."""
    sent: dict[int, list[Record]] = {}
    while due := outbox.due():
        for partition in list(due):
            assert outbox.sequence(partition) == len(sent.get(partition, []))
            sent.setdefault(partition, []).extend(outbox.done(partition).records)
    return sent


@given(st.lists(st.binary(max_size=20)), st.sampled_from([b"\n", b"\0", b"--"]), st.lists(st.integers(1, 9)))
def test_lines_are_those_of_split(pieces: list[bytes], delimiter: bytes, cuts: list[int]) -> None:
    """However the stream is cut, the lines are the same; a delimiter at the end starts no line."""
    stream = delimiter.join(pieces)
    splitter, lines, rest = Splitter(delimiter), [], stream
    for cut in [*cuts, len(stream) + 1]:
        lines += splitter.feed(rest[:cut])
        rest = rest[cut:]
    lines += splitter.end()
    expected = stream.split(delimiter)
    assert lines == (expected if expected[-1] else expected[:-1])


def test_key_headers_and_null_are_taken_from_the_line() -> None:
    """The first separator counts; without one there is no key; the marker is null on both sides."""
    parser = Parser(b":", b"NULL", (("h", b"1"),))
    assert parser.record(b"k:v:w", 5) == Record(0, 5, b"k", b"v:w", (("h", b"1"),))
    assert parser.record(b"alone", 5)[2:4] == (None, b"alone")
    assert parser.record(b"NULL:NULL", 5)[2:4] == (None, None)
    assert parser.record(b":", 5)[2:4] == (b"", b"")
    assert Parser().record(b"NULL:x", 5)[2:4] == (None, b"NULL:x")


def test_keys_decide_the_partition() -> None:
    """Equal keys share a partition, in order."""
    outbox = Outbox(7, choose=first)
    for number in range(50):
        outbox.add(message(b"%d" % number, b"k%d" % (number % 5)))
    for partition, records in drained(outbox).items():
        assert all(partition_of(record.key or b"", 7) == partition for record in records)
        for key in {record.key for record in records}:
            numbers = [int(record.value or b"") for record in records if record.key == key]
            assert numbers == sorted(numbers)


def test_messages_without_key_fill_one_batch_after_another() -> None:
    """One partition gets a full batch before the next has its turn; few large batches."""
    outbox = Outbox(3, choose=first, batch_bytes=1000)
    for number in range(40):
        outbox.add(message(b"%080d" % number))
    sizes = [len(batch.records) for batch in outbox.due().values()]
    assert max(sizes) == 10
    assert len(sizes) > 1


def test_chosen_partition_takes_everything() -> None:
    """With a partition given, keys do not matter."""
    outbox = Outbox(5, only=3)
    outbox.add(message(b"a", b"key"))
    outbox.add(message(b"b"))
    assert {partition: len(records) for partition, records in drained(outbox).items()} == {3: 2}


def test_outbox_is_full_when_a_batch_waits_behind_another_or_bytes_are_many() -> None:
    """It asks to be sent before it grows without bound."""
    outbox = Outbox(1, batch_bytes=100)
    full = []
    for _ in range(2):
        outbox.add(message(b"x" * 60))
        full.append(outbox.is_full)
    assert full == [False, True]
    large = Outbox(1, batch_bytes=2 * OUTBOX_BYTES)
    large.add(message(b"x" * OUTBOX_BYTES))
    assert large.is_full


def test_batch_under_way_takes_no_more_records() -> None:
    """A batch that was tried keeps its content: the broker may have it already."""
    outbox = Outbox(1)
    outbox.add(message(b"a"))
    outbox.due()[0].tries += 1
    outbox.add(message(b"b"))
    assert [record.value for record in outbox.done(0).records] == [b"a"]
    assert (outbox.sequence(0), [record.value for record in outbox.done(0).records]) == (1, [b"b"])


def test_batch_that_is_too_large_is_halved_in_order() -> None:
    """Halves keep order and sequence; a single record cannot be halved."""
    outbox = Outbox(1)
    for value in (b"a", b"b", b"c"):
        outbox.add(message(value))
    assert outbox.split(0)
    assert outbox.messages == 3
    assert [record.value for record in drained(outbox)[0]] == [b"a", b"b", b"c"]
    assert (outbox.messages, outbox.bytes) == (0, 0)
    outbox.add(message(b"d"))
    assert not outbox.split(0)


def test_new_producer_counts_from_zero() -> None:
    """Sequences belong to a producer id."""
    outbox = Outbox(1)
    outbox.add(message(b"a"))
    outbox.done(0)
    assert outbox.sequence(0) == 1
    outbox.restart_sequences()
    assert outbox.sequence(0) == 0
