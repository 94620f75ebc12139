"""What the extensions have in common: a directive whose content is reStructuredText made by a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    """A directive that parses the text of `make` in its own place. `sections` if that text has headings."""

    sections: ClassVar[bool] = False

    def make(self) -> str:
        """The text; the directive's arguments are in `self.arguments`."""
        raise NotImplementedError

    def run(self) -> list[Any]:
        """What Sphinx calls."""
        return list(self.parse_text_to_nodes(self.make(), allow_section_headings=self.sections))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """A list-table. Cells are reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (header, *rows):
        for number, cell in enumerate(row):
            first, *more = cell.splitlines() or [""]
            lines.append(f"   {'* -' if number == 0 else '  -'} {first}".rstrip())
            lines += [f"       {line}".rstrip() for line in more]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """As literal text; a dash for nothing."""
    return f"``{text}``" if text else "\u2013"


def plain(text: str) -> str:
    """A docstring's or a table's sentence as reStructuredText: single backquotes are code there."""
    return text.replace("``", "`").replace("`", "``").replace("*", "\\*").replace("|", "\\|")
