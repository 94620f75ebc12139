"""OffsetCommit."""

from __future__ import annotations

from typing import Any

from brokerd.groups.test.hosts import Host
from brokerd.handlers import offset_commit
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, member
from kafka_wire import errors
from kafka_wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def commit(host: Host, *partitions: OffsetCommitRequestPartition, topic: str = "logs", **fields: Any) -> list[int]:
    """The codes of a commit."""
    body = OffsetCommitRequest(**{"group_id": "g", "topics": (OffsetCommitRequestTopic(topic, partitions),), **fields})
    answer = result_of(offset_commit.handle(host, asked(body, 9)))
    return [one.error_code for found in answer.topics for one in found.partitions]


def test_member_commits() -> None:
    """Offset, epoch and text are in ZooKeeper when it is told."""
    host = Host()
    known = member(host)
    codes = commit(
        host, OffsetCommitRequestPartition(0, 7, 3, "text"), member_id=known, generation_id_or_member_epoch=1
    )

    assert codes == [errors.NONE]
    assert host.zookeeper.data("/consumers/g/offsets/logs/0") == b"7"
    assert b"text" in host.zookeeper.data("/consumers/g/offset_meta/logs/0")


def test_partition_that_cannot_be_committed_does_not_stop_the_others() -> None:
    """Unknown ones, and too much text."""
    host = Host()
    codes = commit(
        host,
        OffsetCommitRequestPartition(0, 7),
        OffsetCommitRequestPartition(2, 7),
        OffsetCommitRequestPartition(1, 7, -1, "x" * 4097),
    )

    assert codes == [errors.NONE, errors.UNKNOWN_TOPIC_OR_PARTITION, errors.OFFSET_METADATA_TOO_LARGE]
    assert host.zookeeper.below("/consumers/g/offsets/logs") == ["0"]
    assert commit(host, OffsetCommitRequestPartition(0, 7), topic="none") == [errors.UNKNOWN_TOPIC_OR_PARTITION]


def test_who_may_not_commit_is_told_for_every_partition() -> None:
    """Even for those that could not be committed anyway."""
    host = Host()
    member(host)

    codes = commit(host, OffsetCommitRequestPartition(0, 7), OffsetCommitRequestPartition(9, 7))

    assert codes == [errors.UNKNOWN_MEMBER_ID, errors.UNKNOWN_MEMBER_ID]


def test_zookeeper_away_is_worth_another_try() -> None:
    """15."""
    host = Host()
    host.zookeeper.connected = False

    assert commit(host, OffsetCommitRequestPartition(0, 7)) == [errors.COORDINATOR_NOT_AVAILABLE]
