"""What verbs print: tables for eyes, plain aligned text for pipes, JSON for programs.

Results go to stdout, everything said about the work (`note`) to stderr, so that a pipe holds results only.
"""

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import click

_MISSING = "-"


def on_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person is looking at `stream` (stdout unless given)."""
    return (stream or sys.stdout).isatty()


def cell(value: object) -> str:
    """A value as a table shows it: lists with commas, None as a dash."""
    if value is None or value == "":
        return _MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(str(item) for item in value) or _MISSING
    return str(value)


def aligned(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under their headings, columns padded with spaces; numbers to the right."""
    table = [list(row) for row in rows]
    texts = [list(columns)] + [[cell(value) for value in row] for row in table]
    widths = [max(len(line[index]) for line in texts) for index in range(len(columns))]
    right = [_is_numeric(table, index) for index in range(len(columns))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in texts
    )


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, empty: str | None = None
) -> None:
    """A table on a terminal, `aligned` text elsewhere; without rows only the note `empty`, if given."""
    table = [list(row) for row in rows]
    if not table and empty is not None:
        note(empty)
    elif on_terminal():
        _print_rich(columns, table, title)
    else:
        if title:
            click.echo(title)
        click.echo(aligned(columns, table))


def print_json(value: Any) -> None:
    """One JSON document: indented on a terminal, on one line elsewhere (so that many of them are JSON Lines)."""
    click.echo(json.dumps(value, indent=2 if on_terminal() else None, ensure_ascii=False, default=_plain))


def counted(number: int, thing: str) -> str:
    """`1 broker`, `2 brokers`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def size_text(size: int | None) -> str | int | None:
    """Bytes as people read them on a terminal, and as programs do elsewhere."""
    if size is None or not on_terminal():
        return size
    scaled, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if scaled < 1024 or unit == "TiB":
            break
        scaled /= 1024
    return f"{scaled:.0f} B" if unit == "B" else f"{scaled:.1f} {unit}"


def note(message: str) -> None:
    """One line to the person, on stderr. That nobody can read it any more is no reason to fail."""
    with contextlib.suppress(OSError):
        click.echo(message, err=True)


def _is_numeric(table: Sequence[Sequence[object]], index: int) -> bool:
    values = [row[index] for row in table if row[index] is not None]
    return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _print_rich(columns: Sequence[str], table: Sequence[Sequence[object]], title: str | None) -> None:
    # Imported here: most calls of the command print no table, and none should wait for the import.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if title:
        console.print(Text(title, "bold"))
    drawn = Table(box=None, header_style="bold cyan", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="right" if _is_numeric(table, index) else "left", overflow="fold")
    for row in table:
        drawn.add_row(*(value if isinstance(value, Text) else Text(cell(value)) for value in row))
    console.print(drawn)


def _plain(value: object) -> object:
    """What JSON has no form for: bytes as text, other collections as lists, the rest as it prints."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
