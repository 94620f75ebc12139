"""The reference of settings, from the tables that the broker itself reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import brokerd.config
from brokerd.config_keys import (
    ALIASES,
    KEYS,
    NOT_NEEDED,
    NOT_NEEDED_PREFIXES,
    UNITS,
    UNSUPPORTED_PREFIXES,
    Key,
)
from brokerd.topic_config import TOPIC_KEYS
from docs._ext.generated import Generated, code, plain, table

GROUPS = (
    (
        "Identity and network",
        ("broker.", "reserved.", "listener", "advertised.", "inter.", "barnabas.", "socket.", "connections."),
    ),
    ("Limits and HTTP", ("max.connections", "max.buffered", "http.")),
    ("ZooKeeper", ("zookeeper.",)),
    ("Log and durability", ("log.", "num.partitions", "message.", "compression.", "durability", "producer.id.")),
    ("Topics", ("auto.create", "delete.topic")),
    (
        "Replication and fetching",
        (
            "default.",
            "min.",
            "replica.",
            "num.replica",
            "unclean.",
            "auto.leader",
            "leader.",
            "controlled.",
            "fetch.",
            "max.incremental",
        ),
    ),
    ("Groups and offsets", ("group.", "offset")),
)


def group_of(name: str) -> str:
    """The heading under which a setting stands: that of the longest prefix."""
    found = [(len(prefix), title) for title, prefixes in GROUPS for prefix in prefixes if name.startswith(prefix)]
    return max(found)[1] if found else "Others"


@cache
def _names_in_use() -> frozenset[str]:
    """Attributes that the broker's code reads, and settings that the loader itself acts upon."""
    root = Path(brokerd.config.__file__).parent
    found: set[str] = set()
    for path in root.rglob("*.py"):
        if "test" in path.parts or path.name in ("config_keys.py", "topic_config.py", "config_view.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and path.name == "config.py":
                found.add(node.value)
    return frozenset(found)


def is_in_use(key: Key) -> bool:
    """Whether any code acts upon the setting, itself or as the default of a topic's."""
    fields = {key.field} | {one.field for one in TOPIC_KEYS.values() if one.broker_key == key.name}
    return bool(fields & _names_in_use())


def _meaning(key: Key) -> str:
    effect = "" if is_in_use(key) else " *No effect yet.*"
    dynamic = " *Dynamic.*" if KEYS.get(key.name) is key and key.dynamic else ""
    return f"{plain(key.doc)}{effect}{dynamic}"


def _default(key: Key) -> str:
    return "not set" if key.default is None else code(key.default) if key.default else "empty"


def _table(keys: Iterable[Key]) -> str:
    rows = [(code(key.name), key.kind, _default(key), _meaning(key)) for key in keys]
    return table(("Setting", "Type", "Default", "Meaning"), rows, "30 8 22 40")


class BrokerSettings(Generated):
    """Every setting of a broker, under headings."""

    def make(self) -> str:
        groups: dict[str, list[Key]] = {title: [] for title, _ in GROUPS}
        for key in KEYS.values():
            groups.setdefault(group_of(key.name), []).append(key)
        return "\n".join(f".. rubric:: {title}\n\n{_table(keys)}" for title, keys in groups.items() if keys)


class TopicSettings(Generated):
    """Every setting of a topic, with the broker's setting that is its default."""

    def make(self) -> str:
        rows = [
            (code(key.name), key.kind, code(key.broker_key or ""), _meaning(key))
            for key in sorted(TOPIC_KEYS.values(), key=lambda key: key.name)
        ]
        return table(("Setting", "Type", "Default: the broker's", "Meaning"), rows, "28 8 30 34")


class OtherNames(Generated):
    """Names that are read as others, taken with a notice, or refused."""

    def make(self) -> str:
        aliases = table(("Name", "Read as"), [(code(old), code(new)) for old, new in sorted(ALIASES.items())])
        units = table(("Name", "Read as"), [(code(old), code(str(new[0]))) for old, new in sorted(UNITS.items())])
        ignored = ", ".join(code(name) for name in sorted(NOT_NEEDED))
        prefixes = ", ".join(code(f"{prefix}*") for prefix in NOT_NEEDED_PREFIXES)
        refused = ", ".join(code(f"{prefix}*") for prefix in UNSUPPORTED_PREFIXES)
        return (
            f"Other names of the same settings:\n\n{aliases}\nThe same settings in other units:\n\n{units}\n"
            f"Known, not needed here, accepted with one notice each: {ignored}; "
            f"and everything that begins with {prefixes}.\n\n"
            "Refused, because ignoring a setting that protects would leave a broker open that its owner believes "
            f"closed: {refused}.\n"
        )


def setup(app: Any) -> dict[str, bool]:
    """Registers the directives."""
    app.add_directive("broker-settings", BrokerSettings)
    app.add_directive("topic-settings", TopicSettings)
    app.add_directive("other-settings", OtherNames)
    return {"parallel_read_safe": True}
