"""`barnabas bench` before it measures anything."""

import pytest
from click.testing import CliRunner

from barnabas.cli import cli


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["produce", "--size", "big"], "is not a number"),
        (["produce", "--partitions", "0"], "above 0"),
        (["produce", "--client", "raw", "--acks", "0"], "there are none"),
        (["small-requests", "--acks", "0"], "Invalid value"),
        (["produce", "--topic-config", "durability"], "NAME=VALUE"),
    ],
)
def test_wrong_call_is_explained(arguments: list[str], complaint: str) -> None:
    """Exit code 2 and a line that says what is wrong."""
    result = CliRunner().invoke(cli, ["bench", *arguments])
    assert result.exit_code == 2
    assert complaint in result.output


def test_help_lists_the_measurements() -> None:
    """All of them, and the whole comparison."""
    result = CliRunner().invoke(cli, ["bench", "--help"])
    assert result.exit_code == 0
    for name in ("produce", "fetch", "latency", "small-requests", "compare", "install-kafka"):
        assert name in result.output
