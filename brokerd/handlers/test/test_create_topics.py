"""CreateTopics: what is created, refused and only checked."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from brokerd.handlers import create_topics
from brokerd.handlers.test.fakes import FakeBroker, request, result_of, topic, topic_id
from kafka_wire import errors
from kafka_wire.schema.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


def _ask(broker: FakeBroker, *topics: CreatableTopic, **fields: Any) -> Any:
    return create_topics.handle(broker, request(CreateTopicsRequest(topics=topics, **{"timeout_ms": 1000, **fields})))


def _wanted(name: str, **fields: Any) -> CreatableTopic:
    return CreatableTopic(**{"name": name, "num_partitions": 2, "replication_factor": 1, **fields})


def test_new_topic_is_created_with_its_settings() -> None:
    """The answer has the id, the numbers and the settings in force."""
    broker = FakeBroker()
    wanted = _wanted("new", configs=(CreatableTopicConfig(name="retention.ms", value="5"),))

    (made,) = result_of(_ask(broker, wanted)).topics

    assert broker.fake_topics.calls == [("create", "new", 2, 1, None, {"retention.ms": "5"})]
    assert (made.error_code, made.topic_id, made.num_partitions, made.replication_factor) == (0, topic_id(77), 2, 1)
    assert {config.name: config.value for config in made.configs}["retention.ms"] == "5"


def test_validate_only_creates_nothing() -> None:
    """The answer is that of a creation, nothing is made."""
    broker = FakeBroker()

    good, bad = result_of(_ask(broker, _wanted("new"), _wanted("no good"), validate_only=True)).topics

    assert broker.fake_topics.calls == []
    assert (good.error_code, bad.error_code) == (0, errors.INVALID_TOPIC_EXCEPTION)


def test_one_bad_topic_does_not_stop_the_others() -> None:
    """Each topic has its own result."""
    answer = result_of(_ask(FakeBroker(), _wanted("logs"), _wanted("new"), _wanted("big", replication_factor=3)))

    codes = [one.error_code for one in answer.topics]
    assert codes == [errors.TOPIC_ALREADY_EXISTS, 0, errors.INVALID_REPLICATION_FACTOR]


def test_topic_given_twice_is_an_invalid_request() -> None:
    """It is answered once and not created."""
    broker = FakeBroker()

    (one,) = result_of(_ask(broker, _wanted("a"), _wanted("a"))).topics

    assert (one.error_code, broker.fake_topics.calls) == (errors.INVALID_REQUEST, [])


def test_assignment_by_hand_is_passed_on() -> None:
    """The partitions go where the request says."""
    broker = FakeBroker()
    by_hand = tuple(CreatableReplicaAssignment(partition_index=index, broker_ids=(2, 1)) for index in (0, 1))

    result_of(_ask(broker, _wanted("a", num_partitions=-1, replication_factor=-1, assignments=by_hand)))

    assert broker.fake_topics.calls == [("create", "a", 2, 2, {0: (2, 1), 1: (2, 1)}, {})]


def test_unknown_setting_is_an_invalid_config() -> None:
    """A setting that nobody knows stops its topic."""
    wanted = _wanted("a", configs=(CreatableTopicConfig(name="no.such", value="1"),))

    (one,) = result_of(_ask(FakeBroker(), wanted)).topics

    assert one.error_code == errors.INVALID_CONFIG
    assert "no.such" in one.error_message


def test_failure_in_zookeeper_is_the_topics_error() -> None:
    """A KafkaError keeps its code; anything else is an unknown server error."""
    broker = FakeBroker()
    broker.fake_topics.problem = errors.NotController("not me")

    (one,) = result_of(_ask(broker, _wanted("a"))).topics

    assert (one.error_code, one.error_message) == (errors.NOT_CONTROLLER, "not me")


def test_late_creation_times_out_and_goes_on() -> None:
    """At the deadline the client is answered; the creation ends later without harm."""
    broker = FakeBroker()
    waiting: Deferred[Any] = Deferred()
    broker.fake_topics.waiting = waiting
    answer = _ask(broker, _wanted("a"))
    assert not answer.called

    broker.reactor.advance(1)

    assert result_of(answer).topics[0].error_code == errors.REQUEST_TIMED_OUT
    waiting.callback(topic("a", 1))
    assert broker.reactor.getDelayedCalls() == []
