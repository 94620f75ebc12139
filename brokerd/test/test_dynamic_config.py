"""Settings that are changed while brokers run."""

from __future__ import annotations

import pytest

from brokerd.config import BrokerConfig, Listener, load
from brokerd.config_keys import KEYS, NOT_NEEDED, WITHOUT_EFFECT
from brokerd.dynamic_config import check, in_force
from kafka_wire import errors


@pytest.fixture
def static() -> BrokerConfig:
    """What a broker was started with."""
    return load({"broker.id": "1", "num.partitions": "2", "log.retention.hours": "1"})[0]


def test_own_setting_wins_over_that_of_all_brokers(static: BrokerConfig) -> None:
    """Then what the broker was started with, then the default."""
    config, problems = in_force(
        static, {"num.partitions": "3", "message.max.bytes": "1000"}, {"num.partitions": "4", "log.retention.ms": "5"}
    )

    assert problems == []
    assert (config.num_partitions, config.message_max_bytes, config.log_retention_ms) == (4, 1000, 5)
    assert in_force(static, {}, {})[0] == static


def test_unusable_text_in_zookeeper_is_left_out_and_told(static: BrokerConfig) -> None:
    """A bad value, a setting that is not dynamic, one that nobody knows; the rest holds."""
    config, problems = in_force(
        static,
        {"num.partitions": "many", "advertised.listeners": "PLAINTEXT://a:1"},
        {"broker.rack": "x", "none.such": "1", "message.max.bytes": "7"},
    )

    assert (config.num_partitions, config.broker_rack, config.message_max_bytes) == (2, None, 7)
    assert [problem.partition(":")[0] for problem in problems] == [
        "num.partitions",
        "advertised.listeners",
        "broker.rack",
        "none.such",
    ]
    assert (config.cluster_wide, config.own) == ({}, {"message.max.bytes": "7"})


def test_advertised_listeners_are_checked_as_at_the_start(static: BrokerConfig) -> None:
    """They must name the listeners that there are."""
    config, _ = in_force(static, {}, {"advertised.listeners": "PLAINTEXT://example.org:19092"})

    assert config.advertised_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "example.org", 19092),)
    with pytest.raises(errors.InvalidConfig, match=r"advertised\.listeners"):
        check(static, {}, {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, cluster_wide=False)


@pytest.mark.parametrize("name", sorted(name for name, key in KEYS.items() if not key.dynamic))
def test_fixed_setting_is_refused_by_name(static: BrokerConfig, name: str) -> None:
    """Whatever its value."""
    with pytest.raises(errors.InvalidRequest, match=name):
        check(static, {}, {name: "1"}, cluster_wide=False)


def test_settings_without_effect_are_ones_that_a_start_accepts() -> None:
    """What may be stored while a broker runs may stand in its file too."""
    assert WITHOUT_EFFECT <= NOT_NEEDED
    assert not WITHOUT_EFFECT & set(KEYS)
