"""What one group has committed, as far as it is known, and the operations that make it so. Pure.

A commit changes up to two nodes of a partition: the offset as text, and beside it, where there is more to say, the
leader epoch and the client's own text. Whether a node is created or set depends on what is there; so the knowledge of
it is kept, is brought up to date by the very operations that are made from it, and is thrown away whenever ZooKeeper
refused or did not answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from zk_schema import paths
from zk_schema.group_nodes import OffsetMeta, encode_offset, encode_topic_id
from zk_schema.operations import ANY_VERSION, Create, Delete, Operation, Set


@attrs.frozen
class Committed:
    """One partition's commit. `topic_id` is the topic's id now."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    meta: OffsetMeta = attrs.field(factory=OffsetMeta)


@attrs.define(eq=False)
class TopicNodes:
    """The nodes of one topic; the values are None where a node is there and its data was not read."""

    exists: bool
    topic_id: bytes | None
    offsets: dict[int, int | None]
    metas: dict[int, OffsetMeta | None]
    has_metas: bool


@attrs.define(eq=False)
class GroupOffsets:
    """What is known of one group. `parents` are nodes above the topics that are surely there."""

    group_id: str
    parents: set[str] = attrs.field(factory=set)
    topics: dict[str, TopicNodes] = attrs.field(factory=dict)

    def operations(self, commit: Committed) -> Iterator[Operation]:
        """What has to be done for a commit, in this order; nothing if it changes nothing. The knowledge is then that of
        the time after it.
        """
        nodes = self.topics[commit.topic]
        yield from self._topic(nodes, commit)
        index, path = commit.partition, paths.group_offset(self.group_id, commit.topic, commit.partition)
        if index not in nodes.offsets:
            yield Create(path, encode_offset(commit.offset))
        elif nodes.offsets[index] != commit.offset:
            yield Set(path, encode_offset(commit.offset), ANY_VERSION)
        nodes.offsets[index] = commit.offset
        yield from self._meta(nodes, commit)

    def _topic(self, nodes: TopicNodes, commit: Committed) -> Iterator[Operation]:
        """The parents, and B10: offsets of a former topic of this name go."""
        group, topic, path = self.group_id, commit.topic, paths.group_offsets(self.group_id, commit.topic)
        if not nodes.exists:
            yield from self._parents(paths.group(group), paths.group(group) + "/offsets")
            yield Create(path, encode_topic_id(commit.topic_id))
        elif nodes.topic_id != commit.topic_id:
            if nodes.topic_id is not None:  # before the new id is there: what is left must not count as the new topic's
                for index in nodes.offsets:
                    yield Delete(paths.group_offset(group, topic, index))
                for index in nodes.metas:
                    yield Delete(paths.group_offset_meta(group, topic, index))
                nodes.offsets, nodes.metas = {}, {}
            yield Set(path, encode_topic_id(commit.topic_id), ANY_VERSION)
        nodes.exists, nodes.topic_id = True, commit.topic_id

    def _meta(self, nodes: TopicNodes, commit: Committed) -> Iterator[Operation]:
        index, path = commit.partition, paths.group_offset_meta(self.group_id, commit.topic, commit.partition)
        if commit.meta.empty:
            if index in nodes.metas:
                del nodes.metas[index]
                yield Delete(path)
            return
        if index not in nodes.metas:
            if not nodes.has_metas:
                parent = paths.group(self.group_id) + "/offset_meta"
                yield from self._parents(paths.group(self.group_id), parent)
                yield Create(f"{parent}/{commit.topic}")
                nodes.has_metas = True
            yield Create(path, commit.meta.encode())
        elif nodes.metas[index] != commit.meta:
            yield Set(path, commit.meta.encode(), ANY_VERSION)
        nodes.metas[index] = commit.meta

    def _parents(self, *needed: str) -> Iterator[Operation]:
        for path in needed:
            if path not in self.parents:
                self.parents.add(path)
                yield Create(path)
