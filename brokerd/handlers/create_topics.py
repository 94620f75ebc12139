"""CreateTopics: each topic is checked by `topic_rules` and, unless the request only asks for validation, created
through ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd import config_view, topic_rules
from brokerd.handlers.settling import gathered, settled, within
from brokerd.handlers.types import Request
from brokerd.metadata import TopicInfo
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.CREATE_TOPICS
VERSIONS = (2, 7)

_NO_ID = bytes(16)


def handle(broker: Broker, request: Request) -> CreateTopicsResponse | Deferred[CreateTopicsResponse]:
    """Answers when every topic is created, refused, or late."""
    body: CreateTopicsRequest = request.body
    twice = topic_rules.repeated(topic.name for topic in body.topics)
    pieces: list[CreatableTopicResult | Deferred[CreatableTopicResult]] = []
    answered: set[str | None] = set()
    for topic in body.topics:
        if topic.name not in twice:
            pieces.append(_create(broker, topic, body))
        elif topic.name not in answered:
            answered.add(topic.name)
            pieces.append(
                _refused(topic.name, errors.InvalidRequest(f"Topic '{topic.name}' is in the request more than once."))
            )
    return gathered(pieces, lambda results: CreateTopicsResponse(topics=tuple(results)))


def _create(
    broker: Broker, topic: CreatableTopic, body: CreateTopicsRequest
) -> CreatableTopicResult | Deferred[CreatableTopicResult]:
    try:
        new = _checked(broker, topic)
    except errors.KafkaError as problem:
        return _refused(topic.name, problem)
    if body.validate_only:
        return _created(broker, new, _NO_ID)
    work = broker.topics.create(new.name, new.partitions, new.replication_factor, new.assignment, new.overrides)

    def done(info: TopicInfo) -> CreatableTopicResult:
        return _created(broker, new, info.topic_id)

    return settled(within(broker.reactor, body.timeout_ms, work), done, lambda problem: _refused(new.name, problem))


def _checked(broker: Broker, topic: CreatableTopic) -> topic_rules.NewTopic:
    if topic_rules.repeated(config.name for config in topic.configs):
        raise errors.InvalidConfig("A setting is given more than once.")
    if topic_rules.repeated(one.partition_index for one in topic.assignments):
        raise errors.InvalidReplicaAssignment("A partition is assigned more than once.")
    wanted = topic_rules.NewTopic(
        name=topic.name or "",
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment={one.partition_index: tuple(one.broker_ids) for one in topic.assignments} or None,
        overrides=topic_rules.check_overrides({config.name or "": config.value for config in topic.configs}),
    )
    return topic_rules.check_new_topic(
        wanted,
        broker.view.topics,
        broker.view.brokers,
        default_partitions=broker.config.num_partitions,
        default_replication_factor=broker.config.default_replication_factor,
    )


def _created(broker: Broker, new: topic_rules.NewTopic, topic_id: bytes) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=new.name,
        topic_id=topic_id,
        error_code=errors.NONE,
        error_message=None,
        num_partitions=new.partitions,
        replication_factor=new.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in config_view.topic_entries(broker.config, new.overrides)
        ),
    )


def _refused(name: str | None, problem: errors.KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name or "", error_code=problem.code, error_message=problem.message, configs=())
