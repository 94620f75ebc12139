"""OffsetCommit: offsets of a member, or of one that uses no group, into ZooKeeper; answered when they are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.offset_nodes import Committed
from brokerd.groups.values import Commit
from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from zk_schema.group_nodes import OffsetMeta

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.metadata import TopicInfo

API = Api.OFFSET_COMMIT
VERSIONS = (2, 9)

Refused = dict[tuple[str, int], int]


def handle(broker: Broker, request: Request) -> Deferred[OffsetCommitResponse]:
    """Partitions that cannot be committed have errors of their own; the rest stands or falls together."""
    body: OffsetCommitRequest = request.body
    refused: Refused = {}
    entries: list[Committed] = []
    for topic in body.topics:
        known = broker.view.topics.get(topic.name)
        for one in topic.partitions:
            code = _refusal(broker, known, one)
            if code != errors.NONE or known is None:
                refused[topic.name, one.partition_index] = code
            else:
                entries.append(_entry(known, one))

    def make(token: int) -> Commit:
        return Commit(token, body.member_id, body.generation_id_or_member_epoch, body.group_instance_id)

    return settled(
        broker.groups.committed.commit(body.group_id, make, entries),
        lambda _: _answer(body, refused, errors.NONE),
        lambda problem: _answer(body, {}, problem.code),
    )


def _refusal(broker: Broker, topic: TopicInfo | None, one: OffsetCommitRequestPartition) -> int:
    if topic is None or not 0 <= one.partition_index < len(topic.partitions):
        return errors.UNKNOWN_TOPIC_OR_PARTITION
    if len((one.committed_metadata or "").encode()) > broker.config.offset_metadata_max_bytes:
        return errors.OFFSET_METADATA_TOO_LARGE
    return errors.NONE


def _entry(topic: TopicInfo, one: OffsetCommitRequestPartition) -> Committed:
    meta = OffsetMeta(max(one.committed_leader_epoch, -1), one.committed_metadata or "")
    return Committed(topic.name, topic.topic_id, one.partition_index, one.committed_offset, meta)


def _answer(body: OffsetCommitRequest, refused: Mapping[tuple[str, int], int], code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=refused.get((topic.name, one.partition_index), code),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in body.topics
        )
    )
