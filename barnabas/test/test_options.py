"""NAME=VALUE options."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.options import assignments

_names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1)
_values = st.text().map(str.strip)


@given(st.dictionaries(_names, _values))
def test_names_and_values_come_back(settings: dict[str, str]) -> None:
    """Also empty values and values with equals signs."""
    assert assignments([f"{name}={value}" for name, value in settings.items()], "--set") == settings


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["retention.ms"], "--set wants NAME=VALUE, not 'retention.ms'"),
        (["=5"], "--set wants NAME=VALUE, not '=5'"),
        (["a=1", "a=2"], "--set names a twice"),
    ],
)
def test_what_is_no_assignment_is_a_wrong_call(texts: list[str], message: str) -> None:
    """The error names the option."""
    with pytest.raises(click.UsageError) as raised:
        assignments(texts, "--set")
    assert raised.value.message == message
