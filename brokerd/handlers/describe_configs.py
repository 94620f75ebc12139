"""DescribeConfigs of topics, of this broker, and of what all brokers were told while they ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from brokerd import config_view, topic_rules
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.DESCRIBE_CONFIGS
VERSIONS = (1, 4)

TOPIC = 2
BROKER = 4


def handle(broker: Broker, request: Request) -> DescribeConfigsResponse:
    """Answers at once, an error for each resource that has one."""
    body: DescribeConfigsRequest = request.body
    twice = topic_rules.repeated((one.resource_type, one.resource_name) for one in body.resources)
    results = []
    for (kind, name), resource in {(one.resource_type, one.resource_name): one for one in body.resources}.items():
        try:
            if (kind, name) in twice:
                raise errors.InvalidRequest("The resource is in the request more than once.")
            entries = _entries(broker, resource)
        except errors.KafkaError as problem:
            results.append(
                DescribeConfigsResult(
                    error_code=problem.code,
                    error_message=problem.message,
                    resource_type=kind,
                    resource_name=name,
                    configs=(),
                )
            )
            continue
        configs = tuple(_shown(entry, body) for entry in _chosen(entries, resource))
        results.append(
            DescribeConfigsResult(
                error_code=errors.NONE, error_message=None, resource_type=kind, resource_name=name, configs=configs
            )
        )
    return DescribeConfigsResponse(results=tuple(results))


def _entries(broker: Broker, resource: DescribeConfigsResource) -> Iterable[config_view.Entry]:
    name = resource.resource_name or ""
    if resource.resource_type == TOPIC:
        topic = broker.view.topics.get(topic_rules.check_name(name))
        if topic is None:
            raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")
        return config_view.topic_entries(broker.config, topic.overrides)
    if resource.resource_type == BROKER:
        check_broker(broker, name)
        return (config_view.broker_entries if name else config_view.cluster_wide_entries)(broker.config)
    raise errors.InvalidRequest(f"Resources of type {resource.resource_type} have no settings here.")


def check_broker(broker: Broker, name: str) -> None:
    """InvalidRequest unless the settings of all brokers are meant (""), or this one's."""
    if name not in ("", str(broker.config.broker_id)):
        raise errors.InvalidRequest(
            f"This is broker {broker.config.broker_id}; the settings of broker {name} are the business of that one."
        )


def _chosen(entries: Iterable[config_view.Entry], resource: DescribeConfigsResource) -> Iterable[config_view.Entry]:
    """Null keys, and as in Kafka an empty list too, mean all; a key that does not exist is left out."""
    if not resource.configuration_keys:
        return entries
    wanted = set(resource.configuration_keys)
    return [entry for entry in entries if entry.name in wanted]


def _shown(entry: config_view.Entry, body: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if body.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=tuple(DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in synonyms),
        config_type=entry.type,
        documentation=entry.doc if body.include_documentation else None,
    )
