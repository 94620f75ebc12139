"""The id of a broker that was given none: that in its log directories, else a new one from ZooKeeper, as in Kafka."""

from __future__ import annotations

from pathlib import Path

import attrs

from brokerd.config import BrokerConfig, ConfigError
from zk_schema import paths
from zk_schema.session import write_once


def with_broker_id(config: BrokerConfig) -> BrokerConfig:
    """The configuration with an id. Blocks if ZooKeeper has to be asked; a number that is then not used is lost.

    Raises ConfigError if there is no id and none may be made, CoordinationError without a ZooKeeper.
    """
    if config.broker_id >= 0:
        return config
    for place in config.log_dirs:
        found = _stored_id(Path(place) / "meta.properties")
        if found is not None:
            return attrs.evolve(config, broker_id=found)
    if not config.broker_id_generation_enable:
        raise ConfigError("broker.id", "give a number; no log directory has one stored")
    timeout = config.zookeeper_connection_timeout_ms / 1000
    # As in Kafka the version that a write gives is the number: no two brokers, ours or Kafka's, ever get the same one.
    written = write_once(config.zookeeper_connect, paths.BROKER_SEQUENCE, b"", timeout)
    return attrs.evolve(config, broker_id=config.reserved_broker_max_id + written.version)


def _stored_id(path: Path) -> int | None:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "broker.id" and value.strip().isdigit():
            return int(value)
    return None
