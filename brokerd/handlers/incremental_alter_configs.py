"""IncrementalAlterConfigs: single settings of topics and brokers are set, deleted, or (lists) added to and cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd import config_view
from brokerd.config_keys import KEYS, Key
from brokerd.handlers.alter_configs import alter
from brokerd.handlers.describe_configs import TOPIC
from brokerd.handlers.settling import gathered
from brokerd.handlers.types import Request
from brokerd.topic_config import TOPIC_KEYS
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.INCREMENTAL_ALTER_CONFIGS
VERSIONS = (0, 1)

SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(
    broker: Broker, request: Request
) -> IncrementalAlterConfigsResponse | Deferred[IncrementalAlterConfigsResponse]:
    """Answers when every resource is changed or refused."""
    body: IncrementalAlterConfigsRequest = request.body

    def change(resource: AlterConfigsResource, now: Mapping[str, str]) -> Mapping[str, str | None]:
        if resource.resource_type == TOPIC:
            keys, entries = TOPIC_KEYS, config_view.topic_entries(broker.config, {})
        else:
            keys, entries = KEYS, config_view.broker_entries(broker.config)
        in_force = {entry.name: entry.value for entry in entries}
        wanted: dict[str, str | None] = dict(now)
        for config in resource.configs:
            _apply(config, wanted, in_force, keys)
        return wanted

    pieces = alter(broker, body.resources, change, AlterConfigsResourceResponse, validate_only=body.validate_only)
    return gathered(pieces, lambda results: IncrementalAlterConfigsResponse(responses=tuple(results)))


def _apply(
    config: AlterableConfig,
    wanted: dict[str, str | None],
    in_force: Mapping[str, str | None],
    keys: Mapping[str, Key],
) -> None:
    """One operation on the settings; a list that was not set starts from the value that is in force."""
    name, operation = config.name or "", config.config_operation
    if operation == DELETE:
        wanted.pop(name, None)
        return
    if operation not in (SET, APPEND, SUBTRACT):
        raise errors.InvalidRequest(f"There is no operation {operation}.")
    if config.value is None:
        raise errors.InvalidRequest(f"Null value not supported for: {name}")
    if operation == SET:
        wanted[name] = config.value
        return
    key = keys.get(name)
    if key is None or key.kind != "list":
        raise errors.InvalidConfig(f"{name} is not a list: nothing can be added to it or taken from it.")
    now = _parts(wanted.get(name, in_force.get(name)))
    given = _parts(config.value)
    if operation == APPEND:
        wanted[name] = ",".join(dict.fromkeys(now + given))
    else:
        wanted[name] = ",".join(part for part in now if part not in given)


def _parts(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
