"""DescribeConfigs of topics and of the broker."""

from __future__ import annotations

from typing import Any

from brokerd.dynamic_config import in_force
from brokerd.handlers import describe_configs
from brokerd.handlers.describe_configs import BROKER, TOPIC
from brokerd.handlers.test.fakes import FakeBroker, request, topic
from kafka_wire import errors
from kafka_wire.schema.describe_configs import DescribeConfigsRequest, DescribeConfigsResource


def _ask(broker: FakeBroker, *resources: tuple[int, str], keys: Any = None, **fields: Any) -> Any:
    asked = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name in resources
    )
    return describe_configs.handle(broker, request(DescribeConfigsRequest(resources=asked, **fields))).results


def test_override_of_a_topic_is_shown_over_what_it_hides() -> None:
    """The value, its source, and the broker's value and default as synonyms."""
    broker = FakeBroker(log_retention_ms="7")
    broker.view = broker.view.with_topic(topic("logs", 5, 2, {"retention.ms": "5"}))

    (answer,) = _ask(broker, (TOPIC, "logs"), keys=("retention.ms",), include_synonyms=True)

    (one,) = answer.configs
    assert (one.name, one.value, one.config_source, one.read_only) == ("retention.ms", "5", 1, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "7", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_synonyms_and_documentation_come_only_when_asked_for() -> None:
    """They make the answer many times larger."""
    (plain,) = _ask(FakeBroker(), (TOPIC, "logs"))
    (full,) = _ask(FakeBroker(), (TOPIC, "logs"), include_synonyms=True, include_documentation=True)

    assert all(not one.synonyms and one.documentation is None for one in plain.configs)
    assert all(one.synonyms and one.documentation for one in full.configs)
    assert "cleanup.policy" in {one.name for one in plain.configs}


def test_broker_describes_only_itself() -> None:
    """Another broker's settings must be asked of that broker; the empty name means the settings of all brokers."""
    own, other, default = _ask(FakeBroker(), (BROKER, "1"), (BROKER, "2"), (BROKER, ""))

    values = {one.name: (one.value, one.config_source, one.read_only) for one in own.configs}
    assert values["broker.id"] == ("1", 4, True)
    assert values["num.partitions"] == ("1", 5, False)
    assert values["advertised.listeners"] == (None, 5, False)
    assert (other.error_code, default.error_code, tuple(default.configs)) == (errors.INVALID_REQUEST, 0, ())


def test_unknown_resources_have_kafkas_codes() -> None:
    """A topic that is not there, and a type without settings."""
    missing, strange = _ask(FakeBroker(), (TOPIC, "none"), (8, "1"))

    assert (missing.error_code, strange.error_code) == (errors.UNKNOWN_TOPIC_OR_PARTITION, errors.INVALID_REQUEST)


def test_resource_given_twice_is_an_invalid_request() -> None:
    """It is answered once."""
    (one,) = _ask(FakeBroker(), (TOPIC, "logs"), (TOPIC, "logs"))

    assert one.error_code == errors.INVALID_REQUEST


def test_dynamic_settings_are_shown_with_the_layers_below() -> None:
    """This broker's, those of all brokers, what it was started with, the default."""
    broker = FakeBroker(num_partitions="2")
    everybodys = {"num.partitions": "3", "metric.reporters": "x"}
    broker.config, _ = in_force(broker.config, everybodys, {"num.partitions": "4"})

    own, everybody = _ask(
        broker, (BROKER, "1"), (BROKER, ""), keys=("num.partitions", "metric.reporters"), include_synonyms=True
    )

    shown = [
        (one.name, one.value, one.config_source, [(s.value, s.source) for s in one.synonyms])
        for answer in (own, everybody)
        for one in sorted(answer.configs)
    ]
    assert shown == [
        ("metric.reporters", "x", 3, [("x", 3)]),
        ("num.partitions", "4", 2, [("4", 2), ("3", 3), ("2", 4), ("1", 5)]),
        ("metric.reporters", "x", 3, [("x", 3)]),
        ("num.partitions", "3", 3, [("3", 3)]),
    ]


def test_units_are_listed_beside_the_setting_that_they_are_units_of() -> None:
    """As Kafka lists them; the setting itself shows the value in force, whatever unit it was written in."""
    (answer,) = _ask(FakeBroker(log_retention_minutes="10"), (BROKER, "1"), include_synonyms=True)

    shown = {one.name: (one.value, one.config_source, one.read_only) for one in answer.configs}
    assert shown["log.retention.ms"] == ("600000", 4, False)
    assert shown["log.retention.minutes"] == ("10", 4, True)
    assert shown["log.retention.hours"] == ("168", 5, True)
    assert shown["log.roll.hours"] == ("168", 5, True)
    assert shown["log.roll.ms"] == ("604800000", 5, False)
