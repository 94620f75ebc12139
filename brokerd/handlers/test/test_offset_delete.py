"""OffsetDelete."""

from __future__ import annotations

from typing import Any

from brokerd.groups.test.hosts import Host
from brokerd.handlers import offset_delete
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, join, member
from kafka_wire import errors
from kafka_wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def _delete(host: Host, *topics: str, group: str = "g") -> Any:
    wanted = tuple(OffsetDeleteRequestTopic(name, (OffsetDeleteRequestPartition(0),)) for name in topics)
    return result_of(offset_delete.handle(host, asked(OffsetDeleteRequest(group_id=group, topics=wanted), 0)))


def test_offsets_of_topics_that_nobody_reads_go() -> None:
    """Those of subscribed topics stay."""
    host = Host()
    member(host)
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"1")
    host.zookeeper.put("/consumers/g/offsets/old/0", b"1")

    answer = _delete(host, "logs", "old")

    assert answer.error_code == errors.NONE
    assert [one.partitions[0].error_code for one in answer.topics] == [errors.GROUP_SUBSCRIBED_TO_TOPIC, errors.NONE]
    assert host.zookeeper.below("/consumers/g/offsets") == ["logs", "logs/0"]


def test_what_cannot_be_deleted_is_said() -> None:
    """No such group, a group in a rebalance, a wrong broker."""
    host = Host()
    assert _delete(host, "logs").error_code == errors.GROUP_ID_NOT_FOUND
    member(host)
    join(host, 3)
    assert _delete(host, "logs").error_code == errors.REBALANCE_IN_PROGRESS
    host.elect(leader=2, epoch=4)
    assert _delete(host, "logs").error_code == errors.NOT_COORDINATOR


def test_group_of_another_protocol_with_members_keeps_all() -> None:
    """Nobody knows what they read."""
    host = Host()
    join(host, 3, protocol_type="connect")

    assert _delete(host, "logs").error_code == errors.NON_EMPTY_GROUP
