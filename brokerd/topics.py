"""Topics made, grown, set and deleted through ZooKeeper, from any broker.

A broker writes what is wanted - a topic node, a tombstone, settings - in one multi that is fenced by its own
incarnation; the controller sees it and does the rest (A26, A28). So there is nothing to forward and nothing to roll
back. A call ends when its result is in this broker's view: a created topic has a leader for every partition, a
deleted one is gone and its name is free.

Every method returns a Deferred that fails with a `KafkaError`: RequestTimedOut where ZooKeeper or the controller did
not answer in time, and what else each method says.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from brokerd.cluster import decisions, placement
from brokerd.cluster.asynchronous import Signal, spawn, until
from brokerd.cluster.writing import PATIENCE_SECONDS, Again, Alteration, Writer
from kafka_wire import errors
from zk_schema import paths
from zk_schema.nodes import (
    BadNode,
    Change,
    ConfigChange,
    ProducerIdBlock,
    TopicAssignment,
    next_block,
    topic_config,
)
from zk_schema.operations import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    NodeExists,
    NoNode,
    Set,
)

if TYPE_CHECKING:
    from brokerd.cluster.cluster_state import KnownTopic
    from brokerd.cluster.learning import Learner
    from brokerd.cluster.life import Life
    from brokerd.metadata import TopicInfo
    from zk_schema.session import Session

log = Logger()


class Topics:
    """What handlers ask for. `settled(name)` says whether this broker plays its roles in a topic as the view has it;
    `published` makes a new view of what was learned.
    """

    def __init__(
        self,
        reactor: Any,
        session: Session,
        learner: Learner,
        life: Life,
        broker_id: int,
        *,
        changed: Signal,
        published: Callable[[], None],
        settled: Callable[[str], bool],
    ) -> None:
        self._reactor = reactor
        self._session = session
        self._learner = learner
        self._known = learner.known
        self._broker_id = broker_id
        self._changed = changed
        self._publish = published
        self._settled = settled
        self.writer = Writer(reactor, session, life, broker_id, changed=changed)
        self._ids: range = range(0)
        self._ids_wanted: list[Deferred[int]] = []

    # ---- what handlers call

    def create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        assignment: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
    ) -> Deferred[TopicInfo]:
        """A new topic, when every partition has a leader. TopicAlreadyExists, InvalidReplicationFactor."""
        return spawn(self._create(name, partitions, replication_factor, assignment, dict(overrides)))

    def delete(self, name: str) -> Deferred[None]:
        """Fires when the topic is gone and its name is free. UnknownTopicOrPartition."""
        return spawn(self._delete(name))

    def add_partitions(
        self, name: str, total: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> Deferred[TopicInfo]:
        """The topic with `total` partitions; `assignment` has the replicas of the new ones. UnknownTopicOrPartition,
        InvalidPartitions if the topic has as many already.
        """
        return spawn(self._add_partitions(name, total, assignment))

    def alter_overrides(self, name: str, change: Alteration) -> Deferred[None]:
        """Changes a topic's settings; fires when this broker has taken them. UnknownTopicOrPartition, and what `change`
        raises.
        """
        return spawn(self._alter_overrides(name, change))

    def next_producer_id(self) -> Deferred[int]:
        """An id that no other producer of this cluster ever gets; CoordinatorNotAvailable without ZooKeeper."""
        wanted: Deferred[int] = Deferred()
        self._ids_wanted.append(wanted)
        if len(self._ids_wanted) == 1:
            spawn(self._give_ids()).addErrback(self._no_ids)
        return wanted

    # ---- creating

    async def _create(
        self,
        name: str,
        partitions: int,
        factor: int,
        by_hand: Mapping[int, Sequence[int]] | None,
        overrides: dict[str, str],
    ) -> TopicInfo:
        topic_id = _new_id()
        await self.writer.registered()
        await self._when_free(name)
        if by_hand is not None:
            replicas = {index: tuple(ids) for index, ids in by_hand.items()}
        else:
            replicas = self._placed(range(partitions), factor)
        topic = TopicAssignment(name, topic_id, replicas)
        config = topic_config(name, overrides)
        change = Change("topic", name, topic_id)

        async def write() -> None:
            # A node for settings may be left from a topic that a tool removed by hand; it is taken over.
            settings = await self.writer.replacing(config)
            try:
                await self._session.multi(
                    [
                        self.writer.fence(),
                        Create(topic.path, topic.encode()),
                        Create(paths.partitions(name)),
                        settings,
                        Create(change.prefix, change.encode(), sequence=True),
                    ]
                )
            except NodeExists as problem:
                await self._mine_or_exists(topic, problem)

        await self.writer.attempt(write)
        await self._learn(change)
        return await self._when_led(name, topic_id, len(replicas))

    async def _mine_or_exists(self, topic: TopicAssignment, problem: NodeExists) -> None:
        """The topic node exists: ours, if the reply to the first try was lost."""
        if problem.path != topic.path:
            raise problem
        try:
            data, _ = await self._session.get(topic.path)
            if TopicAssignment.decode(topic.name, data).topic_id == topic.topic_id:
                return
        except (NoNode, BadNode):
            pass
        raise errors.TopicAlreadyExists(f"Topic '{topic.name}' already exists.")

    async def _when_free(self, name: str) -> None:
        """A name whose topic is just being deleted is waited for."""

        def free() -> bool:
            topic = self._known.topics.get(name)
            return topic is None or not self._known.is_dead(topic)

        if not await until(self._reactor, self._changed, free, PATIENCE_SECONDS):
            raise errors.TopicAlreadyExists(f"Topic '{name}' is still being deleted.")
        if name in self._known.topics or name in self._known.frozen:
            raise errors.TopicAlreadyExists(f"Topic '{name}' already exists.")

    def _placed(self, indexes: Sequence[int], factor: int) -> dict[int, tuple[int, ...]]:
        known = self._known
        brokers = {
            number: one.registration.rack for number, one in known.brokers.items() if not known.is_draining(number)
        }
        if factor > len(brokers):
            raise errors.InvalidReplicationFactor(
                f"Replication factor: {factor} larger than available brokers: {len(brokers)}."
            )
        placed_before = sum(len(topic.assignment.partitions) for topic in known.topics.values())
        return placement.place(brokers, indexes, factor, placed_before)

    async def _when_led(self, name: str, topic_id: bytes, partitions: int) -> TopicInfo:
        """The topic as soon as all its partitions have leaders, and this broker leads those it has to."""

        def led() -> TopicInfo | None:
            topic = self._known.topics.get(name)
            if topic_id in self._known.tombstones:
                raise errors.UnknownTopicOrPartition(f"Topic '{name}' was deleted meanwhile.")
            if topic is None or topic.topic_id != topic_id or len(topic.states) < partitions:
                return None
            if not self._settled(name):
                return None
            info = topic.info()
            return info if all(one.leader >= 0 for one in info.partitions) else None

        found = await until(self._reactor, self._changed, led, PATIENCE_SECONDS)
        if found is None:
            raise errors.RequestTimedOut(f"Topic '{name}' is there, but not all of its partitions have a leader yet.")
        return found

    # ---- growing

    async def _add_partitions(
        self, name: str, total: int, by_hand: Sequence[Sequence[int]] | None
    ) -> TopicInfo:
        await self.writer.registered()
        topic = self._known_topic(name)
        topic_id = topic.topic_id
        new: dict[int, tuple[int, ...]] = {}

        async def write() -> None:
            nonlocal new
            if new and self._has_grown(name, topic_id, new):
                return  # the answer to the last try was lost
            now = self._known_topic(name)
            have = len(now.assignment.partitions)
            if have >= total:
                raise errors.InvalidPartitions(f"Topic '{name}' has {have} partition(s) already.")
            factor = len(now.assignment.partitions[0]) if 0 in now.assignment.partitions else 1
            if by_hand is not None:
                if len(by_hand) != total - have:
                    raise errors.InvalidReplicaAssignment(
                        f"Topic '{name}' has got partitions meanwhile; the assignment does not fit."
                    )
                new = {have + place: tuple(ids) for place, ids in enumerate(by_hand)}
            else:
                new = self._placed(range(have, total), factor)
            grown = attrs.evolve(now.assignment, partitions={**now.assignment.partitions, **new})
            change = Change("topic", name, topic_id)
            try:
                await self._session.multi(
                    [
                        self.writer.fence(),
                        Set(grown.path, grown.encode(), now.version),
                        Create(change.prefix, change.encode(), sequence=True),
                    ]
                )
            except (BadVersion, NoNode) as problem:
                await self._learner.read_topic(name)
                self._publish()
                raise Again from problem
            await self._learn(change)

        await self.writer.attempt(write)
        return await self._when_led(name, topic_id, total)

    def _has_grown(self, name: str, topic_id: bytes, new: Mapping[int, tuple[int, ...]]) -> bool:
        """Whether our own multi was applied though its answer was lost."""
        topic = self._known.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            return False
        return all(topic.assignment.partitions.get(index) == replicas for index, replicas in new.items())

    # ---- settings

    async def _alter_overrides(self, name: str, change: Alteration) -> None:
        await self.writer.registered()
        notice = ConfigChange(f"topics/{name}")

        async def write() -> dict[str, str]:
            topic = self._known_topic(name)
            wanted, settings = await self.writer.altering(paths.topic_config(name), change)
            if settings is None:
                return wanted
            try:
                await self._session.multi(
                    [
                        self.writer.fence(),
                        Check(topic.assignment.path, topic.version),
                        settings,
                        Create(notice.prefix, notice.encode(), sequence=True),
                    ]
                )
            except (BadVersion, NodeExists, NoNode) as problem:
                await self._learner.read_topic(name)
                raise Again from problem
            return wanted

        self._known.set_overrides(name, await self.writer.attempt(write))
        self._publish()

        def settled() -> bool:
            return self._settled(name)

        await until(self._reactor, self._changed, settled, PATIENCE_SECONDS)

    # ---- deleting

    async def _delete(self, name: str) -> None:
        await self.writer.registered()
        topic_id = self._known_topic(name).topic_id

        async def write() -> None:
            topic = self._known.topics.get(name)
            if topic is None or topic.topic_id != topic_id or self._known.is_dead(topic):
                return
            multi = decisions.bury(topic, (self.writer.fence(),), int(time.time() * 1000))
            try:
                await self._session.multi(multi.all())
            except NodeExists:
                self._known.bury(topic_id)
                return
            except (BadVersion, NoNode) as problem:
                await self._learner.read_topic(name)
                raise Again from problem
            for change in multi.changes:
                await self._learn(change)

        await self.writer.attempt(write)
        self._publish()

        def gone() -> bool:
            topic = self._known.topics.get(name)
            return topic is None or topic.topic_id != topic_id

        if not await until(self._reactor, self._changed, gone, PATIENCE_SECONDS):
            raise errors.RequestTimedOut(f"Topic '{name}' is marked for deletion, its nodes are not gone yet.")

    # ---- producer ids

    async def _give_ids(self) -> None:
        while self._ids_wanted:
            if not self._ids:
                await self.writer.registered()
                block = await self.writer.attempt(self._take_block)
                self._ids = range(block.start, block.end + 1)
            given, self._ids = self._ids[0], self._ids[1:]
            self._ids_wanted.pop(0).callback(given)

    def _no_ids(self, failure: Any) -> None:
        log.warn("no producer ids: {problem}", problem=failure.getErrorMessage())
        wanted, self._ids_wanted = self._ids_wanted, []
        for one in wanted:
            one.errback(errors.CoordinatorNotAvailable("there are no producer ids just now"))

    async def _take_block(self) -> ProducerIdBlock:
        """R40: the next block by version. A reply that was lost costs a block of ids and nothing else."""
        try:
            data, stat = await self._session.get(paths.PRODUCER_ID_BLOCK)
            block = next_block(ProducerIdBlock.decode(data), self._broker_id)
            await self._session.multi([self.writer.fence(), Set(block.path, block.encode(), stat.version)])
        except NoNode:
            block = next_block(None, self._broker_id)
            try:
                await self._session.multi([self.writer.fence(), Create(block.path, block.encode())])
            except NodeExists as problem:
                raise Again from problem
        except BadVersion as problem:
            raise Again from problem
        return block

    # ---- common

    async def _learn(self, change: Change) -> None:
        """Takes what was just written without waiting for its notification; that comes too, should this fail."""
        with contextlib.suppress(CoordinationError):
            await self._learner.apply(change)
        self._publish()

    def _known_topic(self, name: str) -> KnownTopic:
        topic = self._known.topics.get(name)
        if topic is None or self._known.is_dead(topic):
            raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")
        return topic


def _new_id() -> bytes:
    """A random topic id: not one of the reserved ones, and without a leading dash, which tools take for an option."""
    while True:
        made = os.urandom(16)
        if made[0] >> 2 != 62 and made[:15] != bytes(15):
            return made
