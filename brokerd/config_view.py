"""Settings as DescribeConfigs and CreateTopics show them: the value in force, where it comes from, and what would
hold without it.

Pure. The tables of `config_keys` and `topic_config` say everything; this module only looks up and formats. A topic's
setting comes from its own override, else from the broker's setting of the name `broker_key`. A broker's comes from the
layers of `dynamic_config`, and in each of them from the finest unit that is there. All of these are its synonyms,
strongest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from brokerd.config_keys import KEYS, UNIT_KEYS, UNITS, Key
from brokerd.topic_config import TOPIC_KEYS

if TYPE_CHECKING:
    from brokerd.config import BrokerConfig

DYNAMIC_TOPIC = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT_BROKER = 3
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
    return tuple(
        _topic_entry(config, overrides, key)
        for key in sorted([*TOPIC_KEYS.values(), *_kept(overrides, TOPIC_KEYS)], key=_by_name)
    )


def broker_entries(config: BrokerConfig) -> tuple[Entry, ...]:
    """All settings of a broker, by name; those that cannot be changed while it runs are read-only."""
    kept = _kept({**config.cluster_wide, **config.own}, KEYS)
    found = []
    for key in sorted([*KEYS.values(), *UNIT_KEYS.values(), *kept], key=_by_name):
        synonyms = _broker_synonyms(config, key.name)
        value = synonyms[0].value if synonyms else None
        if key.name in KEYS and key.kind in _PLAIN:
            value = text(getattr(config, key.field))
        found.append(_entry(key, value, synonyms, read_only=not key.dynamic))
    return tuple(found)


def cluster_wide_entries(config: BrokerConfig) -> tuple[Entry, ...]:
    """The settings of all brokers that were made while they ran, by name."""
    return tuple(
        _entry(
            KEYS.get(name) or Key(name, "string", None, _KEPT),
            value,
            (Synonym(name, value, DYNAMIC_DEFAULT_BROKER),),
            read_only=False,
        )
        for name, value in sorted(config.cluster_wide.items())
    )


_KEPT = "Kept, without effect."

_DEFAULTS = {
    key.name: key.default
    for key in (*KEYS.values(), *UNIT_KEYS.values())
    if key.default is not None and key.name not in {target for target, _ in UNITS.values()}
}


def _by_name(key: Key) -> str:
    return key.name


def _kept(settings: Mapping[str, str], known: Mapping[str, Key]) -> list[Key]:
    return [Key(name, "string", None, _KEPT, dynamic=True) for name in settings if name not in known]


def _entry(key: Key, value: str | None, synonyms: tuple[Synonym, ...], *, read_only: bool) -> Entry:
    sensitive = any(word in key.name for word in _SECRET)
    return Entry(
        name=key.name,
        value=None if sensitive else value,
        source=synonyms[0].source if synonyms else DEFAULT,
        read_only=read_only,
        sensitive=sensitive,
        type=TYPES.get(key.kind, 0),
        doc=key.doc,
        synonyms=tuple(attrs.evolve(one, value=None) for one in synonyms) if sensitive else synonyms,
    )


def _topic_entry(config: BrokerConfig, overrides: Mapping[str, str], key: Key) -> Entry:
    synonyms: tuple[Synonym, ...] = ()
    value = key.default
    if key.broker_key is not None:
        synonyms = _broker_synonyms(config, key.broker_key)
        value = synonyms[0].value if synonyms else None
        if key.kind in _PLAIN:
            value = text(getattr(config, KEYS[key.broker_key].field))
    if key.name in overrides:
        value = overrides[key.name]
        synonyms = (Synonym(key.name, value, DYNAMIC_TOPIC), *synonyms)
    return _entry(key, value, synonyms, read_only=False)


def _broker_synonyms(config: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    """A unit is shown with itself first, as in Kafka; a setting that has units with whichever of them is there."""
    target = UNITS.get(name, (name, 1))[0]
    names = [target, *sorted((unit for unit in UNITS if UNITS[unit][0] == target), key=lambda unit: UNITS[unit][1])]
    layers: tuple[tuple[Mapping[str, str], int], ...] = (
        (config.own, DYNAMIC_BROKER),
        (config.cluster_wide, DYNAMIC_DEFAULT_BROKER),
        (config.written, STATIC_BROKER),
        (_DEFAULTS, DEFAULT),
    )
    found = [Synonym(one, layer[one], source) for layer, source in layers for one in names if one in layer]
    if name in UNITS:
        while found and found[0].name != name:
            del found[0]
    return tuple(found)
