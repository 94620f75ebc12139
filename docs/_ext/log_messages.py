"""A table of log messages that is checked against the code: a message that nobody writes any more fails the build."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from docs._ext.generated import Generated, code, plain, table


@cache
def texts(module: str) -> tuple[str, ...]:
    """Every string in a module's source; parts that stand side by side are one."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ()
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    plain_ones = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return (*plain_ones, *(_template(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)))


def _template(text: ast.JoinedStr) -> str:
    return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in text.values)


class LogMessages(Generated):
    """Lines `module | part of the message | what it means`."""

    has_content = True

    def make(self) -> str:
        rows = []
        for line in self.content:
            module, message, meaning = (part.strip() for part in line.split(" | ", 2))
            if not any(message in text for text in texts(module)):
                raise self.error(f"no message in {module} has the text {message!r}")
            rows.append((code(message), plain(meaning), code(module)))
        return table(("Message", "What it means, and what to do", "Written by"), rows, "34 46 20")


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("log-messages", LogMessages)
    return {"parallel_read_safe": True}
