"""OffsetFetch."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.groups.test.hosts import Host
from brokerd.handlers import offset_fetch
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked
from kafka_wire import errors
from kafka_wire.messages import encode_response
from kafka_wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


def _host() -> Host:
    host = Host()
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"7")
    host.zookeeper.put("/consumers/g/offset_meta/logs/0", b'{"leader_epoch":3,"metadata":"text"}')
    return host


def _ask(host: Host, version: int, **fields: Any) -> Any:
    answer = result_of(offset_fetch.handle(host, asked(OffsetFetchRequest(**fields), version)))
    assert encode_response(9, version, 1, answer)
    return answer


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_are_found_in_versions_with_one_group(version: int) -> None:
    """-1 where nothing is committed, also for topics that do not exist."""
    topics = (OffsetFetchRequestTopic("logs", (0, 1)), OffsetFetchRequestTopic("none", (0,)))

    answer = _ask(_host(), version, group_id="g", topics=topics)

    found = [
        (topic.name, one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata)
        for topic in answer.topics
        for one in topic.partitions
    ]
    assert found == [("logs", 0, 7, 3, "text"), ("logs", 1, -1, -1, ""), ("none", 0, -1, -1, "")]
    assert answer.error_code == errors.NONE


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_are_asked_at_once(version: int) -> None:
    """Some partitions, all, and a group that nobody knows."""
    groups = (
        OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestTopics("logs", (1,)),)),
        OffsetFetchRequestGroup("g", topics=None),
        OffsetFetchRequestGroup("none", topics=None),
    )

    answer = _ask(_host(), version, groups=groups)

    found = [
        [(topic.name, one.partition_index, one.committed_offset) for topic in group.topics for one in topic.partitions]
        for group in answer.groups
    ]
    assert found == [[("logs", 1, -1)], [("logs", 0, 7)], []]


def test_all_offsets_of_a_group_are_found() -> None:
    """Since version 2 without naming the topics."""
    answer = _ask(_host(), 5, group_id="g", topics=None)

    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("logs", 1)]


def test_error_of_the_first_version_is_in_its_partitions() -> None:
    """It has no other place."""
    host = _host()
    host.elect(leader=2, epoch=4)

    answer = _ask(host, 1, group_id="g", topics=(OffsetFetchRequestTopic("logs", (0,)),))

    assert answer.topics[0].partitions[0].error_code == errors.NOT_COORDINATOR
    assert _ask(host, 7, group_id="g", topics=None).error_code == errors.NOT_COORDINATOR
    assert _ask(host, 8, groups=(OffsetFetchRequestGroup("g"),)).groups[0].error_code == errors.NOT_COORDINATOR
