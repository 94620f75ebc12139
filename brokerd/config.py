"""A broker's settings: read from properties, checked once, then a value that never changes.

Names are Kafka's. A name that nobody knows is an error that offers the nearest one; a name of Kafka's that we do not
need costs a notice, so that Kafka's own server.properties starts this broker. A plaintext listener binds loopback
unless `barnabas.allow.remote.plaintext=true` says otherwise.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Iterable, Mapping

import attrs
import javaproperties

from brokerd.config_keys import (
    ALIASES,
    KEYS,
    NOT_NEEDED,
    NOT_NEEDED_PREFIXES,
    UNITS,
    UNSUPPORTED_PREFIXES,
    ConfigError,
    Key,
)

__all__ = ["KEYS", "BrokerConfig", "ConfigError", "Key", "Listener", "load", "nearest", "parse_overrides", "read_text"]

LOOPBACK = "127.0.0.1"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@attrs.frozen(slots=True)
class Listener:
    """One address. `protocol` is the security protocol; host "" means all interfaces (only where that is allowed)."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return _is_loopback(self.host)


@attrs.frozen(slots=True, kw_only=True)
class BrokerConfig:
    """The settings of one broker; the meaning of each is in `config_keys.KEYS` under the name with dots."""

    broker_id: int
    broker_id_generation_enable: bool
    reserved_broker_max_id: int
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    listener_security_protocol_map: tuple[str, ...]
    inter_broker_listener_name: str
    barnabas_allow_remote_plaintext: bool
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_buffered_bytes: int
    http_listener: tuple[str, int] | None
    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    log_dirs: tuple[str, ...]
    num_partitions: int
    log_segment_bytes: int
    log_roll_ms: int
    log_retention_ms: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_segment_delete_delay_ms: int
    log_preallocate: bool
    message_max_bytes: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    compression_type: str
    durability: str
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    default_replication_factor: int
    min_insync_replicas: int
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_backoff_ms: int
    replica_fetch_response_max_bytes: int
    num_replica_fetchers: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_socket_timeout_ms: int
    unclean_leader_election_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_per_broker_percentage: int
    leader_imbalance_check_interval_seconds: int
    controlled_shutdown_enable: bool
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offsets_topic_num_partitions: int
    offsets_retention_minutes: int
    offset_metadata_max_bytes: int
    producer_id_expiration_ms: int
    given: Mapping[str, str] = attrs.field(factory=dict, eq=False, hash=False)
    """What the user wrote, by today's names: the rest are defaults."""
    written: Mapping[str, str] = attrs.field(factory=dict, eq=False, hash=False)
    """The same, each in the unit in which it was written."""
    cluster_wide: Mapping[str, str] = attrs.field(factory=dict, eq=False, hash=False)
    """Settings of all brokers that were made while they ran; see `dynamic_config`."""
    own: Mapping[str, str] = attrs.field(factory=dict, eq=False, hash=False)
    """Settings of this broker that were made while it ran; they win over `cluster_wide`."""


def read_text(text: str) -> dict[str, str]:
    """The settings in the text of a Java properties file."""
    try:
        return dict(javaproperties.loads(text))
    except ValueError as problem:
        raise ConfigError("properties", f"the file cannot be read: {problem}") from None


def parse_overrides(items: Iterable[str]) -> dict[str, str]:
    """Settings given as `name=value`."""
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ConfigError(item, "an override is written name=value")
        found[name.strip()] = value.strip()
    return found


def load(properties: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> tuple[BrokerConfig, list[str]]:
    """The configuration and the notices to print. Overrides win over properties, whatever unit or alias they use."""
    notices: list[str] = []
    given = _named(properties, notices)
    given.update(_named(overrides or {}, notices))
    values = {key.field: key.parse(given[key.name]) if key.name in given else key.parse_default() for key in _table()}
    _derive_listeners(values, notices)
    values["http_listener"] = _http_listener(values["http_listener"])
    if values["broker_id_generation_enable"] and values["broker_id"] > values["reserved_broker_max_id"]:
        raise ConfigError("broker.id", "is above reserved.broker.max.id, where the generated ids are")
    if not values["log_dirs"]:
        raise ConfigError("log.dirs", "must name at least one directory")
    if values["group_min_session_timeout_ms"] > values["group_max_session_timeout_ms"]:
        raise ConfigError("group.min.session.timeout.ms", "is above group.max.session.timeout.ms")
    texts = {**properties, **(overrides or {})}
    written = {ALIASES.get(name, name): text for name, text in texts.items() if ALIASES.get(name, name) in given}
    written.update({name: text for name, text in texts.items() if name in UNITS or name in KEYS})
    return BrokerConfig(**values, given=given, written=written), notices


def advertised(config: BrokerConfig, text: str) -> tuple[Listener, ...]:
    """What `text` as advertised.listeners would advertise; ConfigError if it does not fit the listeners."""
    protocols = _protocol_map(config.listener_security_protocol_map)
    return _advertised(KEYS["advertised.listeners"].parse(text), protocols, [one.name for one in config.listeners])


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not known: `; did you mean x?`, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""


def _table() -> Iterable[Key]:
    return KEYS.values()


def _named(settings: Mapping[str, str], notices: list[str]) -> dict[str, str]:
    """The settings by the names of `KEYS`, units converted; unknown names are errors, unneeded ones notices."""
    result: dict[str, str] = {}
    scale: dict[str, int] = {}
    for name, text in settings.items():
        if name in UNITS:
            target, factor = UNITS[name]
            text = _scaled(name, text, factor)
        elif name in ALIASES and ALIASES[name] not in settings:
            target, factor = ALIASES[name], 1
            if name != "log.dir":
                notices.append(f"{name} is an old name of {target}; please use that one")
        elif name in KEYS:
            target, factor = name, 1
        else:
            notices.append(_unneeded(name))
            continue
        if factor <= scale.get(target, factor):
            result[target], scale[target] = text, factor
    return result


def _unneeded(name: str) -> str:
    if name in ALIASES:
        return f"{name} is ignored, because {ALIASES[name]} is given too"
    if name.startswith(UNSUPPORTED_PREFIXES):
        raise ConfigError(name, "this broker does not support it yet, and to ignore it would not be safe")
    if name in NOT_NEEDED or name.startswith(NOT_NEEDED_PREFIXES):
        return f"{name} is a setting of Kafka that this broker does not need; it is ignored"
    raise ConfigError(name, f"there is no such setting{nearest(name, [*KEYS, *UNITS])}")


def _scaled(name: str, text: str, factor: int) -> str:
    value = Key(name, "int", None, "").parse(text)
    return str(value * factor if value >= 0 else -1)


def _derive_listeners(values: dict[str, object], notices: list[str]) -> None:
    protocols = _protocol_map(values["listener_security_protocol_map"])
    remote = bool(values["barnabas_allow_remote_plaintext"])
    listeners = _listeners("listeners", values["listeners"], protocols)
    bound = tuple(_safe(listener, remote, notices) for listener in listeners)
    names = [listener.name for listener in bound]
    given = values["advertised_listeners"]
    values["listeners"] = bound
    values["advertised_listeners"] = bound if given is None else _advertised(given, protocols, names)
    chosen = values["inter_broker_listener_name"] or names[0]
    if chosen not in names:
        raise ConfigError("inter.broker.listener.name", f"{chosen} is not one of the listeners")
    values["inter_broker_listener_name"] = chosen


def _advertised(entries: object, protocols: Mapping[str, str], names: list[str]) -> tuple[Listener, ...]:
    found = _listeners("advertised.listeners", entries, protocols)
    for listener in found:
        if listener.name not in names:
            raise ConfigError("advertised.listeners", f"{listener.name} is not one of the listeners")
        if listener.host in ("", "0.0.0.0", "::"):
            raise ConfigError("advertised.listeners", "needs a host that clients can connect to")
    return found


def _protocol_map(entries: object) -> dict[str, str]:
    assert isinstance(entries, tuple)
    found = {}
    for entry in entries:
        name, _, protocol = entry.partition(":")
        if protocol not in PROTOCOLS:
            raise ConfigError("listener.security.protocol.map", f"{entry!r} is not NAME:PROTOCOL")
        found[name.upper()] = protocol
    return found


def _listeners(key: str, entries: object, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    assert isinstance(entries, tuple)
    found: list[Listener] = []
    for entry in entries:
        name, separator, address = entry.partition("://")
        name = name.upper()
        if not separator:
            raise ConfigError(key, f"{entry!r} is not NAME://host:port")
        if name not in protocols:
            raise ConfigError(key, f"listener.security.protocol.map has no {name}")
        if any(other.name == name for other in found):
            raise ConfigError(key, f"{name} is there twice")
        host, port = _address(key, address)
        found.append(Listener(name, protocols[name], host, port))
    if not found:
        raise ConfigError(key, "must name at least one listener")
    return tuple(found)


def _safe(listener: Listener, remote: bool, notices: list[str]) -> Listener:
    """A plaintext listener that others could reach is narrowed to loopback, or refused if it names another address."""
    if listener.protocol != "PLAINTEXT":
        raise ConfigError("listeners", f"{listener.protocol} is not supported yet; only PLAINTEXT is")
    if remote or listener.is_loopback:
        return listener
    if listener.host:
        raise ConfigError(
            "listeners",
            f"{listener.name}://{listener.host}:{listener.port} would take plaintext connections from other machines; "
            "set barnabas.allow.remote.plaintext=true if that is meant",
        )
    notices.append(
        f"listener {listener.name} takes connections from this machine only; "
        "barnabas.allow.remote.plaintext=true opens it to others"
    )
    return attrs.evolve(listener, host=LOOPBACK)


def _address(key: str, text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise ConfigError(key, f"{text!r} is not host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(key, f"{text!r}: an IPv6 address is written in brackets")
    return host, int(port)


def _http_listener(text: object) -> tuple[str, int] | None:
    assert isinstance(text, str)
    if text.lower() in ("", "off", "none"):
        return None
    host, port = _address("http.listener", text)
    return host or LOOPBACK, port


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
