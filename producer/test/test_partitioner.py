"""The partitioner agrees with other clients: their implementation is the judge."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from producer.partitioner import murmur2, partition_of


@given(st.binary(max_size=40))
def test_hash_is_that_of_another_client(key: bytes) -> None:
    """Any key, of any length modulo four, has kafka-python's hash."""
    assert murmur2(key) == their_murmur2(key) & 0xFFFFFFFF


@given(st.binary(), st.integers(1, 1000))
def test_partition_is_one_of_those_that_exist(key: bytes, count: int) -> None:
    """The result is a partition, the same one each time."""
    assert 0 <= partition_of(key, count) < count
    assert partition_of(key, count) == partition_of(key, count)
