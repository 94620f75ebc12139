"""CreatePartitions."""

from __future__ import annotations

from typing import Any

from brokerd.handlers import create_partitions
from brokerd.handlers.test.fakes import FakeBroker, request, result_of
from kafka_wire import errors
from kafka_wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def _ask(broker: FakeBroker, *topics: CreatePartitionsTopic, validate_only: bool = False) -> Any:
    body = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only)
    return result_of(create_partitions.handle(broker, request(body))).results


def _to(count: int, name: str = "logs", assignments: Any = None) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def test_topic_grows_to_the_new_total() -> None:
    """Without an assignment the brokers are chosen for the caller."""
    broker = FakeBroker()

    (one,) = _ask(broker, _to(5))

    assert (one.error_code, broker.fake_topics.calls) == (0, [("add_partitions", "logs", 5, None)])


def test_assignment_of_the_new_partitions_is_passed_on() -> None:
    """One list of brokers for each."""
    broker = FakeBroker()

    _ask(broker, _to(3, assignments=(CreatePartitionsAssignment(broker_ids=(2, 1)),)))

    assert broker.fake_topics.calls == [("add_partitions", "logs", 3, [(2, 1)])]


def test_refusals_have_kafkas_codes() -> None:
    """Unknown topic, no increase, wrong assignment."""
    bad = (CreatePartitionsAssignment(broker_ids=(2, 9)),)

    codes = [_ask(FakeBroker(), one)[0].error_code for one in (_to(5, "none"), _to(2), _to(3, assignments=bad))]

    assert codes == [
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.INVALID_PARTITIONS,
        errors.INVALID_REPLICA_ASSIGNMENT,
    ]


def test_validate_only_and_duplicates_change_nothing() -> None:
    """Neither reaches ZooKeeper."""
    broker = FakeBroker()

    (checked,) = _ask(broker, _to(5), validate_only=True)
    (twice,) = _ask(broker, _to(5), _to(6))

    assert (checked.error_code, twice.error_code) == (0, errors.INVALID_REQUEST)
    assert broker.fake_topics.calls == []
