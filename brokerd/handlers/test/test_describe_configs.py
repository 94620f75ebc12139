"""DescribeConfigs of topics and of the broker."""

from __future__ import annotations

from typing import Any

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
        ("log.retention.ms", "604800000", 5),
    ]


def test_synonyms_and_documentation_come_only_when_asked_for() -> None:
    """They make the answer many times larger."""
    (plain,) = _ask(FakeBroker(), (TOPIC, "logs"))
    (full,) = _ask(FakeBroker(), (TOPIC, "logs"), include_synonyms=True, include_documentation=True)

    assert all(not one.synonyms and one.documentation is None for one in plain.configs)
    assert all(one.synonyms and one.documentation for one in full.configs)
    assert "cleanup.policy" in {one.name for one in plain.configs}


def test_broker_describes_only_itself() -> None:
    """Another broker's settings must be asked of that broker; the empty name means cluster defaults, which are none."""
    own, other, default = _ask(FakeBroker(), (BROKER, "1"), (BROKER, "2"), (BROKER, ""))

    values = {one.name: (one.value, one.config_source, one.read_only) for one in own.configs}
    assert values["broker.id"] == ("1", 4, True)
    assert values["num.partitions"] == ("1", 5, True)
    assert (other.error_code, default.error_code, tuple(default.configs)) == (errors.INVALID_REQUEST, 0, ())


def test_unknown_resources_have_kafkas_codes() -> None:
    """A topic that is not there, and a type without settings."""
    missing, strange = _ask(FakeBroker(), (TOPIC, "none"), (8, "1"))

    assert (missing.error_code, strange.error_code) == (errors.UNKNOWN_TOPIC_OR_PARTITION, errors.INVALID_REQUEST)


def test_resource_given_twice_is_an_invalid_request() -> None:
    """It is answered once."""
    (one,) = _ask(FakeBroker(), (TOPIC, "logs"), (TOPIC, "logs"))

    assert one.error_code == errors.INVALID_REQUEST
