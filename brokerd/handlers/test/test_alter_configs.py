"""AlterConfigs replaces a topic's overrides."""

from __future__ import annotations

from typing import Any

from brokerd.handlers import alter_configs
from brokerd.handlers.describe_configs import BROKER, TOPIC
from brokerd.handlers.test.fakes import FakeBroker, request, result_of, topic
from kafka_wire import errors
from kafka_wire.schema.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource


def _ask(broker: FakeBroker, *resources: AlterConfigsResource, validate_only: bool = False) -> Any:
    body = AlterConfigsRequest(resources=resources, validate_only=validate_only)
    return result_of(alter_configs.handle(broker, request(body))).responses


def _of(kind: int, name: str, *settings: tuple[str, str | None]) -> AlterConfigsResource:
    configs = tuple(AlterableConfig(name=key, value=value) for key, value in settings)
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def test_overrides_are_replaced_as_a_whole() -> None:
    """What the request does not name is gone."""
    broker = FakeBroker()
    broker.view = broker.view.with_topic(topic("logs", 5, 2, {"retention.ms": "5"}))

    (one,) = _ask(broker, _of(TOPIC, "logs", ("segment.bytes", "1000")))

    assert one.error_code == 0
    assert broker.fake_topics.calls == [("alter_overrides", "logs", {"segment.bytes": "1000"})]


def test_refusals_have_kafkas_codes_and_change_nothing() -> None:
    """Bad value, unknown topic, a fixed setting of a broker, a setting twice, a strange resource."""
    broker = FakeBroker()

    answers = _ask(
        broker,
        _of(TOPIC, "logs", ("retention.ms", "x")),
        _of(TOPIC, "none"),
        _of(BROKER, "1", ("num.partitions", "3"), ("broker.rack", "a")),
        _of(TOPIC, "other", ("retention.ms", "1"), ("retention.ms", "2")),
        _of(8, "x"),
    )

    assert [one.error_code for one in answers] == [
        errors.INVALID_CONFIG,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.INVALID_REQUEST,
        errors.INVALID_REQUEST,
        errors.INVALID_REQUEST,
    ]
    assert "broker.rack" in answers[2].error_message
    assert "num.partitions" not in answers[2].error_message
    assert (broker.fake_topics.calls, broker.fake_settings.stored) == ([], {})


def test_settings_of_brokers_are_stored_under_the_id_or_for_all() -> None:
    """The empty name means all brokers."""
    broker = FakeBroker()
    own, everybody = _of(BROKER, "1", ("num.partitions", "3")), _of(BROKER, "", ("log.retention.ms", "7"))

    assert [one.error_code for one in _ask(broker, own, everybody, validate_only=True)] == [0, 0]
    assert broker.fake_settings.stored == {}
    assert [one.error_code for one in _ask(broker, own, everybody)] == [0, 0]
    assert broker.fake_settings.stored == {"1": {"num.partitions": "3"}, "<default>": {"log.retention.ms": "7"}}


def test_impossible_settings_of_brokers_are_refused() -> None:
    """Another broker's, one that differs from broker to broker for all, a bad value, a strange name."""
    broker = FakeBroker()

    answers = _ask(
        broker,
        _of(BROKER, "2", ("num.partitions", "3")),
        _of(BROKER, "", ("advertised.listeners", "PLAINTEXT://a:1")),
        _of(BROKER, "1", ("advertised.listeners", "OTHER://a:1")),
    )
    (unit,) = _ask(broker, _of(BROKER, "1", ("log.retention.hours", "3")))
    (strange,) = _ask(broker, _of(BROKER, "1", ("num.partition", "3")))

    assert [one.error_code for one in (*answers, unit, strange)] == [
        errors.INVALID_REQUEST,
        errors.INVALID_REQUEST,
        errors.INVALID_CONFIG,
        errors.INVALID_REQUEST,
        errors.INVALID_CONFIG,
    ]
    assert "did you mean num.partitions?" in strange.error_message
    assert broker.fake_settings.stored == {}


def test_validate_only_and_duplicates_change_nothing() -> None:
    """Neither reaches ZooKeeper."""
    broker = FakeBroker()
    good = _of(TOPIC, "logs", ("retention.ms", "1"))

    (checked,) = _ask(broker, good, validate_only=True)
    (twice,) = _ask(broker, good, good)

    assert (checked.error_code, twice.error_code) == (0, errors.INVALID_REQUEST)
    assert broker.fake_topics.calls == []


def test_failure_in_zookeeper_is_the_resources_error() -> None:
    """The code and the message reach the client."""
    broker = FakeBroker()
    broker.fake_topics.problem = errors.RequestTimedOut("ZooKeeper is away")

    (one,) = _ask(broker, _of(TOPIC, "logs", ("retention.ms", "1")))

    assert (one.error_code, one.error_message) == (errors.REQUEST_TIMED_OUT, "ZooKeeper is away")
