"""One frozen value per znode: its path, its bytes, and the refusal of what we cannot read. Pure.

JSON is Kafka's, with Kafka's numbers-as-text where it has them (`timestamp`, `block_start`). A node of an unknown
version or with bad JSON raises BadNode, which names the path: the caller freezes what depends on it and goes on with
the rest (A31). Unknown *fields* are ignored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from zk_schema import paths

NO_LEADER = -1
LEADER_DURING_DELETE = -2
PRODUCER_ID_BLOCK_SIZE = 1000
UUID_SIZE = 16

T = TypeVar("T")


class BadNode(ValueError):
    """A node that is not what its path promises."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: {why}")


def uuid_text(uuid: bytes) -> str:
    """Kafka's text of a uuid: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of `uuid_text`; ValueError for anything else."""
    raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(raw) != UUID_SIZE:
        raise ValueError(f"{text!r} is not a uuid of {UUID_SIZE} bytes")
    return raw


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _decode(path: str, data: bytes, versions: Sequence[int], build: Callable[[dict[str, Any]], T]) -> T:
    """Parses JSON, checks `version`, builds the value; every failure becomes a BadNode."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        version = int(fields["version"])
        if version not in versions:
            raise ValueError(f"version {version} is unknown (known: {', '.join(map(str, versions))})")
        return build(fields)
    except KeyError as missing:
        raise BadNode(path, f"field {missing} is missing") from missing
    except (ValueError, TypeError, AttributeError) as problem:
        raise BadNode(path, str(problem)) from problem


def _ids(value: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(one) for one in value)


@attrs.frozen
class Endpoint:
    """One advertised listener."""

    name: str
    protocol: str
    host: str
    port: int

    def url(self) -> str:
        """`NAME://host:port`, an IPv6 host in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @classmethod
    def of(cls, url: str, protocols: Mapping[str, str]) -> Endpoint:
        """Reverse of `url`; a name without an entry in the protocol map is its own protocol (versions below 4)."""
        name, _, address = url.partition("://")
        host, _, port = address.rpartition(":")
        return cls(name, protocols.get(name, name), host.strip("[]"), int(port))


@attrs.frozen
class BrokerRegistration:
    """/brokers/ids/B, Kafka's version 5 plus our `epoch` (the version of the incarnation node)."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    epoch: int = -1
    rack: str | None = None

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.broker(self.broker_id)

    def encode(self) -> bytes:
        """The node's data; host and port are those of the first plaintext listener, for clients of 0.8."""
        plain = next((one for one in self.endpoints if one.protocol == "PLAINTEXT"), None)
        fields: dict[str, Any] = {
            "version": 5,
            "host": None if plain is None else plain.host,
            "port": -1 if plain is None else plain.port,
            "jmx_port": -1,
            "timestamp": str(self.timestamp_ms),
            "endpoints": [one.url() for one in self.endpoints],
            "listener_security_protocol_map": {one.name: one.protocol for one in self.endpoints},
            "features": {},
            "epoch": self.epoch,
        }
        if self.rack is not None:
            fields["rack"] = self.rack
        return _json(fields)

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> BrokerRegistration:
        """Reads versions 1 to 5."""

        def build(fields: dict[str, Any]) -> BrokerRegistration:
            protocols = fields.get("listener_security_protocol_map") or {}
            urls = fields.get("endpoints") or [f"PLAINTEXT://{fields['host']}:{fields['port']}"]
            endpoints = tuple(Endpoint.of(url, protocols) for url in urls)
            return cls(
                broker_id, endpoints, int(fields.get("timestamp", -1)), int(fields.get("epoch", -1)), fields.get("rack")
            )

        return _decode(paths.broker(broker_id), data, range(1, 6), build)


@attrs.frozen
class Incarnation:
    """/barnabas/brokers/B: its *version* is the broker's epoch (A3, A8)."""

    broker_id: int
    draining: bool = False
    suspect: tuple[tuple[str, int], ...] = ()

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.incarnation(self.broker_id)

    def encode(self) -> bytes:
        """The node's data."""
        return _json({"version": 1, "draining": self.draining, "suspect": [list(one) for one in self.suspect]})

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> Incarnation:
        """Reads the node's data."""

        def build(fields: dict[str, Any]) -> Incarnation:
            suspect = tuple((str(topic), int(index)) for topic, index in fields.get("suspect", ()))
            return cls(broker_id, bool(fields.get("draining", False)), suspect)

        return _decode(paths.incarnation(broker_id), data, (1,), build)


@attrs.frozen
class TopicAssignment:
    """/brokers/topics/T, version 3. `partitions` maps an index to its replicas, the preferred leader first."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)
    removing: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.topic(self.name)

    @property
    def topic_id_text(self) -> str:
        """The id as it stands in JSON and in the tombstone's path."""
        return uuid_text(self.topic_id)

    def encode(self) -> bytes:
        """The node's data."""

        def plain(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
            return {str(index): list(replicas[index]) for index in sorted(replicas)}

        return _json(
            {
                "version": 3,
                "topic_id": self.topic_id_text,
                "partitions": plain(self.partitions),
                "adding_replicas": plain(self.adding),
                "removing_replicas": plain(self.removing),
            }
        )

    @classmethod
    def decode(cls, name: str, data: bytes) -> TopicAssignment:
        """Reads versions 1 to 3; a topic older than version 3 has the zero id until the controller gives it one."""

        def replicas(fields: dict[str, Any]) -> dict[int, tuple[int, ...]]:
            return {int(index): _ids(ids) for index, ids in fields.items()}

        def build(fields: dict[str, Any]) -> TopicAssignment:
            topic_id = uuid_bytes(fields["topic_id"]) if "topic_id" in fields else bytes(UUID_SIZE)
            adding, removing = fields.get("adding_replicas") or {}, fields.get("removing_replicas") or {}
            return cls(name, topic_id, replicas(fields["partitions"]), replicas(adding), replicas(removing))

        return _decode(paths.topic(name), data, (1, 2, 3), build)


@attrs.frozen
class PartitionState:
    """.../partitions/P/state, version 1."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovering: bool = False

    def fields(self) -> dict[str, Any]:
        """The state as JSON values; a change carries the same (A19)."""
        fields: dict[str, Any] = {
            "version": 1,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "controller_epoch": self.controller_epoch,
            "isr": list(self.isr),
        }
        if self.recovering:
            fields["leader_recovery_state"] = 1
        return fields

    def encode(self) -> bytes:
        """The node's data."""
        return _json(self.fields())

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> PartitionState:
        """From `fields`."""
        recovering = int(fields.get("leader_recovery_state", 0)) == 1
        return cls(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            _ids(fields["isr"]),
            int(fields["controller_epoch"]),
            recovering,
        )

    @classmethod
    def decode(cls, topic: str, index: int, data: bytes) -> PartitionState:
        """Reads the node's data."""
        return _decode(paths.partition_state(topic, index), data, (1,), cls.of)


@attrs.frozen
class ControllerNode:
    """/controller (ephemeral)."""

    broker_id: int
    timestamp_ms: int

    path = paths.CONTROLLER

    def encode(self) -> bytes:
        """The node's data, version 1."""
        return _json({"version": 1, "brokerid": self.broker_id, "timestamp": str(self.timestamp_ms)})

    @classmethod
    def decode(cls, data: bytes) -> ControllerNode:
        """Reads versions 1 and 2."""
        return _decode(
            paths.CONTROLLER,
            data,
            (1, 2),
            lambda fields: cls(int(fields["brokerid"]), int(fields.get("timestamp", -1))),
        )


@attrs.frozen
class ControllerEpoch:
    """/controller_epoch: a bare number; the first controller has 1."""

    epoch: int

    path = paths.CONTROLLER_EPOCH

    def encode(self) -> bytes:
        """The node's data."""
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, data: bytes) -> ControllerEpoch:
        """Reads the node's data."""
        try:
            return cls(int(data))
        except ValueError as problem:
            raise BadNode(paths.CONTROLLER_EPOCH, str(problem)) from problem


@attrs.frozen
class ClusterId:
    """/cluster/id; its version is text, as Kafka writes it."""

    cluster_id: str

    path = paths.CLUSTER_ID

    def encode(self) -> bytes:
        """The node's data."""
        return _json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> ClusterId:
        """Reads the node's data."""
        return _decode(paths.CLUSTER_ID, data, (1,), lambda fields: cls(str(fields["id"])))


@attrs.frozen
class EntityConfig:
    """/config/<type>/<name>: overrides only, every value as text."""

    path: str
    overrides: Mapping[str, str]

    def encode(self) -> bytes:
        """The node's data."""
        return _json({"version": 1, "config": dict(sorted(self.overrides.items()))})

    @classmethod
    def decode(cls, path: str, data: bytes) -> EntityConfig:
        """Reads the node's data."""

        def build(fields: dict[str, Any]) -> EntityConfig:
            return cls(path, {str(key): str(value) for key, value in fields["config"].items()})

        return _decode(path, data, (1,), build)


def topic_config(name: str, overrides: Mapping[str, str]) -> EntityConfig:
    """/config/topics/T."""
    return EntityConfig(paths.topic_config(name), overrides)


@attrs.frozen
class ConfigChange:
    """/config/changes/config_change_N: only a trigger. `entity_path` is relative, e.g. `topics/T`."""

    entity_path: str

    prefix = paths.CONFIG_CHANGE_PREFIX

    def encode(self) -> bytes:
        """The node's data, version 2."""
        return _json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, path: str, data: bytes) -> ConfigChange:
        """Reads versions 1 and 2."""

        def build(fields: dict[str, Any]) -> ConfigChange:
            if int(fields["version"]) == 1:
                return cls(f"{fields['entity_type']}/{fields['entity_name']}")
            return cls(str(fields["entity_path"]))

        return _decode(path, data, (1, 2), build)


@attrs.frozen
class ProducerIdBlock:
    """/latest_producer_id_block: the block given out last; both ends belong to it."""

    broker_id: int
    start: int
    end: int

    path = paths.PRODUCER_ID_BLOCK

    def encode(self) -> bytes:
        """The node's data."""
        return _json(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.start), "block_end": str(self.end)}
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        """Reads the node's data."""

        def build(fields: dict[str, Any]) -> ProducerIdBlock:
            return cls(int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"]))

        return _decode(paths.PRODUCER_ID_BLOCK, data, (1,), build)


def next_block(last: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock:
    """The block after `last`."""
    start = 0 if last is None else last.end + 1
    return ProducerIdBlock(broker_id, start, start + PRODUCER_ID_BLOCK_SIZE - 1)


@attrs.frozen
class Tombstone:
    """/barnabas/deleted/<topic id>."""

    topic_id: bytes
    name: str
    time_ms: int

    @property
    def path(self) -> str:
        """Where it is."""
        return paths.tombstone(uuid_text(self.topic_id))

    def encode(self) -> bytes:
        """The node's data."""
        return _json({"version": 1, "name": self.name, "time": self.time_ms})

    @classmethod
    def decode(cls, topic_id: bytes, data: bytes) -> Tombstone:
        """Reads the node's data."""

        def build(fields: dict[str, Any]) -> Tombstone:
            return cls(topic_id, str(fields["name"]), int(fields["time"]))

        return _decode(paths.tombstone(uuid_text(topic_id)), data, (1,), build)


@attrs.frozen
class VersionedState:
    """A partition's state and the version its node has after the change (F1)."""

    state: PartitionState
    version: int


@attrs.frozen
class Change:
    """/barnabas/changes/c-N: what a multi did, complete, so that nobody must read the states again (A19).

    `kind`: "topic" (created, partitions added), "deleted", "states", "assignment" (replicas moved: the topic node is
    read again), "resign" (a leader asks to be replaced, A25), "broker", "config". An unknown kind is kept as it is
    (A20).
    """

    kind: str
    topic: str | None = None
    topic_id: bytes | None = None
    states: Mapping[int, VersionedState] = attrs.field(factory=dict)
    broker_id: int | None = None

    prefix = paths.CHANGE_PREFIX

    def encode(self) -> bytes:
        """The node's data."""
        fields: dict[str, Any] = {"version": 1, "kind": self.kind}
        if self.topic is not None:
            fields["topic"] = self.topic
        if self.topic_id is not None:
            fields["topic_id"] = uuid_text(self.topic_id)
        if self.states:
            fields["partitions"] = {
                str(index): {"state": one.state.fields(), "version": one.version} for index, one in self.states.items()
            }
        if self.broker_id is not None:
            fields["broker"] = self.broker_id
        return _json(fields)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Change:
        """Reads the node's data."""

        def build(fields: dict[str, Any]) -> Change:
            states = {
                int(index): VersionedState(PartitionState.of(one["state"]), int(one["version"]))
                for index, one in fields.get("partitions", {}).items()
            }
            topic_id = uuid_bytes(fields["topic_id"]) if "topic_id" in fields else None
            return cls(str(fields["kind"]), fields.get("topic"), topic_id, states, fields.get("broker"))

        return _decode(path, data, (1,), build)
