"""Settings as DescribeConfigs and CreateTopics show them: the value in force, where it comes from, and what would hold without it.

Pure. The tables of `config_keys` and `topic_config` say everything; this module only looks up and formats. A topic's setting comes from its own
override, else from the broker's setting of the name `broker_key`, else from the built-in default; these are also its synonyms, strongest first.
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
    """A value as it is written in a properties file."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    if isinstance(value, (tuple, list, frozenset)):
        return ",".join(str(item) for item in value)
    return str(value)


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> tuple[Entry, ...]:
    """All settings of a topic, by name."""
    return tuple(_entry(key, _topic_synonyms(config, overrides, key), read_only=False) for _, key in sorted(TOPIC_KEYS.items()))


def broker_entries(config: BrokerConfig) -> tuple[Entry, ...]:
    """All settings of a broker, by name; none can be changed while it runs."""
    return tuple(_entry(key, _broker_synonyms(config, key), read_only=True) for _, key in sorted(KEYS.items()))


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
    below = (Synonym(key.name, key.default, DEFAULT),)
    if key.broker_key is not None:
        below = _broker_synonyms(config, KEYS[key.broker_key])
    if key.name in overrides:
        return (Synonym(key.name, overrides[key.name], DYNAMIC_TOPIC), *below)
    return below


def _broker_synonyms(config: BrokerConfig, key: Key) -> tuple[Synonym, ...]:
    """A value that differs from the default was given; one that equals it may have been, which makes no difference to anybody."""
    default = Synonym(key.name, key.default, DEFAULT)
    value = getattr(config, key.field)
    if value == key.parse_default() or text(value) == key.default:
        return (default,)
    return (Synonym(key.name, text(value), STATIC_BROKER), default)
