"""Tables, plain text and JSON."""

import json

import pytest

from barnabas import output


def test_rows_are_aligned_and_numbers_stand_to_the_right() -> None:
    """Plain text is read by eyes and by awk."""
    text = output.aligned(("Topic", "Partitions", "Isr"), [("logs", 12, (0, 1)), ("a", 3, ())])
    assert text.splitlines() == [
        "Topic  Partitions  Isr",
        "logs           12  0,1",
        "a               3  -",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), ("", "-"), (True, "yes"), (False, "no"), (0, "0"), ([1, 2], "1,2"), ((), "-"), ("x", "x")],
)
def test_cell_shows_a_value_as_people_write_it(value: object, text: str) -> None:
    """Nothing is blank: awk counts fields."""
    assert output.cell(value) == text


def test_table_without_rows_says_so_on_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe gets results and nothing else."""
    output.print_table(("Topic",), [], empty="there are no topics")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "there are no topics\n")


def test_json_outside_a_terminal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Several documents are JSON Lines; bytes and sets have a form."""
    output.print_json({"value": b"\xffa", "isr": {2, 1}, "name": "ü"})
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert json.loads(text) == {"value": "\N{REPLACEMENT CHARACTER}a", "isr": [1, 2], "name": "ü"}


def test_table_on_a_terminal_shows_brackets_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values come from users: rich must not take them for its markup."""
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    output.print_table(("Value",), [("[bold]x[/bold]",)], title="t")
    assert "[bold]x[/bold]" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "text"), [(0, "0 topics"), (1, "1 topic"), (2, "2 topics")])
def test_things_are_counted_in_words(number: int, text: str) -> None:
    """Singular and plural."""
    assert output.counted(number, "topic") == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, None), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB"), (1024**5, "1024.0 TiB")],
)
def test_sizes_are_rounded_for_eyes_only(monkeypatch: pytest.MonkeyPatch, size: int | None, text: str | None) -> None:
    """Programs get bytes."""
    assert output.size_text(size) == size
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    assert output.size_text(size) == text
