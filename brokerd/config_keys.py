"""The settings of a broker as one table: what may be written and what it means.

`KEYS` is the only place where a setting is defined; loading, checking, DescribeConfigs and the documentation all read
it. The defaults are Kafka 3.9's unless the text of the setting says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Kind = Literal["int", "long", "double", "boolean", "string", "list"]
Validator = Callable[[Any], str | None]
"""Returns what is wrong with a value, or None."""


class ConfigError(ValueError):
    """A setting that cannot be used. `key` is its name, the text says what to write instead."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key


def between(low: float, high: float | None = None) -> Validator:
    """A number from `low` to `high`, both allowed."""

    def check(value: Any) -> str | None:
        if value < low or (high is not None and value > high):
            return f"must be at least {low}" if high is None else f"must be between {low} and {high}"
        return None

    return check


def one_of(*choices: str) -> Validator:
    """One of a few words."""

    def check(value: Any) -> str | None:
        return None if value in choices else f"must be one of {', '.join(choices)}"

    return check


def each_of(*choices: str) -> Validator:
    """A list, not empty, of a few words."""

    def check(value: Any) -> str | None:
        return None if value and set(value) <= set(choices) else f"must be a list of {', '.join(choices)}"

    return check


@attrs.frozen(slots=True)
class Key:
    """One setting. `default` is text, as a user would write it; None means "not set". A dynamic one may
    change while the broker runs."""

    name: str
    kind: Kind
    default: str | None
    doc: str
    validator: Validator | None = None
    dynamic: bool = False
    broker_key: str | None = None
    """For a topic's setting: the broker's setting that is its default."""

    @property
    def field(self) -> str:
        """Name of the attribute that holds it."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Any:
        """The value of a text; ConfigError names this key."""
        value = self._convert(text.strip())
        problem = self.validator(value) if self.validator is not None else None
        if problem is not None:
            raise ConfigError(self.name, f"{problem}, not {text.strip()!r}")
        return value

    def parse_default(self) -> Any:
        """The default's value."""
        return None if self.default is None else self.parse(self.default)

    def _convert(self, text: str) -> Any:
        if self.kind in ("int", "long"):
            return self._integer(text)
        if self.kind == "double":
            try:
                number = float(text)
            except ValueError:
                raise ConfigError(self.name, f"must be a number, not {text!r}") from None
            if number != number:
                raise ConfigError(self.name, "must be a number, not NaN")
            return number
        if self.kind == "boolean":
            if text.lower() not in ("true", "false"):
                raise ConfigError(self.name, f"must be true or false, not {text!r}")
            return text.lower() == "true"
        if self.kind == "list":
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return text

    def _integer(self, text: str) -> int:
        limit = INT_MAX if self.kind == "int" else LONG_MAX
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            raise ConfigError(self.name, f"must be a whole number, not {text!r}")
        value = int(text)
        if not -limit - 1 <= value <= limit:
            raise ConfigError(self.name, f"{text} does not fit into {32 if self.kind == 'int' else 64} bits")
        return value


_positive = between(1)
_natural = between(0)
_unlimited = between(-1)
DURABILITY = one_of("flushed", "replicated")
COMPRESSION = one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
CLEANUP = each_of("delete", "compact")

_PROTOCOL_MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"

_TABLE = (
    # identity and network
    Key(
        "broker.id",
        "int",
        "-1",
        "Number of this broker in the cluster; -1 takes the one stored in the log directory, or a new one.",
        _unlimited,
    ),
    Key("broker.id.generation.enable", "boolean", "true", "Lets ZooKeeper number a broker that has no id."),
    Key("reserved.broker.max.id", "int", "1000", "Largest id that can be given; new ones are above it.", _natural),
    Key("broker.rack", "string", None, "Rack or zone of this broker."),
    Key(
        "listeners",
        "list",
        "PLAINTEXT://:9092",
        "Addresses to listen on, NAME://host:port. Without a host, plaintext means loopback.",
    ),
    Key(
        "advertised.listeners",
        "list",
        None,
        "Addresses given to clients; the listeners themselves unless set.",
        None,
        True,
    ),
    Key("listener.security.protocol.map", "list", _PROTOCOL_MAP, "Security protocol of each listener name."),
    Key(
        "inter.broker.listener.name",
        "string",
        None,
        "Listener that brokers use among themselves; the first one unless set.",
    ),
    Key(
        "barnabas.allow.remote.plaintext",
        "boolean",
        "false",
        "Lets plaintext listeners take connections from other machines.",
    ),
    Key("socket.request.max.bytes", "int", "104857600", "Largest request.", between(1024)),
    Key(
        "socket.listen.backlog.size",
        "int",
        "1024",
        "Connections the kernel may hold before they are accepted (Kafka: 50).",
        _positive,
    ),
    Key(
        "connections.max.idle.ms",
        "long",
        "600000",
        "A connection without requests is closed after this time.",
        between(1000),
        True,
    ),
    Key("max.connections", "int", "10000", "Connections in all (Kafka: no limit).", _positive, True),
    Key("max.connections.per.ip", "int", "2000", "Connections from one address (Kafka: no limit).", _natural, True),
    Key(
        "max.buffered.bytes",
        "long",
        "536870912",
        "Bytes that all connections may hold in unfinished requests and unsent answers.",
        between(1 << 20),
        True,
    ),
    Key("http.listener", "string", "127.0.0.1:9464", "Address of /metrics, /healthz and /readyz; `off` for none."),
    # ZooKeeper
    Key("zookeeper.connect", "string", "127.0.0.1:2181", "ZooKeeper servers, host:port,...; a /chroot may follow."),
    Key("zookeeper.session.timeout.ms", "int", "18000", "Session timeout to ask ZooKeeper for.", between(1000)),
    Key("zookeeper.connection.timeout.ms", "int", "18000", "How long to wait for the first connection.", between(1000)),
    # log
    Key("log.dirs", "list", "/tmp/barnabas-logs", "Directories of the log (also as log.dir)."),
    Key("num.partitions", "int", "1", "Partitions of a topic that was created without a number.", _positive, True),
    Key("log.segment.bytes", "int", "1073741824", "Size of a segment file.", between(14), True),
    Key(
        "log.roll.ms",
        "long",
        "604800000",
        "Age at which a segment is closed (also as log.roll.hours).",
        _positive,
        True,
    ),
    Key(
        "log.retention.ms",
        "long",
        "604800000",
        "Age at which records go (also .minutes, .hours); -1 keeps them.",
        _unlimited,
        True,
    ),
    Key(
        "log.retention.bytes",
        "long",
        "-1",
        "Size of a partition above which old segments go; -1 for no limit.",
        _unlimited,
        True,
    ),
    Key("log.retention.check.interval.ms", "long", "300000", "How often retention is applied.", _positive),
    Key("log.cleanup.policy", "list", "delete", "What happens to old records.", CLEANUP, True),
    Key(
        "log.cleaner.delete.retention.ms",
        "long",
        "86400000",
        "How long compaction keeps deletion markers.",
        _natural,
        True,
    ),
    Key(
        "log.cleaner.min.cleanable.ratio",
        "double",
        "0.5",
        "Share of dirty bytes at which a log is compacted.",
        between(0, 1),
        True,
    ),
    Key("log.cleaner.min.compaction.lag.ms", "long", "0", "Age below which records are not compacted.", _natural, True),
    Key(
        "log.cleaner.max.compaction.lag.ms",
        "long",
        str(LONG_MAX),
        "Age at which records must be compacted.",
        _positive,
        True,
    ),
    Key("log.index.size.max.bytes", "int", "10485760", "Size of an index file.", between(4), True),
    Key("log.index.interval.bytes", "int", "4096", "Bytes between two index entries.", _natural, True),
    Key("log.flush.interval.messages", "long", str(LONG_MAX), "Records after which to flush.", _positive, True),
    Key("log.flush.interval.ms", "long", str(LONG_MAX), "Time after which to flush.", _natural, True),
    Key("log.flush.offset.checkpoint.interval.ms", "int", "60000", "How often recovery points are stored.", _positive),
    Key(
        "log.segment.delete.delay.ms", "long", "60000", "Time between dropping a file and removing it.", _natural, True
    ),
    Key("log.preallocate", "boolean", "false", "Allocates a segment's blocks when it is created.", None, True),
    Key("message.max.bytes", "int", "1048588", "Largest batch.", _natural, True),
    Key("log.message.timestamp.type", "string", "CreateTime", "Whose clock the records carry.", TIMESTAMP_TYPE, True),
    Key(
        "log.message.timestamp.before.max.ms",
        "long",
        str(LONG_MAX),
        "How far a timestamp may lie in the past.",
        _natural,
        True,
    ),
    Key(
        "log.message.timestamp.after.max.ms",
        "long",
        str(LONG_MAX),
        "How far a timestamp may lie in the future.",
        _natural,
        True,
    ),
    Key("compression.type", "string", "producer", "Compression of stored batches.", COMPRESSION, True),
    Key(
        "durability",
        "string",
        "flushed",
        "When a record counts: once every in-sync replica has flushed it, or only written it (Kafka's).",
        DURABILITY,
        True,
    ),
    Key("auto.create.topics.enable", "boolean", "true", "Creates a topic at its first use."),
    Key("delete.topic.enable", "boolean", "true", "Allows topics to be deleted."),
    # replication
    Key(
        "default.replication.factor",
        "int",
        "1",
        "Replicas of a topic that was created without a number.",
        _positive,
        True,
    ),
    Key("min.insync.replicas", "int", "1", "In-sync replicas below which acks=all is refused.", _positive, True),
    Key("replica.lag.time.max.ms", "long", "30000", "A follower behind for longer leaves the ISR.", _positive),
    Key("replica.fetch.max.bytes", "int", "1048576", "Bytes a follower asks for, per partition.", _natural),
    Key("replica.fetch.wait.max.ms", "int", "500", "How long a follower's fetch waits for data.", _positive),
    Key("replica.fetch.min.bytes", "int", "1", "Bytes a follower's fetch waits for.", _natural),
    Key("replica.fetch.backoff.ms", "int", "1000", "Pause after a failed fetch.", _natural),
    Key("replica.fetch.response.max.bytes", "int", "10485760", "Bytes a follower asks for in one request.", _natural),
    Key("num.replica.fetchers", "int", "1", "Fetch loops for each leader.", _positive),
    Key(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        "5000",
        "How often high watermarks are stored.",
        _positive,
    ),
    Key("replica.socket.timeout.ms", "int", "30000", "Time-out of requests between brokers.", _positive),
    Key(
        "unclean.leader.election.enable",
        "boolean",
        "false",
        "Lets a replica outside the ISR lead, at the price of records.",
        None,
        True,
    ),
    Key("auto.leader.rebalance.enable", "boolean", "true", "Moves leadership back to preferred replicas."),
    Key(
        "leader.imbalance.per.broker.percentage",
        "int",
        "10",
        "Share of moved leaders that is put up with.",
        between(0, 100),
    ),
    Key("leader.imbalance.check.interval.seconds", "long", "300", "How often leadership is checked.", _positive),
    Key("controlled.shutdown.enable", "boolean", "true", "Moves leaderships away before stopping."),
    Key("fetch.max.bytes", "int", "57671680", "Largest answer to a fetch.", between(1024)),
    Key("max.incremental.fetch.session.cache.slots", "int", "1000", "Fetch sessions kept.", _natural),
    # groups and producers
    Key("group.min.session.timeout.ms", "int", "6000", "Shortest session timeout a member may ask for.", _positive),
    Key("group.max.session.timeout.ms", "int", "1800000", "Longest session timeout a member may ask for.", _positive),
    Key("group.initial.rebalance.delay.ms", "int", "3000", "How long a new group waits for more members.", _natural),
    Key("group.max.size", "int", str(INT_MAX), "Members of one group.", _positive),
    Key("offsets.topic.num.partitions", "int", "50", "Slots over which groups are spread.", _positive),
    Key("offsets.retention.minutes", "int", "10080", "How long an empty group's offsets are kept.", _positive),
    Key("offset.metadata.max.bytes", "int", "4096", "Largest metadata text of a committed offset.", _natural),
    Key(
        "producer.id.expiration.ms",
        "int",
        "86400000",
        "How long an idle producer's sequence is remembered.",
        _positive,
        True,
    ),
)

KEYS: dict[str, Key] = {key.name: key for key in _TABLE}

UNITS: dict[str, tuple[str, int]] = {
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}
"""Settings in a coarser unit: the finest one that is given wins."""

UNIT_KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("log.retention.minutes", "int", None, "As log.retention.ms, in minutes."),
        Key("log.retention.hours", "int", "168", "As log.retention.ms, in hours."),
        Key("log.roll.hours", "int", "168", "As log.roll.ms, in hours."),
    )
}
"""The same as clients see them. Kafka's defaults are in these units, so theirs are what a finer one falls back to."""

ALIASES: dict[str, str] = {
    "log.dir": "log.dirs",
    "brokerid": "broker.id",
    "max.socket.request.bytes": "socket.request.max.bytes",
    "log.flush.interval": "log.flush.interval.messages",
    "log.default.flush.interval.ms": "log.flush.interval.ms",
    "log.retention.size": "log.retention.bytes",
    "log.file.size": "log.segment.bytes",
    "zk.connect": "zookeeper.connect",
    "zk.connectiontimeout.ms": "zookeeper.connection.timeout.ms",
}
"""Names of Kafka 0.7 (and log.dir), taken for today's."""

_NOT_NEEDED = """
    num.network.threads num.io.threads background.threads queued.max.requests queued.max.request.bytes
    socket.send.buffer.bytes socket.receive.buffer.bytes num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads request.timeout.ms max.connections.per.ip.overrides max.connection.creation.rate
    connection.failed.authentication.delay.ms connections.max.reauth.ms control.plane.listener.name
    security.inter.broker.protocol inter.broker.protocol.version log.message.format.version
    log.message.downconversion.enable log.message.timestamp.difference.max.ms
    broker.session.timeout.ms broker.heartbeat.interval.ms early.start.listeners
    broker.max.concurrent.catchups broker.max.future.reassignments initial.broker.registration.timeout.ms
    process.roles node.id controller.quorum.voters controller.quorum.bootstrap.servers controller.listener.names
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.election.backoff.max.ms
    controller.quorum.append.linger.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    controller.socket.timeout.ms metadata.log.dir metadata.log.segment.bytes metadata.log.segment.ms
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
    server.max.startup.time.ms migration.enabled zookeeper.metadata.migration.enable eligible.leader.replicas.enable
    zookeeper.set.acl zookeeper.max.in.flight.requests zookeeper.sync.time.ms zookeeper.clientCnxnSocket
    zookeeper.ssl.client.enable zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password
    zookeeper.ssl.keystore.type zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
    zookeeper.ssl.truststore.type zookeeper.ssl.protocol zookeeper.ssl.enabled.protocols
    zookeeper.ssl.cipher.suites zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.crl.enable
    zookeeper.ssl.ocsp.enable
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms log.roll.jitter.ms
    log.roll.jitter.hours log.local.retention.bytes log.local.retention.ms log.dir.failure.timeout.ms
    log.initial.task.delay.ms log.cleaner.enable log.cleaner.threads log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.max.bytes.per.second compression.gzip.level compression.lz4.level compression.zstd.level
    replica.socket.receive.buffer.bytes replica.selector.class leader.imbalance.check.interval.ms
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
    delete.records.purgatory.purge.interval.requests
    follower.replication.throttled.rate leader.replication.throttled.rate
    replica.alter.log.dirs.io.max.bytes.per.second follower.replication.throttled.replicas
    leader.replication.throttled.replicas replication.quota.window.num replication.quota.window.size.seconds
    quota.window.num quota.window.size.seconds controller.quota.window.num controller.quota.window.size.seconds
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    client.quota.callback.class
    offsets.topic.replication.factor offsets.topic.segment.bytes offsets.topic.compression.codec
    offsets.load.buffer.size offsets.commit.timeout.ms offsets.commit.required.acks
    offsets.retention.check.interval.ms group.coordinator.new.enable group.coordinator.rebalance.protocols
    group.coordinator.threads group.coordinator.append.linger.ms group.consumer.session.timeout.ms
    group.consumer.min.session.timeout.ms group.consumer.max.session.timeout.ms
    group.consumer.heartbeat.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.size group.consumer.assignors
    group.consumer.migration.policy
    transaction.state.log.replication.factor transaction.state.log.min.isr transaction.state.log.num.partitions
    transaction.state.log.segment.bytes transaction.state.log.load.buffer.size transactional.id.expiration.ms
    transaction.max.timeout.ms transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.partition.verification.enable
    producer.id.expiration.check.interval.ms
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter
    kafka.metrics.reporters kafka.metrics.polling.interval.secs telemetry.max.bytes unstable.api.versions.enable
    unstable.feature.versions.enable config.providers
    create.topic.policy.class.name alter.config.policy.class.name remote.log.storage.system.enable
    confluent.support.metrics.enable confluent.support.customer.id
    num.threads hostname host.name port advertised.host.name advertised.port socket.send.buffer socket.receive.buffer
    topic.partition.count.map topic.flush.intervals.ms log.default.flush.scheduler.interval.ms
    log.cleanup.interval.mins enable.zookeeper
"""

NOT_NEEDED: frozenset[str] = frozenset(_NOT_NEEDED.split())
"""Names of Kafka 3.9 (and, last, of 0.7) that are accepted with a notice and change nothing here."""

PER_BROKER: frozenset[str] = frozenset({"advertised.listeners"})
"""Dynamic settings that cannot be the same for all brokers."""

_WITHOUT_EFFECT = """
    num.network.threads num.io.threads background.threads num.recovery.threads.per.data.dir
    max.connections.per.ip.overrides max.connection.creation.rate log.message.downconversion.enable
    log.cleaner.threads log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size
    log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second compression.gzip.level compression.lz4.level
    compression.zstd.level follower.replication.throttled.rate leader.replication.throttled.rate
    replica.alter.log.dirs.io.max.bytes.per.second transaction.partition.verification.enable metric.reporters
"""

WITHOUT_EFFECT: frozenset[str] = frozenset(_WITHOUT_EFFECT.split())
"""Settings that Kafka's tools change while a broker runs; they are stored and shown, and change nothing here."""

NOT_NEEDED_PREFIXES = ("remote.log.", "listener.name.", "log4j.")

UNSUPPORTED_PREFIXES = (
    "ssl.",
    "sasl.",
    "authorizer.",
    "super.users",
    "principal.builder.",
    "password.encoder.",
    "delegation.token.",
    "security.providers",
    "allow.everyone.if.no.acl.found",
)
"""Settings that protect: ignoring one silently would leave a broker open that its owner believes closed, so each is an
error until we honour it."""
