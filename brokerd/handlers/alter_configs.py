"""AlterConfigs: the overrides of a topic, or the dynamic settings of this broker or of all, are replaced as a whole by
those in the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred

from brokerd import dynamic_config, topic_rules
from brokerd.handlers.describe_configs import BROKER, TOPIC, check_broker
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
"""(resource of the request, settings now) -> settings wanted."""

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
            work = _work(broker, resource, change)
        except errors.KafkaError as problem:
            pieces.append(result(problem))
            continue
        pieces.append(result() if validate_only else settled(work(), _done(result), result))
    return pieces


def _done(result: Callable[[], Answer]) -> Callable[[None], Answer]:
    return lambda _: result()


def _work(broker: Broker, resource: Any, change: Change) -> Callable[[], Deferred[None]]:
    """The change of one resource, checked against the settings of now and ready to be made; it is checked again when it
    is written, should they have changed by then.
    """
    twice = topic_rules.repeated(config.name for config in resource.configs)
    if twice:
        raise errors.InvalidRequest(f"Settings are given more than once: {', '.join(sorted(map(str, twice)))}.")
    name = resource.resource_name or ""
    if resource.resource_type == TOPIC:
        topic = broker.view.topics.get(topic_rules.check_name(name))
        if topic is None:
            raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")

        def overrides(now: Mapping[str, str]) -> dict[str, str]:
            return topic_rules.check_overrides(change(resource, now))

        overrides(topic.overrides)
        return lambda: broker.topics.alter_overrides(name, overrides)
    if resource.resource_type == BROKER:
        return _broker_work(broker, name, lambda now: change(resource, now))
    raise errors.InvalidRequest(f"Resources of type {resource.resource_type} have no settings here.")


def _broker_work(
    broker: Broker, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]
) -> Callable[[], Deferred[None]]:
    config = broker.config
    check_broker(broker, name)

    def wanted(now: Mapping[str, str]) -> dict[str, str]:
        return dynamic_config.check(config, now, change(now), cluster_wide=name == "")

    wanted(config.own if name else config.cluster_wide)
    return lambda: broker.settings.alter(name or dynamic_config.EVERYBODY, wanted)
