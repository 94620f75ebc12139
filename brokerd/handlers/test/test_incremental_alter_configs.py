"""IncrementalAlterConfigs changes single overrides."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.handlers import incremental_alter_configs
from brokerd.handlers.describe_configs import BROKER, TOPIC
from brokerd.handlers.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from brokerd.handlers.test.fakes import FakeBroker, request, result_of, topic
from kafka_wire import errors
from kafka_wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def _ask(
    broker: FakeBroker, *changes: tuple[str, int, str | None], resource: tuple[int, str] = (TOPIC, "logs")
) -> Any:
    configs = tuple(AlterableConfig(name=name, config_operation=kind, value=value) for name, kind, value in changes)
    asked = AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=configs)
    body = IncrementalAlterConfigsRequest(resources=(asked,))
    return result_of(incremental_alter_configs.handle(broker, request(body))).responses[0]


@pytest.fixture
def broker() -> FakeBroker:
    """A broker whose topic has one override."""
    made = FakeBroker()
    made.fake_topics.overrides = {"retention.ms": "5"}
    made.view = made.view.with_topic(topic("logs", 5, 2, made.fake_topics.overrides))
    return made


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("segment.bytes", SET, "1000"), {"retention.ms": "5", "segment.bytes": "1000"}),
        (("retention.ms", DELETE, None), {}),
        (("segment.ms", DELETE, None), {"retention.ms": "5"}),
        (("cleanup.policy", APPEND, "compact"), {"retention.ms": "5", "cleanup.policy": "delete,compact"}),
        (("cleanup.policy", APPEND, "delete"), {"retention.ms": "5", "cleanup.policy": "delete"}),
    ],
)
def test_operation_changes_only_its_setting(
    broker: FakeBroker, change: tuple[str, int, str | None], expected: dict[str, str]
) -> None:
    """The other overrides stay."""
    assert _ask(broker, change).error_code == 0

    assert broker.fake_topics.calls == [("alter_overrides", "logs", expected)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", APPEND, "1"), errors.INVALID_CONFIG),
        (("retention.ms", SET, None), errors.INVALID_REQUEST),
        (("retention.ms", 7, "1"), errors.INVALID_REQUEST),
        (("retention.ms", SET, "soon"), errors.INVALID_CONFIG),
        (("cleanup.policy", SUBTRACT, "delete"), errors.INVALID_CONFIG),
        (("no.such", SET, "1"), errors.INVALID_CONFIG),
    ],
)
def test_impossible_operation_is_refused(broker: FakeBroker, change: tuple[str, int, str | None], code: int) -> None:
    """Nothing reaches ZooKeeper."""
    assert (_ask(broker, change).error_code, broker.fake_topics.calls) == (code, [])


def test_setting_given_twice_is_an_invalid_request(broker: FakeBroker) -> None:
    """Which of the two was meant is not guessed."""
    assert _ask(broker, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)).error_code == errors.INVALID_REQUEST


def test_settings_of_a_broker_change_one_by_one(broker: FakeBroker) -> None:
    """What is stored and not named stays, also what we would not store; a list begins with the value in force."""
    broker.fake_settings.stored["1"] = {"from.the.future": "1", "num.partitions": "3"}

    answer = _ask(
        broker,
        ("num.partitions", DELETE, None),
        ("log.cleanup.policy", APPEND, "compact"),
        ("message.max.bytes", SET, "5"),
        resource=(BROKER, "1"),
    )

    assert answer.error_code == 0
    assert broker.fake_settings.stored["1"] == {
        "from.the.future": "1",
        "log.cleanup.policy": "delete,compact",
        "message.max.bytes": "5",
    }
