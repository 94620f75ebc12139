"""Brokers under measurement."""

import os

import pytest

from barnabas.bench.target import Target, split_address
from barnabas.errors import UserError


def test_first_address_of_a_list_counts() -> None:
    """Raw sockets go to the first bootstrap server."""
    assert split_address("one:9092,two:9093") == ("one", 9092)
    assert split_address("[::1]:9092") == ("::1", 9092)


@pytest.mark.parametrize("text", ["localhost", ":9092", "localhost:port"])
def test_address_without_port_is_refused(text: str) -> None:
    """The error shows what an address looks like."""
    with pytest.raises(UserError, match="localhost:9092"):
        split_address(text)


def test_broker_elsewhere_has_no_cpu() -> None:
    """Without a process there is nothing to read."""
    target = Target("a", "localhost:9092")
    assert (target.cpu_seconds(), target.resident_bytes()) == (None, None)


def test_cpu_of_a_process_grows() -> None:
    """CPU is the process's own, in seconds."""
    target = Target("a", "localhost:9092", os.getpid())
    before = target.cpu_seconds()
    assert before is not None
    assert (target.cpu_seconds() or 0) >= before > 0
    assert (target.resident_bytes() or 0) > 1_000_000
