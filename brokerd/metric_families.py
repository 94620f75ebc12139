"""Every metric of the broker: its name, its kind, what it says, how its value is read. The manual is made from it.

Names are those that dashboards for Kafka already use: JMX names as the usual Prometheus exporter for JMX writes them,
and those of kafka_exporter. What Kafka has no name for begins with `barnabas_`.

A cluster's brokers are scraped one by one and then added up, so each fact is told by one broker only:
`kafka_topic_partition_*` by the partition's leader (leaderless ones by the controller), `kafka_brokers` and
`kafka_topic_partitions` by the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.metadata import PartitionInfo
    from brokerd.metrics import Metrics
    from brokerd.partition import Partition
    from brokerd.process_stats import ProcessStats
    from brokerd.topic_counts import TopicCounts

Subject = TypeVar("Subject")


@attrs.frozen
class Family:
    """One metric: `kind` is counter, gauge or summary."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()


@attrs.frozen
class Read(Family, Generic[Subject]):
    """A metric whose value is a function of one thing: a topic's counts, a partition, the whole broker."""

    value: Callable[[Subject], float] = attrs.field(kw_only=True)


@attrs.define
class Totals:
    """What one walk over the partitions adds up; `broker` and `metrics` for what needs no walk."""

    broker: Broker
    metrics: Metrics
    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    leaderless: int = 0
    not_preferred: int = 0
    known_partitions: int = 0

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller."""
        return self.broker.view.controller_id == self.broker.config.broker_id


def _topic(name: str, text: str, value: Callable[[TopicCounts], float]) -> Read[TopicCounts]:
    return Read(f"kafka_server_brokertopicmetrics_{name}_total", "counter", text, ("topic",), value=value)


TOPIC: tuple[Read[TopicCounts], ...] = (
    _topic("messagesin", "Records appended.", lambda topic: topic.messages_in),
    _topic("bytesin", "Bytes of batches appended.", lambda topic: topic.bytes_in),
    _topic("bytesout", "Bytes of batches sent to consumers.", lambda topic: topic.bytes_out),
    _topic("bytesrejected", "Bytes of batches that were refused.", lambda topic: topic.bytes_rejected),
    _topic("totalproducerequests", "Appends asked for, one per partition.", lambda topic: topic.produces),
    _topic("totalfetchrequests", "Reads asked for, one per partition.", lambda topic: topic.fetches),
    _topic("failedproducerequests", "Appends that were refused or failed.", lambda topic: topic.failed_produces),
    _topic("failedfetchrequests", "Reads that were answered with an error.", lambda topic: topic.failed_fetches),
)

LOG: tuple[Read[Partition], ...] = tuple(
    Read(f"kafka_log_log_{name}", "gauge", text, ("topic", "partition"), value=value)
    for name, text, value in (
        ("size", "Bytes of the log's segments.", lambda partition: partition.log.size),
        ("logstartoffset", "First offset that is kept.", lambda partition: partition.log.log_start),
        ("logendoffset", "Offset of the next record.", lambda partition: partition.log.log_end),
        ("numlogsegments", "Segments of the log.", lambda partition: partition.log.segment_count),
    )
)

LED: tuple[Read[Partition], ...] = tuple(
    Read(f"kafka_topic_partition_{name}", "gauge", text, ("topic", "partition"), value=value)
    for name, text, value in (
        (
            "current_offset",
            "The high watermark: consumers see what is below it.",
            lambda partition: partition.high_watermark,
        ),
        ("oldest_offset", "First offset that is kept.", lambda partition: partition.log.log_start),
    )
)

STATE: tuple[Read[PartitionInfo], ...] = tuple(
    Read(f"kafka_topic_partition_{name}", "gauge", text, ("topic", "partition"), value=value)
    for name, text, value in (
        ("leader", "Id of the leading broker; -1 while there is none.", lambda state: state.leader),
        ("replicas", "Replicas assigned.", lambda state: len(state.replicas)),
        ("in_sync_replica", "Replicas in sync.", lambda state: len(state.isr)),
        (
            "leader_is_preferred",
            "1 if the first replica of the assignment leads.",
            lambda state: int(state.leader == state.replicas[0]),
        ),
        (
            "under_replicated_partition",
            "1 if a replica is not in sync.",
            lambda state: int(len(state.isr) < len(state.replicas)),
        ),
    )
)


def _replicas(name: str, text: str, value: Callable[[Totals], float]) -> Read[Totals]:
    return Read(f"kafka_server_replicamanager_{name}", "gauge", text, value=value)


def _controller(name: str, text: str, value: Callable[[Totals], float]) -> Read[Totals]:
    return Read(f"kafka_controller_kafkacontroller_{name}", "gauge", text, value=value)


BROKER: tuple[Read[Totals], ...] = (
    _replicas("partitioncount", "Partitions with a replica on this broker.", lambda all: all.partitions),
    _replicas("leadercount", "Partitions that this broker leads.", lambda all: all.leaders),
    _replicas(
        "underreplicatedpartitions",
        "Partitions led here that have a replica out of sync.",
        lambda all: all.under_replicated,
    ),
    _replicas(
        "underminisrpartitioncount",
        "Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.",
        lambda all: all.under_min_isr,
    ),
    _replicas(
        "atminisrpartitioncount",
        "Partitions led here with just min.insync.replicas in sync: one loss more and acks=all is refused.",
        lambda all: all.at_min_isr,
    ),
    _replicas(
        "offlinereplicacount",
        "Replicas of this broker that cannot be served: damage, or a log dir that failed.",
        lambda all: len(all.broker.logs.offline),
    ),
    Read(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "gauge",
        "Log dirs that failed.",
        value=lambda all: sum(not place.online for place in all.broker.logs.dirs),
    ),
    _controller(
        "activecontrollercount",
        "1 on the controller; the sum over all brokers must be 1.",
        lambda all: int(all.is_controller),
    ),
    Read(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        "counter",
        "ZooKeeper sessions that ended without our wish.",
        value=lambda all: all.metrics.zookeeper["LOST"],
    ),
    Read(
        "kafka_server_sessionexpirelistener_zookeeperdisconnects_total",
        "counter",
        "Times the connection to ZooKeeper was lost.",
        value=lambda all: all.metrics.zookeeper["SUSPENDED"],
    ),
    Read(
        "kafka_server_sessionexpirelistener_zookeepersyncconnects_total",
        "counter",
        "Times ZooKeeper was connected, with a new session or again with the same.",
        value=lambda all: all.metrics.zookeeper["NEW_SESSION"] + all.metrics.zookeeper["CONNECTED"],
    ),
)

CONTROLLER: tuple[Read[Totals], ...] = (
    _controller("globaltopiccount", "Topics of the cluster.", lambda all: len(all.broker.view.topics)),
    _controller("globalpartitioncount", "Partitions of the cluster.", lambda all: all.known_partitions),
    _controller("offlinepartitionscount", "Partitions without a leader.", lambda all: all.leaderless),
    _controller(
        "preferredreplicaimbalancecount",
        "Partitions that are not led by the first replica of their assignment.",
        lambda all: all.not_preferred,
    ),
    Read("kafka_brokers", "gauge", "Registered brokers.", value=lambda all: len(all.broker.view.brokers)),
)
"""Told by the controller alone; on other brokers these series are absent."""

PROCESS: tuple[Read[ProcessStats], ...] = (
    Read("process_cpu_seconds_total", "counter", "CPU time of all threads.", value=lambda process: process.cpu_seconds),
    Read("process_virtual_memory_bytes", "gauge", "Virtual memory.", value=lambda process: process.virtual_bytes),
    Read("process_resident_memory_bytes", "gauge", "Resident memory.", value=lambda process: process.resident_bytes),
    Read(
        "process_start_time_seconds",
        "gauge",
        "When the process started, in seconds since 1970.",
        value=lambda process: process.start_time,
    ),
    Read(
        "process_open_fds",
        "gauge",
        "Open file descriptors; 0 where the kernel (before 6.2) does not tell.",
        value=lambda process: process.open_files,
    ),
    Read("process_max_fds", "gauge", "File descriptors that may be open.", value=lambda process: process.max_files),
)

BROKER_INFO = Family("kafka_broker_info", "gauge", "1 for each registered broker.", ("id", "address"))
TOPIC_PARTITIONS = Family("kafka_topic_partitions", "gauge", "Partitions of the topic.", ("topic",))
REQUESTS = Family(
    "kafka_network_requestmetrics_requests_total",
    "counter",
    "Requests received, by API and version.",
    ("request", "version"),
)
ERRORS = Family(
    "kafka_network_requestmetrics_errors_total",
    "counter",
    "Error codes in answers, one per partition or resource that has one.",
    ("request", "error"),
)
REQUEST_TIME = Family(
    "kafka_network_requestmetrics_totaltimems",
    "summary",
    "Milliseconds from a request to its answer (a long poll waits within); quantiles of the last minutes.",
    ("request", "quantile"),
)
FLUSH_TIME = Family(
    "kafka_log_logflushstats_logflushrateandtimems",
    "summary",
    "Milliseconds that flushes to disk took, once one was counted; quantiles of the last minutes.",
    ("quantile",),
)
LONGEST_TURN = Family(
    "barnabas_reactor_longest_turn_seconds",
    "gauge",
    "Longest turn of the reactor in the last one to two minutes: for so long nobody was served.",
)
TURNS = Family("barnabas_reactor_turns_total", "counter", "Turns of the reactor.")
WAITED = Family(
    "barnabas_reactor_idle_seconds_total",
    "counter",
    "Seconds in which the reactor had nothing to do; 1 minus its rate is the load of the broker's core.",
)

WATCHED: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family("kafka_server_socketservermetrics_connection_count", "gauge", "Open connections of clients."),
        Family(
            "barnabas_connections_refused_total",
            "counter",
            "Connections refused by max.connections or max.connections.per.ip.",
        ),
        Family("kafka_server_replicamanager_isrshrinks_total", "counter", "ISRs led here that lost a member."),
        Family("kafka_server_replicamanager_isrexpands_total", "counter", "ISRs led here that got a member."),
        Family(
            "kafka_server_replicamanager_failedisrupdates_total",
            "counter",
            "ISR changes that ZooKeeper refused because something had changed meanwhile.",
        ),
        Family(
            "kafka_server_brokertopicmetrics_replicationbytesin_total",
            "counter",
            "Bytes of batches copied from leaders.",
        ),
        Family(
            "kafka_server_brokertopicmetrics_replicationbytesout_total",
            "counter",
            "Bytes of batches sent to followers.",
        ),
        Family("barnabas_network_received_bytes_total", "counter", "Bytes received from clients."),
        Family("barnabas_network_sent_bytes_total", "counter", "Bytes sent to clients."),
        Family(
            "barnabas_buffered_bytes", "gauge", "Bytes held for clients: requests coming in, answers not yet taken."
        ),
        Family(
            "barnabas_zookeeper_lease_seconds",
            "gauge",
            "For how long the ZooKeeper session surely lives still; below 0: doubtful.",
        ),
    )
}
"""Values that live elsewhere; the owner gives a function with `Metrics.watch`, and what nobody gave is left out."""

ALL: tuple[Family, ...] = (
    *TOPIC,
    REQUESTS,
    ERRORS,
    REQUEST_TIME,
    FLUSH_TIME,
    *BROKER,
    *CONTROLLER,
    BROKER_INFO,
    TOPIC_PARTITIONS,
    *STATE,
    *LED,
    *LOG,
    LONGEST_TURN,
    TURNS,
    WAITED,
    *WATCHED.values(),
    *PROCESS,
)
