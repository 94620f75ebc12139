"""The two brokers of the whole comparison, each with an embedded ZooKeeper of its own and a fresh data directory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from barnabas.peers.broker_process import BrokerProcess


class BarnabasBroker(BrokerProcess):
    """Our own daemon, from this interpreter's installation."""

    name = "Barnabas"

    def __init__(
        self,
        data_dir: str | Path,
        port: int,
        zookeeper: str,
        *,
        host: str = "127.0.0.1",
        broker_id: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir, port, host=host)
        self.zookeeper = zookeeper
        self.broker_id = broker_id
        self.properties = dict(properties or {})

    def prepare(self) -> list[str]:
        """Writes server.properties; the command of the daemon."""
        values = {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_dir / "logs"),
            "zookeeper.connect": self.zookeeper,
            "http.listener": "off",
            **self.properties,
        }
        config = self.data_dir / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return [sys.executable, "-m", "brokerd.main", "--config", str(config)]
