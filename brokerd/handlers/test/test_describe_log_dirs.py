"""DescribeLogDirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brokerd.handlers import describe_log_dirs
from brokerd.handlers.test.fakes import FakeBroker, FakeLogDir, request
from kafka_wire import errors
from kafka_wire.schema.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


def _ask(broker: FakeBroker, topics: Any) -> Any:
    return describe_log_dirs.handle(broker, request(DescribeLogDirsRequest(topics=topics))).results


def test_all_partitions_are_listed_by_directory() -> None:
    """Null topics mean all that is here."""
    (one,) = _ask(FakeBroker(), None)

    (topic,) = one.topics
    assert (one.error_code, one.log_dir, topic.name) == (0, "logs", "logs")
    assert [(part.partition_index, part.partition_size, part.offset_lag) for part in topic.partitions] == [(0, 1000, 0)]


def test_only_what_is_asked_for_and_here_is_listed() -> None:
    """Partitions of other brokers are left out."""
    (some,) = _ask(FakeBroker(), (DescribableLogDirTopic(topic="logs", partitions=(0, 1, 9)),))
    (none,) = _ask(FakeBroker(), ())

    assert [part.partition_index for part in some.topics[0].partitions] == [0]
    assert tuple(none.topics) == ()


def test_offline_directory_is_a_storage_error() -> None:
    """The healthy one is listed beside it."""
    broker = FakeBroker()
    broker.fake_logs.dirs.append(FakeLogDir(Path("broken"), online=False))

    good, bad = _ask(broker, None)

    assert (good.error_code, bad.error_code, bad.log_dir) == (0, errors.KAFKA_STORAGE_ERROR, "broken")
