"""What `topics`, `configs` and `status` ask of brokers: one function for each request, errors as KafkaError with the
broker's own message. They work with any broker that speaks the Kafka protocol.
"""

import base64
import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import click

from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import KafkaError, NotController
from kafka_wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafka_wire.schema.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafka_wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.schema.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.schema.describe_log_dirs import DescribeLogDirsRequest
from kafka_wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TIMEOUT_MS = 30_000
_MARGIN_SECONDS = 2.0  # the broker's own time-out must be heard before ours
_SET, _DELETE = 0, 1  # operations of IncrementalAlterConfigs
_TOPIC, _BROKER = 2, 4  # kinds of resources

Assignment = Sequence[Sequence[int]]
"""For each partition in order its replicas, the preferred leader first."""

SOURCES = {
    1: "dynamic topic",
    2: "dynamic broker",
    3: "dynamic default broker",
    4: "static broker",
    5: "default",
    6: "dynamic broker logger",
}
DYNAMIC_TOPIC, DEFAULT = 1, 5


@attrs.frozen
class Resource:
    """What settings belong to: a topic by name, a broker by id, or (name "") all brokers."""

    kind: int
    name: str

    @classmethod
    def topic(cls, name: str) -> "Resource":
        """A topic."""
        return cls(_TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None) -> "Resource":
        """A broker; None for the dynamic default of all brokers."""
        return cls(_BROKER, "" if broker_id is None else str(broker_id))

    @property
    def broker_id(self) -> int | None:
        """The broker that must be asked, None for any."""
        return int(self.name) if self.kind == _BROKER and self.name else None


@attrs.frozen
class Setting:
    """One setting of a topic or broker; a sensitive one has no value here."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def source_name(self) -> str:
        """Where the value comes from, in words."""
        return SOURCES.get(self.source, str(self.source))


@attrs.frozen
class LogDir:
    """One log directory of a broker and the bytes of all partitions in it; `problem` if it is offline."""

    path: str
    size: int
    problem: str | None


@contextlib.contextmanager
def connected(bootstrap_server: str, timeout: float = TIMEOUT_MS / 1000) -> Iterator[BlockingCluster]:
    """The cluster behind --bootstrap-server; its connections are made when needed and closed at the end."""
    try:
        cluster = BlockingCluster(bootstrap_server, timeout=timeout + _MARGIN_SECONDS)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    with cluster:
        yield cluster


def create_topic(
    cluster: BlockingCluster,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Assignment = (),
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> tuple[int, int]:
    """(number of partitions, replication factor) of the new topic; -1 takes the brokers' default."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else replication_factor,
        assignments=tuple(CreatableReplicaAssignment(index, tuple(ids)) for index, ids in enumerate(assignment)),
        configs=tuple(CreatableTopicConfig(key, value) for key, value in (configs or {}).items()),
    )
    request = CreateTopicsRequest((topic,), TIMEOUT_MS, validate_only)
    result = ask_controller(cluster, Api.CREATE_TOPICS, request, lambda response: response.topics)[0]
    return result.num_partitions, result.replication_factor


def delete_topic(cluster: BlockingCluster, name: str) -> None:
    """Deletes it, with all its messages."""
    # Both ways of naming it: one field is on the wire up to version 5, the other from 6 on.
    request = DeleteTopicsRequest((DeleteTopicState(name=name),), TIMEOUT_MS, (name,))
    ask_controller(cluster, Api.DELETE_TOPICS, request, lambda response: response.responses)


def add_partitions(
    cluster: BlockingCluster,
    name: str,
    total: int,
    *,
    assignment: Assignment | None = None,
    validate_only: bool = False,
) -> None:
    """Gives the topic so many partitions in all; `assignment` is that of the new ones only."""
    replicas = None if assignment is None else tuple(CreatePartitionsAssignment(tuple(ids)) for ids in assignment)
    request = CreatePartitionsRequest((CreatePartitionsTopic(name, total, replicas),), TIMEOUT_MS, validate_only)
    ask_controller(cluster, Api.CREATE_PARTITIONS, request, lambda response: response.results)


def describe_configs(
    cluster: BlockingCluster, resources: Iterable[Resource], *, documentation: bool = False
) -> dict[Resource, list[Setting]]:
    """All settings of each resource, sorted by name."""
    found: dict[Resource, list[Setting]] = {}
    by_broker: dict[int | None, list[Resource]] = {}
    for resource in resources:
        by_broker.setdefault(resource.broker_id, []).append(resource)
    for broker_id, wanted in by_broker.items():
        asked = tuple(DescribeConfigsResource(each.kind, each.name, None) for each in wanted)
        request = DescribeConfigsRequest(asked, include_documentation=documentation)
        for result in cluster.request(Api.DESCRIBE_CONFIGS, request, broker_id).results:
            _raise_if_failed(result)
            found[Resource(result.resource_type, result.resource_name)] = sorted(
                (_setting(config) for config in result.configs), key=lambda setting: setting.name
            )
    return found


def alter_configs(
    cluster: BlockingCluster,
    resource: Resource,
    *,
    changed: Mapping[str, str],
    deleted: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Sets and resets settings of one resource, all of them or none."""
    operations = [AlterableConfig(name, _SET, value) for name, value in changed.items()]
    operations += [AlterableConfig(name, _DELETE, None) for name in deleted]
    request = IncrementalAlterConfigsRequest(
        (AlterConfigsResource(resource.kind, resource.name, tuple(operations)),), validate_only
    )
    response = cluster.request(Api.INCREMENTAL_ALTER_CONFIGS, request, resource.broker_id)
    for result in response.responses:
        _raise_if_failed(result)


def log_dirs(cluster: BlockingCluster, broker_id: int) -> list[LogDir]:
    """The log directories of one broker."""
    response = cluster.request(Api.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None), broker_id)
    return [
        LogDir(
            result.log_dir,
            sum(partition.partition_size for topic in result.topics for partition in topic.partitions),
            errors.for_code(result.error_code).name if result.error_code else None,
        )
        for result in response.results
    ]


def topic_id_text(topic_id: bytes | uuid.UUID) -> str:
    """A topic id as Kafka's tools write it: URL-safe base64 without padding."""
    raw = topic_id.bytes if isinstance(topic_id, uuid.UUID) else topic_id
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _setting(config: Any) -> Setting:
    return Setting(
        config.name,
        config.value,
        config.config_source,
        config.read_only,
        config.is_sensitive,
        config.documentation,
    )


def ask_controller(cluster: BlockingCluster, api: Api, request: Any, results_of: Any) -> Sequence[Any]:
    """The results, none of them failed. Kafka takes such requests at its controller only, so that one is asked.

    When the controller has just moved, the new one is asked, once: the old one did nothing.
    """
    for last in (False, True):
        view = cluster.metadata((), refresh=True)
        controller = view.controller_id if view.controller_id in view.brokers else None
        results: Sequence[Any] = results_of(cluster.request(api, request, controller))
        try:
            for result in results:
                _raise_if_failed(result)
        except NotController:
            if last:
                raise
        else:
            break
    return results


def _raise_if_failed(result: Any) -> None:
    if result.error_code:
        error = errors.for_code(result.error_code)
        text = getattr(result, "error_message", None)
        raise error(text) if text else error(_named(error, result))


def _named(error: type[KafkaError], result: Any) -> str:
    """An error without a message of the broker's still says what it is about."""
    about = getattr(result, "name", None) or getattr(result, "resource_name", None)
    return f"{about}: {error.name}" if about else error.name
