"""Messages for a run."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.bench.payload import log_lines


@given(st.integers(1, 2000), st.integers(1, 20))
def test_lines_have_exactly_the_wanted_size(size: int, count: int) -> None:
    """A case of 200 bytes sends 200 bytes."""
    lines = log_lines(size, count)
    assert [len(line) for line in lines] == [size] * count


def test_same_seed_gives_same_lines() -> None:
    """Both brokers get the same messages."""
    assert log_lines(100, 5) == log_lines(100, 5)
    assert len(set(log_lines(100, 5))) == 5
