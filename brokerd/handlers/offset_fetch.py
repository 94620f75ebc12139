"""OffsetFetch: what groups have committed, of some partitions or of all; -1 where there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.committed import Found
from brokerd.groups.offset_store import Stored
from brokerd.handlers.settling import gathered, settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.OFFSET_FETCH
VERSIONS = (1, 9)

_SEVERAL_FROM = 8
_GROUP_ERROR_FROM = 2

Asked = Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


def handle(broker: Broker, request: Request) -> OffsetFetchResponse | Deferred[OffsetFetchResponse]:
    """Each group has a result of its own. There are no transactions, so every offset is stable."""
    body: OffsetFetchRequest = request.body
    version = request.header.api_version
    if version >= _SEVERAL_FROM:
        pieces: list[OffsetFetchResponseGroup | Deferred[OffsetFetchResponseGroup]] = [
            _group(broker, one.group_id, one.topics) for one in body.groups
        ]
        return gathered(pieces, lambda groups: OffsetFetchResponse(groups=tuple(groups)))

    def build(groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return _old(groups[0], body.topics, version)

    return gathered([_group(broker, body.group_id, body.topics)], build)


def _group(broker: Broker, group_id: str, topics: Asked) -> Deferred[OffsetFetchResponseGroup]:
    wanted: dict[str, list[int]] | None = None
    if topics is not None:
        wanted = {}
        for topic in topics:
            wanted.setdefault(topic.name, []).extend(topic.partition_indexes)
    return settled(
        broker.groups.committed.fetch(group_id, wanted),
        lambda found: _found(group_id, wanted, found),
        lambda problem: OffsetFetchResponseGroup(group_id=group_id, topics=(), error_code=problem.code),
    )


def _found(group_id: str, wanted: Mapping[str, Sequence[int]] | None, found: Found) -> OffsetFetchResponseGroup:
    topics = []
    for name in found if wanted is None else wanted:
        stored = found.get(name, {})
        indexes = sorted(stored) if wanted is None else wanted[name]
        if indexes or wanted is not None:
            partitions = tuple(_partition(index, stored.get(index)) for index in indexes)
            topics.append(OffsetFetchResponseTopics(name=name, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group_id, topics=tuple(topics), error_code=errors.NONE)


def _partition(index: int, stored: Stored | None, code: int = errors.NONE) -> OffsetFetchResponsePartitions:
    if stored is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.meta.leader_epoch,
        metadata=stored.meta.metadata,
        error_code=errors.NONE,
    )


def _old(group: OffsetFetchResponseGroup, asked: Asked, version: int) -> OffsetFetchResponse:
    """The answer of versions with one group; the first has room for errors only in partitions."""
    topics = group.topics
    if group.error_code != errors.NONE and version < _GROUP_ERROR_FROM:
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(_partition(index, None, group.error_code) for index in topic.partition_indexes),
            )
            for topic in asked or ()
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name, partitions=tuple(OffsetFetchResponsePartition(*one) for one in topic.partitions)
            )
            for topic in topics
        ),
    )
