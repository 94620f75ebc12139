"""The offset registry: what a group has read of each partition (B10, B11, B14-B16).

Which nodes are there is remembered, so that a commit is one multi of sets and creates; when ZooKeeper says otherwise
the memory is mended and the multi made again. Only ever called under the lock of `Ownership`, one write at a time.
"""

from __future__ import annotations

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

    async def read(self, life: Life, partition: TopicPartition, topic_id: bytes) -> OffsetAndMetadata | None:
        """What is committed for a partition of the topic of this id; None for nothing. LifeOver, ConnectionLost."""
        await self._check_topic(life, partition.topic, topic_id)
        zookeeper, (topic, index) = self._session.zookeeper, partition
        path = paths.group_offset(self._group, topic, index)
        try:
            data, _ = await zookeeper.get(path)
        except NoNode:
            self._nodes.discard(path)
            return None
        self._nodes.add(path)
        offset = decode_offset(path, data)
        if offset < 0:
            return None
        meta_path = paths.group_offset_meta(self._group, topic, index)
        meta = OffsetMeta()
        try:
            data, _ = await zookeeper.get(meta_path)
        except NoNode:
            self._nodes.discard(meta_path)
        else:
            self._nodes.add(meta_path)
            meta = OffsetMeta.decode(meta_path, data)
        return OffsetAndMetadata(offset, meta.metadata, meta.leader_epoch)

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
