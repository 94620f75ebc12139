"""The offset registry: what a group has read of each partition (B10, B11, B14-B16).

Which nodes are there is remembered, so that a commit is one multi of sets and creates; when ZooKeeper says otherwise
the memory is mended and the multi made again. Only ever called under the lock of `Ownership`, one write at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from consumer_group.asynchronous import each
from consumer_group.group_session import GroupSession, Life
from consumer_group.types import OffsetAndMetadata
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.group_nodes import OffsetMeta, decode_offset, decode_topic_id, encode_offset, encode_topic_id
from zk_schema.operations import (
    ANY_VERSION,
    BadVersion,
    Create,
    Delete,
    NodeError,
    NodeExists,
    NoNode,
    Operation,
    Set,
    chunks,
)

_READS_AT_ONCE = 50


class OffsetRegistry:
    """The offsets of one group as one of its members reads and writes them."""

    def __init__(self, session: GroupSession, group_id: str) -> None:
        self._session = session
        self._group = group_id
        self._nodes: set[str] = set()
        """Paths below offsets/T and offset_meta/T that are there, as far as we know."""

    def forget(self) -> None:
        """Nothing is known any more (a new session)."""
        self._nodes.clear()

    async def read(
        self, life: Life, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, bytes]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed for partitions of the topics of these ids; nothing for those without. ConnectionLost."""
        wanted = sorted(partitions)
        for topic in sorted({partition.topic for partition in wanted}):
            await self._check_topic(life, topic, topic_ids[topic])
        found: dict[TopicPartition, OffsetAndMetadata] = {}

        async def read_one(partition: TopicPartition) -> None:
            stored = await self._read_one(partition)
            if stored is not None:
                found[partition] = stored

        await each(wanted, read_one, _READS_AT_ONCE)
        return found

    async def _read_one(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        topic, index = partition
        path = paths.group_offset(self._group, topic, index)
        data = await self._data(path)
        offset = -1 if data is None else decode_offset(path, data)
        if offset < 0:
            return None
        meta_path = paths.group_offset_meta(self._group, topic, index)
        data = await self._data(meta_path)
        meta = OffsetMeta() if data is None else OffsetMeta.decode(meta_path, data)
        return OffsetAndMetadata(offset, meta.metadata, meta.leader_epoch)

    async def _data(self, path: str) -> bytes | None:
        try:
            data, _ = await self._session.zookeeper.get(path)
        except NoNode:
            self._nodes.discard(path)
            return None
        self._nodes.add(path)
        return bytes(data)

    def operations(self, partition: TopicPartition, commit: OffsetAndMetadata) -> list[Operation]:
        """What makes a commit so, by what is known of the nodes."""
        topic, index = partition
        found = [self._write(paths.group_offset(self._group, topic, index), encode_offset(commit.offset))]
        meta_path = paths.group_offset_meta(self._group, topic, index)
        meta = OffsetMeta(commit.leader_epoch, commit.metadata)
        if not meta.empty:
            found.append(self._write(meta_path, meta.encode()))
        elif meta_path in self._nodes:
            found.append(Delete(meta_path))
        return found

    def written(self, operations: list[Operation]) -> None:
        """A multi with these was applied."""
        for operation in operations:
            if isinstance(operation, Create):
                self._nodes.add(operation.path)
            elif isinstance(operation, Delete):
                self._nodes.discard(operation.path)

    async def mend(self, problem: NodeError, topic_ids: dict[str, bytes]) -> None:
        """After a multi failed on a node of the registry: learn what is there, make the parents that are missing."""
        if isinstance(problem, NodeExists):
            self._nodes.add(problem.path)
        elif isinstance(problem, NoNode):
            self._nodes.discard(problem.path)
            if isinstance(problem.operation, Create):
                await self._parents(topic_ids)

    async def _parents(self, topic_ids: dict[str, bytes]) -> None:
        root = paths.group(self._group)
        await self._session.ensure((root, b""), (f"{root}/offsets", b""), (f"{root}/offset_meta", b""))
        for topic, topic_id in topic_ids.items():
            await self._session.ensure(
                (paths.group_offsets(self._group, topic), encode_topic_id(topic_id)),
                (f"{root}/offset_meta/{topic}", b""),
            )

    def _write(self, path: str, data: bytes) -> Operation:
        return Set(path, data, ANY_VERSION) if path in self._nodes else Create(path, data)

    async def _check_topic(self, life: Life, topic: str, topic_id: bytes) -> None:
        """B10: the offsets below offsets/T are those of the topic with our id, or they go."""
        zookeeper, path = self._session.zookeeper, paths.group_offsets(self._group, topic)
        while True:
            try:
                data, stat = await zookeeper.get(path)
            except NoNode:
                await self._parents({topic: topic_id})
                continue
            found = decode_topic_id(data)
            if found == topic_id:
                return
            try:
                if found is not None:
                    await self._delete_children(life, topic)
                await zookeeper.multi([*life.fence, Set(path, encode_topic_id(topic_id), stat.version)])
            except (BadVersion, NoNode) as problem:  # another member of the group was faster: look again
                if isinstance(problem, NoNode) and life.is_fence(problem):
                    raise

    async def _delete_children(self, life: Life, topic: str) -> None:
        """Before the new id is there: what is left must not count as the new topic's."""
        for parent in (paths.group_offsets(self._group, topic), f"{paths.group(self._group)}/offset_meta/{topic}"):
            try:
                names = await self._session.zookeeper.children(parent)
            except NoNode:
                continue
            gone = [Delete(f"{parent}/{name}") for name in names]
            self._nodes.difference_update(operation.path for operation in gone)
            for part in chunks(gone, life.fence):
                await self._session.zookeeper.multi([*life.fence, *part])


async def read_committed(zookeeper: Any, group_id: str, partition: TopicPartition) -> OffsetAndMetadata | None:
    """What a group has committed, for whoever asks; None for nothing."""
    topic, index = partition
    path, meta_path = paths.group_offset(group_id, topic, index), paths.group_offset_meta(group_id, topic, index)
    try:
        offset = decode_offset(path, (await zookeeper.get(path))[0])
    except NoNode:
        return None
    try:
        meta = OffsetMeta.decode(meta_path, (await zookeeper.get(meta_path))[0])
    except NoNode:
        meta = OffsetMeta()
    return OffsetAndMetadata(offset, meta.metadata, meta.leader_epoch) if offset >= 0 else None
