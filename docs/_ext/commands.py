"""The reference of a command line, from click's own tree: usage, text, arguments, options, verbs below."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import click

from docs._ext.generated import Generated, code, plain, table

LINES = '-~^"'


class ClickReference(Generated):
    """`.. click-reference:: module:object name`."""

    required_arguments = 2
    sections = True

    def make(self) -> str:
        module, _, name = self.arguments[0].partition(":")
        command = getattr(importlib.import_module(module), name)
        return "\n".join(_about(click.Context(command, info_name=self.arguments[1]), 0))


def _about(context: click.Context, depth: int) -> Iterator[str]:
    command = context.command
    title = context.command_path
    yield from (title, LINES[min(depth, len(LINES) - 1)] * len(title), "")
    yield from (".. code-block:: text", "", f"   {title} {' '.join(command.collect_usage_pieces(context))}", "")
    yield from _text(command.help or "")
    rows = [row for row in (_row(context, one) for one in command.params) if row is not None]
    if rows:
        yield table(("Option", "Meaning"), rows, "34 66")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _about(click.Context(below, info_name=name, parent=context), depth + 1)


def _text(text: str) -> Iterator[str]:
    """Help as paragraphs; one that click is told not to wrap stays as it is."""
    for paragraph in inspect.cleandoc(text).split("\f")[0].split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("::", "", *(f"    {line}" for line in paragraph.splitlines()[1:]), "")
        elif paragraph.strip():
            yield from (plain(paragraph), "")


def _row(context: click.Context, parameter: click.Parameter) -> tuple[str, str] | None:
    if isinstance(parameter, click.Argument):
        return code(parameter.make_metavar(context)), plain(getattr(parameter, "help", None) or "Argument.")
    record = parameter.get_help_record(context)
    if record is None:
        return None
    return code(record[0]), plain(" ".join(record[1].split()))


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("click-reference", ClickReference)
    return {"parallel_read_safe": True}
