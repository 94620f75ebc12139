"""What people write into a properties file, and what they are told about it."""

import pytest

from brokerd.config import load, read_text
from brokerd.config_keys import ConfigError

KAFKAS_OWN = """\
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


def test_settings_of_kafkas_own_file_start_a_broker() -> None:
    """Every key of the stock file is taken; what we do not need is said in notices."""
    config, notices = load(read_text(KAFKAS_OWN))

    assert config.broker_id == 0
    assert config.log_dirs == ("/tmp/logs",)
    assert any("num.io.threads" in notice for notice in notices)


def test_misspelt_key_is_refused_with_the_nearest_one() -> None:
    """A typing error never runs with a default in silence."""
    with pytest.raises(ConfigError, match=r"log\.retention\.hours"):
        load({"log.retention.hour": "1"})


def test_plaintext_listener_without_a_host_is_loopback_only() -> None:
    """Nothing is open to the network unless somebody said so."""
    config, _ = load({"broker.id": "0", "listeners": "PLAINTEXT://:9092"})

    assert [listener.host for listener in config.listeners] == ["127.0.0.1"]
