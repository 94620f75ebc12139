"""Answers to raw fetches, walked batch by batch."""

from barnabas.bench.fetch import FetchCase, _after
from barnabas.bench.frames import filled_batch
from kafka_wire.batches import set_offset_and_epoch


def batch_at(offset: int, count: int) -> bytes:
    batch = bytearray(filled_batch(50, count))
    set_offset_and_epoch(batch, 0, offset, 0)
    return bytes(batch)


def test_position_moves_behind_the_last_batch() -> None:
    """The next fetch goes on after everything that came."""
    assert _after(memoryview(batch_at(100, 5) + batch_at(105, 3)), 100) == 108


def test_cut_batch_is_fetched_again() -> None:
    """A fetch may end in the middle of a batch."""
    assert _after(memoryview(batch_at(100, 5) + batch_at(105, 3)[:-1]), 100) == 105
    assert _after(memoryview(batch_at(100, 5)[:30]), 100) == 100


def test_empty_answer_moves_nothing() -> None:
    """A long poll that ran out."""
    assert _after(None, 7) == 7
    assert _after(memoryview(b""), 7) == 7


def test_every_partition_gets_its_share() -> None:
    """Rounded up, so that there are never too few."""
    assert FetchCase(partitions=6, messages=100).per_partition == 17
