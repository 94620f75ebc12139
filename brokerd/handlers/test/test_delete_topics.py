"""DeleteTopics by name and by id."""

from __future__ import annotations

from typing import Any

from brokerd.handlers import delete_topics
from brokerd.handlers.test.fakes import FakeBroker, request, result_of, topic_id
from kafka_wire import errors
from kafka_wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicState


def _ask(broker: FakeBroker, **fields: Any) -> Any:
    body = DeleteTopicsRequest(**{"timeout_ms": 1000, **fields})
    return result_of(delete_topics.handle(broker, request(body))).responses


def test_topic_is_deleted_by_name_or_by_id() -> None:
    """Both ways name the same topic in the answer."""
    for fields in ({"topic_names": ("logs",)}, {"topics": (DeleteTopicState(name=None, topic_id=topic_id(5)),)}):
        broker = FakeBroker()

        (one,) = _ask(broker, **fields)

        assert (one.name, one.topic_id, one.error_code) == ("logs", topic_id(5), 0)
        assert broker.fake_topics.calls == [("delete", "logs")]


def test_unknown_name_and_unknown_id_are_told_apart() -> None:
    """Clients refresh different caches for them."""
    by_name, by_id = _ask(
        FakeBroker(), topics=(DeleteTopicState(name="none"), DeleteTopicState(name=None, topic_id=topic_id(9)))
    )

    assert (by_name.error_code, by_id.error_code) == (errors.UNKNOWN_TOPIC_OR_PARTITION, errors.UNKNOWN_TOPIC_ID)


def test_name_together_with_id_is_an_invalid_request() -> None:
    """They might not mean the same topic."""
    (one,) = _ask(FakeBroker(), topics=(DeleteTopicState(name="logs", topic_id=topic_id(5)),))

    assert one.error_code == errors.INVALID_REQUEST


def test_topic_named_by_name_and_by_id_is_deleted_once() -> None:
    """The same topic in two forms is a duplicate all the same."""
    broker = FakeBroker()

    answers = _ask(broker, topics=(DeleteTopicState(name="logs"), DeleteTopicState(name=None, topic_id=topic_id(5))))

    assert {one.error_code for one in answers} == {errors.INVALID_REQUEST}
    assert broker.fake_topics.calls == []


def test_topic_given_twice_is_an_invalid_request() -> None:
    """It is answered once and kept."""
    broker = FakeBroker()

    (one,) = _ask(broker, topic_names=("logs", "logs"))

    assert (one.error_code, broker.fake_topics.calls) == (errors.INVALID_REQUEST, [])


def test_deletion_switched_off_is_refused() -> None:
    """delete.topic.enable=false keeps topics."""
    broker = FakeBroker(delete_topic_enable="false")

    (one,) = _ask(broker, topic_names=("logs",))

    assert (one.error_code, broker.fake_topics.calls) == (errors.TOPIC_DELETION_DISABLED, [])
