"""Committed offsets in ZooKeeper (K6).

One multi is in flight; what is committed meanwhile goes with the next one. So an idle coordinator adds no delay, and
many clients that commit each record cost ZooKeeper one write per round trip. A commit is answered when it is applied.
If ZooKeeper refuses a multi of several commits they are tried one by one, so that one odd group cannot fail the others.
Reading asks ZooKeeper every time: it is the truth, and tools may have written to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from brokerd.cluster.asynchronous import spawn
from brokerd.groups.answers import none_if_missing, together
from brokerd.groups.offset_nodes import Committed, GroupOffsets, TopicNodes
from kafka_wire import errors
from zk_schema import paths
from zk_schema.group_nodes import OffsetMeta, decode_offset, decode_topic_id
from zk_schema.nodes import BadNode
from zk_schema.operations import (
    MAX_MULTI_BYTES,
    MAX_MULTI_OPERATIONS,
    CoordinationError,
    Delete,
    NodeError,
    NoNode,
    Operation,
    chunks,
    size,
)

if TYPE_CHECKING:
    from brokerd.groups.slots import Slot, Slots
    from zk_schema.session import Session

log = Logger()

MAX_TRIES = 3
_ROOM_BYTES = MAX_MULTI_BYTES // 2
_ROOM_OPERATIONS = MAX_MULTI_OPERATIONS // 2


@attrs.frozen
class Stored:
    """A committed offset as it was found; `time_ms` is when it was committed."""

    offset: int
    meta: OffsetMeta
    time_ms: int


@attrs.define(eq=False)
class _Commit:
    slot: Slot
    group_id: str
    entries: Sequence[Committed]
    done: Deferred[None]


class OffsetStore:
    """The offsets of all groups that are coordinated here."""

    def __init__(self, session: Session, slots: Slots) -> None:
        self._session = session
        self._slots = slots
        self._known: dict[str, GroupOffsets] = {}
        self._queue: list[_Commit] = []
        self._running = False

    def forget(self, group_id: str) -> None:
        """What was known of a group may be wrong. A commit that is under way goes on with what it knew."""
        self._known.pop(group_id, None)

    # ---- committing

    def commit(self, slot: Slot, group_id: str, entries: Sequence[Committed]) -> Deferred[None]:
        """Fires when all of it is in ZooKeeper. NotCoordinator; CoordinatorNotAvailable if ZooKeeper is away: it may or
        may not have been applied, and may be sent again.
        """
        made = _Commit(slot, group_id, entries, Deferred())
        self._queue.append(made)
        if not self._running:
            self._running = True
            spawn(self._run()).addErrback(self._broken)
        return made.done

    async def _run(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._apply(batch)
        finally:
            self._running = False

    def _broken(self, failure: Any) -> None:
        log.failure("committing offsets failed unforeseen", failure)
        waiting, self._queue = self._queue, []
        for one in waiting:
            one.done.errback(errors.CoordinatorNotAvailable("committing offsets failed"))

    async def _apply(self, batch: list[_Commit]) -> None:
        """All together; one by one if that is refused."""
        if not self._session.connected:
            self._fail(batch, errors.CoordinatorNotAvailable("there is no connection to ZooKeeper"))
            return
        try:
            await self._write(batch)
        except NodeError:
            for one in batch:
                await self._apply_alone(one)
        except errors.NotCoordinator:
            for one in batch:
                await self._apply_alone(one)
        except Exception as problem:
            self._fail(batch, _as_kafka_error(problem))
        else:
            for one in batch:
                one.done.callback(None)

    async def _apply_alone(self, one: _Commit) -> None:
        problem: Exception = errors.CoordinatorNotAvailable("the offsets of the group change too often")
        for _ in range(MAX_TRIES):
            try:
                await self._write([one])
                one.done.callback(None)
                return
            except NodeError as refused:
                log.info("offsets of group {group} are read again: {why}", group=one.group_id, why=refused)
            except Exception as other:
                problem = other
                break
        self._fail([one], _as_kafka_error(problem))

    def _fail(self, batch: Iterable[_Commit], problem: errors.KafkaError) -> None:
        for one in batch:
            self.forget(one.group_id)
            one.done.errback(problem)

    async def _write(self, batch: Sequence[_Commit]) -> None:
        """Raises what the multi raised; then nothing is known of the groups any more."""
        try:
            known = await self._learn(batch)
            for slots, operations in _multis(batch, known):
                await self._slots.multi(slots, operations)
        except BaseException:
            for one in batch:
                self.forget(one.group_id)
            raise

    async def _learn(self, batch: Sequence[_Commit]) -> dict[str, GroupOffsets]:
        """What is known of the groups; reads which nodes there are, for topics that are committed for the first time.
        A group that is forgotten meanwhile is known for this batch and no longer.
        """
        known = {one.group_id: self._known[one.group_id] for one in batch if one.group_id in self._known}
        new = list(dict.fromkeys(one.group_id for one in batch if one.group_id not in known))
        for found in await together([spawn(self._learn_group(group)) for group in new]):
            self._known[found.group_id] = known[found.group_id] = found
        asked = {(one.group_id, entry.topic): None for one in batch for entry in one.entries}
        await together(
            [spawn(self._learn_topic(known[group], name)) for group, name in asked if name not in known[group].topics]
        )
        return known

    async def _learn_group(self, group_id: str) -> GroupOffsets:
        root = paths.group(group_id)
        parents = [root, root + "/offsets", root + "/offset_meta"]
        found = await together([self._session.exists(path) for path in parents])
        return GroupOffsets(group_id, {path for path, stat in zip(parents, found, strict=True) if stat is not None})

    async def _learn_topic(self, known: GroupOffsets, topic: str) -> None:
        path = paths.group_offsets(known.group_id, topic)
        meta_path = f"{paths.group(known.group_id)}/offset_meta/{topic}"
        asked: list[Deferred[Any]] = [
            self._session.get(path).addErrback(none_if_missing),
            self._session.children(path).addErrback(none_if_missing),
            self._session.children(meta_path).addErrback(none_if_missing),
        ]
        node, offsets, metas = await together(asked)
        known.topics[topic] = TopicNodes(
            exists=node is not None,
            topic_id=None if node is None else decode_topic_id(node[0]),
            offsets=dict.fromkeys(_numbers(offsets), None),
            metas=dict.fromkeys(_numbers(metas), None),
            has_metas=metas is not None,
        )

    # ---- reading

    async def topics(self, group_id: str) -> list[str]:
        """The topics that a group has offsets for."""
        try:
            return await self._session.children(paths.group(group_id) + "/offsets")
        except NoNode:
            return []

    async def fetch(
        self, group_id: str, topic: str, topic_id: bytes | None, wanted: Iterable[int] | None
    ) -> Mapping[int, Stored]:
        """What is committed for a topic with this id, for some or all (None) of its partitions. Offsets of a former
        topic of the same name are none (B10). CoordinationError; a node that cannot be read is logged and left out.
        """
        path, meta_path = paths.group_offsets(group_id, topic), f"{paths.group(group_id)}/offset_meta/{topic}"
        asked: list[Deferred[Any]] = [
            self._session.get(path).addErrback(none_if_missing),
            self._session.children(path).addErrback(none_if_missing),
            self._session.children(meta_path).addErrback(none_if_missing),
        ]
        node, children, metas = await together(asked)
        if node is None:
            return {}
        stored_id = decode_topic_id(node[0])
        if stored_id is not None and stored_id != topic_id:
            return {}
        there, with_meta = set(_numbers(children)), set(_numbers(metas))
        indexes = sorted(there) if wanted is None else [index for index in wanted if index in there]
        offsets = await together(
            [self._session.get(f"{path}/{index}").addErrback(none_if_missing) for index in indexes]
        )
        extra = [index for index in indexes if index in with_meta]
        texts = await together(
            [self._session.get(f"{meta_path}/{index}").addErrback(none_if_missing) for index in extra]
        )
        meta_of = {index: _meta(f"{meta_path}/{index}", found) for index, found in zip(extra, texts, strict=True)}
        found: dict[int, Stored] = {}
        for index, answer in zip(indexes, offsets, strict=True):
            offset = -1 if answer is None else _offset(f"{path}/{index}", answer[0])
            if offset >= 0:
                found[index] = Stored(offset, meta_of.get(index, OffsetMeta()), answer[1].mtime_ms)
        return found

    # ---- removing

    async def remove(self, slot: Slot, group_id: str, partitions: Mapping[str, Iterable[int]]) -> None:
        """Takes committed offsets away; what is not there is no error. NotCoordinator, CoordinationError."""
        for topic, indexes in partitions.items():
            path, meta_path = paths.group_offsets(group_id, topic), f"{paths.group(group_id)}/offset_meta/{topic}"
            asked = [self._session.children(one).addErrback(none_if_missing) for one in (path, meta_path)]
            offsets, metas = await together(asked)
            gone = set(indexes)
            operations: list[Operation] = [Delete(f"{path}/{index}") for index in _numbers(offsets) if index in gone]
            operations += [Delete(f"{meta_path}/{index}") for index in _numbers(metas) if index in gone]
            if operations and gone.issuperset(_numbers(offsets)):
                operations.append(Delete(path))
                operations += [Delete(meta_path)] if metas is not None and gone.issuperset(_numbers(metas)) else []
            try:
                for chunk in chunks(operations, [slot.fence]):
                    await self._slots.multi([slot], chunk)
            finally:
                self.forget(group_id)


def _multis(
    batch: Sequence[_Commit], known: Mapping[str, GroupOffsets]
) -> Iterable[tuple[list[Slot], list[Operation]]]:
    """The operations of all commits, cut to the size of a multi. A commit that changes nothing is still fenced."""
    slots: dict[Slot, None] = {}
    operations: list[Operation] = []
    used = 0
    for one in batch:
        slots[one.slot] = None
        for entry in one.entries:
            for operation in known[one.group_id].operations(entry):
                cost = size(operation)
                if operations and (used + cost > _ROOM_BYTES or len(operations) >= _ROOM_OPERATIONS):
                    yield list(slots), operations
                    slots, operations, used = {one.slot: None}, [], 0
                operations.append(operation)
                used += cost
    yield list(slots), operations


def _numbers(names: Iterable[str] | None) -> list[int]:
    """Partition numbers; other names are somebody else's."""
    return [int(name) for name in names or () if name.isascii() and name.isdigit()]


def _offset(path: str, data: bytes) -> int:
    try:
        return decode_offset(path, data)
    except BadNode as problem:
        log.error("a committed offset cannot be read and counts as none: {problem}", problem=problem)
        return -1


def _meta(path: str, found: tuple[bytes, Any] | None) -> OffsetMeta:
    try:
        return OffsetMeta() if found is None else OffsetMeta.decode(path, found[0])
    except BadNode as problem:
        log.error("what was committed with an offset cannot be read: {problem}", problem=problem)
        return OffsetMeta()


def _as_kafka_error(problem: Exception) -> errors.KafkaError:
    if isinstance(problem, errors.KafkaError):
        return problem
    if not isinstance(problem, CoordinationError):
        log.failure("committing offsets failed unforeseen")
    return errors.CoordinatorNotAvailable(f"the offsets could not be written: {problem}")
