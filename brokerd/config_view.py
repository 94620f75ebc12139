"""Settings as DescribeConfigs and CreateTopics show them: the value in force, where it comes from, and what would
hold without it.

Pure. The tables of `config_keys` and `topic_config` say everything; this module only looks up and formats. A
topic's setting comes from its own override, else from the broker's setting of the name `broker_key`, else from the
built-in default; these are also its synonyms, strongest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from brokerd.config_keys import KEYS, Key
from brokerd.topic_config import TOPIC_KEYS

if TYPE_CHECKING:
    from brokerd.config import BrokerConfig

DYNAMIC_TOPIC = 1
STATIC_BROKER = 4
DEFAULT = 5

TYPES = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "class": 8, "password": 9}
"""Kafka's numbers of the kinds of value; 0 is unknown."""

_PLAIN = ("boolean", "int", "long", "double")
"""Kinds whose value says all; of the others, listeners above all, the text as the user wrote it is shown."""

_SECRET = ("password", "secret", "jaas.config")


@attrs.frozen
class Synonym:
    """A setting that does or would give the value."""

    name: str
    value: str | None
    source: int


@attrs.frozen
class Entry:
    """One setting as clients see it; the value of a sensitive one is not shown."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    type: int
    doc: str
    synonyms: tuple[Synonym, ...]


def text(value: Any) -> str | None:
    """A plain value as it is written in a properties file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> tuple[Entry, ...]:
    """All settings of a topic, by name; and those of Kafka that are kept for tools and change nothing here."""
    kept = [Key(name, "string", None, "Kept, without effect.") for name in overrides if name not in TOPIC_KEYS]
    return tuple(
        _entry(key, _topic_synonyms(config, overrides, key), read_only=False)
        for key in sorted([*TOPIC_KEYS.values(), *kept], key=_by_name)
    )


def broker_entries(config: BrokerConfig) -> tuple[Entry, ...]:
    """All settings of a broker, by name; none can be changed while it runs."""
    return tuple(_entry(key, _broker_synonyms(config, key), read_only=True) for _, key in sorted(KEYS.items()))


def _by_name(key: Key) -> str:
    return key.name


def _entry(key: Key, synonyms: tuple[Synonym, ...], *, read_only: bool) -> Entry:
    strongest = synonyms[0]
    sensitive = any(word in key.name for word in _SECRET)
    return Entry(
        name=key.name,
        value=None if sensitive else strongest.value,
        source=strongest.source,
        read_only=read_only,
        sensitive=sensitive,
        type=TYPES.get(key.kind, 0),
        doc=key.doc,
        synonyms=tuple(attrs.evolve(one, value=None) for one in synonyms) if sensitive else synonyms,
    )


def _topic_synonyms(config: BrokerConfig, overrides: Mapping[str, str], key: Key) -> tuple[Synonym, ...]:
    below: tuple[Synonym, ...] = (Synonym(key.name, key.default, DEFAULT),)
    if key.broker_key is not None:
        below = _broker_synonyms(config, KEYS[key.broker_key])
    if key.name in overrides:
        return (Synonym(key.name, overrides[key.name], DYNAMIC_TOPIC), *below)
    return below


def _broker_synonyms(config: BrokerConfig, key: Key) -> tuple[Synonym, ...]:
    default = Synonym(key.name, key.default, DEFAULT)
    plain = key.kind in _PLAIN
    if key.name in config.given:
        value = text(getattr(config, key.field)) if plain else config.given[key.name]
        return (Synonym(key.name, value, STATIC_BROKER), default)
    return (Synonym(key.name, text(getattr(config, key.field)), DEFAULT),) if plain else (default,)
