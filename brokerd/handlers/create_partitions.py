"""CreatePartitions: more partitions for topics that exist; `count` is the new total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd import topic_rules
from brokerd.handlers.settling import gathered, settled, within
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.CREATE_PARTITIONS
VERSIONS = (0, 3)


def handle(broker: Broker, request: Request) -> CreatePartitionsResponse | Deferred[CreatePartitionsResponse]:
    """Answers when every topic has grown, was refused, or is late."""
    body: CreatePartitionsRequest = request.body
    twice = topic_rules.repeated(topic.name for topic in body.topics)
    pieces = [
        _result(name, errors.InvalidRequest(f"Topic '{name}' is in the request more than once."))
        if name in twice
        else _add(broker, topic, body)
        for name, topic in {topic.name: topic for topic in body.topics}.items()
    ]
    return gathered(pieces, lambda results: CreatePartitionsResponse(results=tuple(results)))


def _add(
    broker: Broker, asked: CreatePartitionsTopic, body: CreatePartitionsRequest
) -> CreatePartitionsTopicResult | Deferred[CreatePartitionsTopicResult]:
    name = asked.name or ""
    assignments = None if asked.assignments is None else [tuple(one.broker_ids) for one in asked.assignments]
    try:
        topic = broker.view.topics.get(name)
        if topic is None:
            raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")
        topic_rules.check_increase(topic, asked.count, assignments, broker.view.brokers)
    except errors.KafkaError as problem:
        return _result(name, problem)
    if body.validate_only:
        return _result(name)
    work = within(broker.reactor, body.timeout_ms, broker.topics.add_partitions(name, asked.count, assignments))
    return settled(work, lambda _: _result(name), lambda problem: _result(name, problem))


def _result(name: str | None, problem: errors.KafkaError | None = None) -> CreatePartitionsTopicResult:
    if problem is None:
        return CreatePartitionsTopicResult(name=name or "", error_code=errors.NONE, error_message=None)
    return CreatePartitionsTopicResult(name=name or "", error_code=problem.code, error_message=problem.message)
