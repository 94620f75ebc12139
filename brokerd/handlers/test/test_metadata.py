"""Metadata: what is listed, and what is created on the way."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from brokerd.handlers import metadata
from brokerd.handlers.test.fakes import FakeBroker, request, result_of, topic, topic_id
from brokerd.metadata import PartitionInfo, TopicInfo
from kafka_wire import errors
from kafka_wire.schema.metadata import MetadataRequest, MetadataRequestTopic


def _ask(broker: FakeBroker, topics: Any, version: int = 12, **fields: Any) -> Any:
    return metadata.handle(broker, request(MetadataRequest(topics=topics, **fields), version))


def _named(*names: str) -> tuple[MetadataRequestTopic, ...]:
    return tuple(MetadataRequestTopic(name=name) for name in names)


def test_cluster_is_described_whole() -> None:
    """Brokers in order, cluster id, controller, and every topic for null."""
    answer = _ask(FakeBroker(), None)

    assert [tuple(one)[:4] for one in answer.brokers] == [(1, "one", 9092, "rack"), (2, "two", 9093, None)]
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)
    (logs,) = answer.topics
    assert (logs.error_code, logs.name, logs.topic_id, logs.is_internal) == (0, "logs", topic_id(5), False)
    assert logs.topic_authorized_operations == -2147483648
    first = logs.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 3)
    assert (tuple(first.replica_nodes), tuple(first.isr_nodes), tuple(first.offline_replicas)) == ((1, 2), (1,), ())


def test_empty_list_means_no_topics() -> None:
    """All topics is null (which kafka_wire also makes of version 0's empty list)."""
    assert len(_ask(FakeBroker(), ()).topics) == 0


def test_topic_is_found_by_id() -> None:
    """An unknown id is answered under that id."""
    asked = tuple(MetadataRequestTopic(name=None, topic_id=topic_id(number)) for number in (5, 6))

    known, unknown = _ask(FakeBroker(), asked).topics

    assert (known.error_code, known.name) == (0, "logs")
    assert (unknown.error_code, unknown.topic_id) == (errors.UNKNOWN_TOPIC_ID, topic_id(6))


@pytest.mark.parametrize("leader", [-1, 9])
def test_partition_without_living_leader_is_still_listed(leader: int) -> None:
    """LEADER_NOT_AVAILABLE, leader -1, and the dead replicas as offline."""
    broker = FakeBroker()
    lost = TopicInfo("lost", topic_id(6), (PartitionInfo(0, leader, 4, (1, 9), (9,)),))
    broker.view = broker.view.with_topic(lost)

    (answer,) = _ask(broker, _named("lost")).topics

    (one,) = answer.partitions
    assert (answer.error_code, one.error_code, one.leader_id) == (0, errors.LEADER_NOT_AVAILABLE, -1)
    assert tuple(one.offline_replicas) == (9,)


@pytest.mark.parametrize(
    ("setting", "allowed"), [("true", False), ("false", True)], ids=["client forbids", "broker forbids"]
)
def test_unknown_topic_is_not_created_when_one_side_forbids(setting: str, allowed: bool) -> None:
    """Both the client and auto.create.topics.enable must agree."""
    broker = FakeBroker(auto_create_topics_enable=setting)

    (one,) = result_of(_ask(broker, _named("new"), allow_auto_topic_creation=allowed)).topics

    assert (one.error_code, broker.fake_topics.calls) == (errors.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_unknown_topic_is_created_with_defaults() -> None:
    """The answer has the new topic."""
    broker = FakeBroker(num_partitions="3")

    (one,) = result_of(_ask(broker, _named("new"))).topics

    assert broker.fake_topics.calls == [("create", "new", 3, 1, None, {})]
    assert (one.error_code, one.topic_id, len(one.partitions)) == (0, topic_id(77), 3)


@pytest.mark.parametrize(
    ("name", "code"),
    [("no good", errors.INVALID_TOPIC_EXCEPTION), ("__consumer_offsets", errors.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_names_that_clients_may_not_create_are_refused(name: str, code: int) -> None:
    """Illegal names and internal topics."""
    broker = FakeBroker()

    (one,) = result_of(_ask(broker, _named(name))).topics

    assert (one.error_code, broker.fake_topics.calls) == (code, [])


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (errors.TopicAlreadyExists("a"), errors.LEADER_NOT_AVAILABLE),
        (errors.NotController("a"), errors.LEADER_NOT_AVAILABLE),
        (errors.PolicyViolation("a"), errors.POLICY_VIOLATION),
    ],
)
def test_failed_creation_says_whether_to_ask_again(problem: errors.KafkaError, code: int) -> None:
    """What may pass is LEADER_NOT_AVAILABLE, which every client takes as "soon"."""
    broker = FakeBroker()
    broker.fake_topics.problem = problem

    (one,) = result_of(_ask(broker, _named("new"))).topics

    assert one.error_code == code


def test_slow_creation_is_answered_with_leader_not_available() -> None:
    """The client asks again; the topic comes later."""
    broker = FakeBroker()
    waiting: Deferred[Any] = Deferred()
    broker.fake_topics.waiting = waiting
    answer = _ask(broker, _named("new"))

    broker.reactor.advance(metadata.AUTO_CREATE_MS / 1000)

    assert result_of(answer).topics[0].error_code == errors.LEADER_NOT_AVAILABLE
    waiting.callback(topic("new", 1))


def test_name_given_twice_is_answered_once() -> None:
    """Kafka takes the names as a set."""
    assert len(_ask(FakeBroker(), _named("logs", "logs")).topics) == 1
