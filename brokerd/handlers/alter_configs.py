"""AlterConfigs: a topic's overrides are replaced as a whole by those in the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred

from brokerd import topic_rules
from brokerd.handlers.describe_configs import BROKER, TOPIC
from brokerd.handlers.settling import gathered, settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.ALTER_CONFIGS
VERSIONS = (0, 2)

Change = Callable[[Any, Mapping[str, str]], Mapping[str, str | None]]
"""(resource of the request, overrides now) -> overrides wanted."""

Answer = TypeVar("Answer")


def handle(broker: Broker, request: Request) -> AlterConfigsResponse | Deferred[AlterConfigsResponse]:
    """Answers when every resource is changed or refused."""
    body: AlterConfigsRequest = request.body
    pieces = alter(broker, body.resources, _replaced, AlterConfigsResourceResponse, validate_only=body.validate_only)
    return gathered(pieces, lambda results: AlterConfigsResponse(responses=tuple(results)))


def _replaced(resource: AlterConfigsResource, _now: Mapping[str, str]) -> Mapping[str, str | None]:
    return {config.name or "": config.value for config in resource.configs}


def alter(
    broker: Broker, resources: Iterable[Any], change: Change, answer: Callable[..., Answer], *, validate_only: bool
) -> list[Answer | Deferred[Answer]]:
    """One piece per resource; shared with IncrementalAlterConfigs, whose resources differ only in how `change`
    reads them.
    """
    every = list(resources)
    twice = topic_rules.repeated((one.resource_type, one.resource_name) for one in every)
    pieces: list[Answer | Deferred[Answer]] = []
    for (kind, name), resource in {(one.resource_type, one.resource_name): one for one in every}.items():

        def result(problem: errors.KafkaError | None = None, kind: int = kind, name: str | None = name) -> Answer:
            code, message = (errors.NONE, None) if problem is None else (problem.code, problem.message)
            return answer(error_code=code, error_message=message, resource_type=kind, resource_name=name)

        try:
            if (kind, name) in twice:
                raise errors.InvalidRequest("The resource is in the request more than once.")
            wanted = _wanted(broker, resource, change)
        except errors.KafkaError as problem:
            pieces.append(result(problem))
            continue
        if wanted is None or validate_only:
            pieces.append(result())
        else:
            pieces.append(settled(broker.topics.set_overrides(name, wanted), _done(result), result))
    return pieces


def _done(result: Callable[[], Answer]) -> Callable[[None], Answer]:
    return lambda _: result()


def _wanted(broker: Broker, resource: Any, change: Change) -> dict[str, str] | None:
    """The overrides that the topic is to have, checked; None if there is nothing to do."""
    twice = topic_rules.repeated(config.name for config in resource.configs)
    if twice:
        raise errors.InvalidRequest(f"Settings are given more than once: {', '.join(sorted(map(str, twice)))}.")
    name = resource.resource_name or ""
    if resource.resource_type == TOPIC:
        topic = broker.view.topics.get(topic_rules.check_name(name))
        if topic is None:
            raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")
        return topic_rules.check_overrides(change(resource, topic.overrides))
    if resource.resource_type == BROKER:
        if resource.configs:
            names = ", ".join(sorted(str(config.name) for config in resource.configs))
            raise errors.InvalidRequest(f"A broker's settings cannot be changed while it runs: {names}.")
        return None
    raise errors.InvalidRequest(f"Resources of type {resource.resource_type} have no settings here.")
