"""Apache Kafka as a child process, in ZooKeeper mode: the broker that ours is measured against.

It runs with the settings of Kafka's own start script (G1, pauses of at most 20 ms) and its own defaults, but for
what one broker on one machine needs: one replica for its internal topics, no wait before the first rebalance.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from barnabas.embedded_zookeeper import find_java
from barnabas.peers.broker_process import BrokerProcess
from barnabas.peers.kafka_install import need_jars

JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
MAIN = "kafka.Kafka"
LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def settings(
    data_dir: Path, host: str, port: int, zookeeper: str, broker_id: int, properties: Mapping[str, str]
) -> str:
    """The broker's properties file; what the caller gives has the last word."""
    values = {
        "broker.id": str(broker_id),
        "listeners": f"PLAINTEXT://{host}:{port}",
        "log.dirs": str(data_dir / "logs"),
        "zookeeper.connect": zookeeper,
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **properties,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


class KafkaBroker(BrokerProcess):
    """One broker; the jars are those that `barnabas bench install-kafka` fetched."""

    name = "Apache Kafka"

    def __init__(
        self,
        data_dir: str | Path,
        port: int,
        zookeeper: str,
        *,
        host: str = "127.0.0.1",
        broker_id: int = 0,
        heap: str = "1g",
        properties: Mapping[str, str] | None = None,
        install_dir: Path | None = None,
    ) -> None:
        super().__init__(data_dir, port, host=host)
        self.zookeeper = zookeeper
        self.broker_id = broker_id
        self.heap = heap
        self.properties = dict(properties or {})
        self.install_dir = install_dir

    def prepare(self) -> list[str]:
        """Writes server.properties and the log settings; the java command."""
        java, jars = find_java(), need_jars(self.install_dir)
        config, logging = self.data_dir / "server.properties", self.data_dir / "log4j.properties"
        config.write_text(
            settings(self.data_dir, self.host, self.port, self.zookeeper, self.broker_id, self.properties)
        )
        logging.write_text(LOG4J)
        return [
            java, f"-Xmx{self.heap}", f"-Xms{self.heap}", *JVM_FLAGS, f"-Dlog4j.configuration=file:{logging}",
            "-cp", os.pathsep.join(map(str, jars)), MAIN, str(config),
        ]  # fmt: skip
