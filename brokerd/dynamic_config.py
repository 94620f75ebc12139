"""Settings that are changed while brokers run: what may be changed, and the configuration that comes of it. Pure.

Kafka's four layers, the strongest first: those of one broker, those of all brokers, what the broker was started with,
the defaults. The first two are in ZooKeeper, under /config/brokers, by a broker's id and as `<default>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from brokerd.config import BrokerConfig, advertised, nearest
from brokerd.config_keys import KEYS, NOT_NEEDED, PER_BROKER, UNITS, WITHOUT_EFFECT, ConfigError
from kafka_wire import errors

EVERYBODY = "<default>"
"""The name under which the settings of all brokers are stored; clients call it ""."""


def check(
    config: BrokerConfig, now: Mapping[str, str], wanted: Mapping[str, str | None], *, cluster_wide: bool
) -> dict[str, str]:
    """The settings to store; what stays as it is need not be known to us. InvalidRequest names settings that cannot
    change while a broker runs, InvalidConfig a value that cannot be used.
    """
    new = {name: text for name, text in wanted.items() if name not in now or now[name] != text}
    fixed = sorted(name for name in new if name in UNITS or (name in _KNOWN and not _is_dynamic(name)))
    if fixed:
        raise errors.InvalidRequest(f"Cannot update these configs dynamically: {', '.join(fixed)}.")
    if cluster_wide and (single := sorted(PER_BROKER & set(new))):
        raise errors.InvalidRequest(f"Cannot update these configs at default cluster level: {', '.join(single)}.")
    checked = {}
    for name, text in wanted.items():
        if text is None:
            raise errors.InvalidRequest(f"Null value not supported for: {name}")
        if name in new:
            try:
                parse(config, name, text)
            except ConfigError as problem:
                raise errors.InvalidConfig(str(problem)) from problem
        checked[name] = text
    return checked


def parse(config: BrokerConfig, name: str, text: str) -> Any:
    """The value of a dynamic setting; ConfigError if there is no such setting or the text is not one."""
    if name == "advertised.listeners":
        return advertised(config, text)
    if name in WITHOUT_EFFECT:
        return text
    if name not in KEYS:
        raise ConfigError(name, f"there is no such setting{nearest(name, KEYS)}")
    return KEYS[name].parse(text)


def in_force(
    static: BrokerConfig, cluster_wide: Mapping[str, str], own: Mapping[str, str]
) -> tuple[BrokerConfig, list[str]]:
    """The configuration with both dynamic layers over what the broker was started with, and what could not be used:
    a bad text in ZooKeeper must not stop a broker, so it is left out.
    """
    values: dict[str, Any] = {}
    layers: tuple[dict[str, str], dict[str, str]] = ({}, {})
    problems = []
    for used, layer in zip(layers, (cluster_wide, own), strict=True):
        for name, text in layer.items():
            if not _is_dynamic(name) or (layer is cluster_wide and name in PER_BROKER):
                problems.append(f"{name}: cannot be set there while brokers run")
                continue
            try:
                value = parse(static, name, text)
            except ConfigError as problem:
                problems.append(str(problem))
                continue
            used[name] = text
            if name in KEYS:
                values[KEYS[name].field] = value
    return attrs.evolve(static, **values, cluster_wide=layers[0], own=layers[1]), problems


_KNOWN = frozenset({*KEYS, *NOT_NEEDED})


def _is_dynamic(name: str) -> bool:
    return name in WITHOUT_EFFECT or (name in KEYS and KEYS[name].dynamic)
