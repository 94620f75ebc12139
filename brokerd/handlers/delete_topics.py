"""DeleteTopics, by name or by topic id: answered when the tombstone is written (A28); from then on the topic is
unknown to clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd import topic_rules
from brokerd.handlers.settling import gathered, settled, within
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.DELETE_TOPICS
VERSIONS = (1, 6)

_NO_ID = bytes(16)
_Asked = tuple[str | None, bytes]


def handle(broker: Broker, request: Request) -> DeleteTopicsResponse | Deferred[DeleteTopicsResponse]:
    """Answers when every topic is deleted, refused, or late."""
    body: DeleteTopicsRequest = request.body
    asked: list[_Asked] = [(name, _NO_ID) for name in body.topic_names]
    asked.extend((topic.name, topic.topic_id) for topic in body.topics)
    twice = _repeated(broker, asked)
    pieces = [
        _refused(one, errors.InvalidRequest("The topic is in the request more than once."))
        if one in twice
        else _delete(broker, one, body.timeout_ms)
        for one in dict.fromkeys(asked)
    ]
    return gathered(pieces, lambda results: DeleteTopicsResponse(responses=tuple(results)))


def _repeated(broker: Broker, asked: list[_Asked]) -> set[_Asked]:
    """Those that mean the same topic as another one, be it once by name and once by id."""
    meant = [name if name is not None else broker.view.names.get(topic_id, topic_id) for name, topic_id in asked]
    twice = topic_rules.repeated(meant)
    return {one for one, target in zip(asked, meant, strict=True) if target in twice}


def _delete(broker: Broker, asked: _Asked, timeout_ms: int) -> DeletableTopicResult | Deferred[DeletableTopicResult]:
    try:
        found = _found(broker, asked)
    except errors.KafkaError as problem:
        return _refused(asked, problem)
    name, topic_id = found
    work = within(broker.reactor, timeout_ms, broker.topics.delete(name))

    def done(_: None) -> DeletableTopicResult:
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=errors.NONE, error_message=None)

    return settled(work, done, lambda problem: _refused((name, topic_id), problem))


def _found(broker: Broker, asked: _Asked) -> tuple[str, bytes]:
    """Name and id of the topic that is meant."""
    name, topic_id = asked
    if name is not None and topic_id != _NO_ID:
        raise errors.InvalidRequest("Give a topic's name or its id, not both.")
    if name is None:
        name = broker.topic_name(topic_id)
    topic = broker.view.topics.get(name)
    if topic is None:
        raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")
    if not broker.config.delete_topic_enable:
        raise errors.TopicDeletionDisabled("delete.topic.enable is false on this broker.")
    return name, topic.topic_id


def _refused(asked: _Asked, problem: errors.KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=asked[0], topic_id=asked[1], error_code=problem.code, error_message=problem.message
    )
