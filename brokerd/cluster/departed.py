"""Replicas on this broker's disks that are assigned to other brokers: deleted, but only when that is certain (A27).

Certain is: the topic node was read after a sync, it is the same topic (by its id), the partition is there without this
broker, and 60 s later all of that is still so. A view may be old, and a reassignment may be taken back; an hour of
copying is a high price for a minute of disk space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from brokerd.cluster.asynchronous import spawn
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.nodes import BadNode, TopicAssignment
from zk_schema.operations import CoordinationError, NoNode

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from zk_schema.session import Session

log = Logger()

KEPT_SECONDS = 60.0
"""How long a replica that is no longer assigned stays on the disk."""
LOOK_SECONDS = 10.0

Replica = tuple[TopicPartition, bytes]
"""A partition and its topic's id."""


def is_without(assignment: TopicAssignment | None, replica: Replica, broker_id: int) -> bool:
    """Whether this is the replica's topic, with its partition, and the broker is none of the partition's replicas."""
    tp, topic_id = replica
    return (
        assignment is not None
        and assignment.topic_id == topic_id
        and tp.partition in assignment.partitions
        and broker_id not in assignment.partitions[tp.partition]
    )


class Departures:
    """The rule: since when a replica was read to be assigned elsewhere. Pure."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._since: dict[Replica, float] = {}

    def due(self, candidates: Iterable[Replica], now: float) -> list[Replica]:
        """Those that are to be read: never read yet, or read long enough ago. What is no candidate is forgotten, and
        begins anew should it become one again.
        """
        there = list(candidates)
        self._since = {one: self._since[one] for one in there if one in self._since}
        return [one for one in there if one not in self._since or now - self._since[one] >= KEPT_SECONDS]

    def read(self, replica: Replica, assignment: TopicAssignment | None, now: float) -> bool:
        """The topic node was read after a sync (None: it is not there, or not readable). Whether to delete."""
        if not is_without(assignment, replica, self._broker_id):
            self._since.pop(replica, None)
            return False
        return now - self._since.setdefault(replica, now) >= KEPT_SECONDS


class Departed:
    """Looks every few seconds. `forget` has the broker serve the partition no more, before its log goes."""

    def __init__(
        self,
        reactor: Any,
        broker: Broker,
        session: Session,
        *,
        registered: Callable[[], bool],
        forget: Callable[[TopicPartition], None],
    ) -> None:
        self._reactor = reactor
        self._broker = broker
        self._session = session
        self._registered = registered
        self._forget = forget
        self._rule = Departures(broker.config.broker_id)
        self._timer: Any = None

    def start(self) -> None:
        """Begins to look."""
        self._timer = self._reactor.callLater(LOOK_SECONDS, self._look)

    def stop(self) -> None:
        """Deletes nothing more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _look(self) -> None:
        work = spawn(self._delete()).addErrback(lambda failure: log.failure("left replicas were not deleted", failure))
        work.addBoth(self._again)

    def _again(self, _: object) -> None:
        if self._timer is not None:
            self._timer = self._reactor.callLater(LOOK_SECONDS, self._look)

    def _candidates(self) -> list[Replica]:
        """By what is known; that alone deletes nothing."""
        me, topics = self._broker.config.broker_id, self._broker.view.topics
        found = []
        for tp, one in self._broker.logs.logs.items():
            topic = topics.get(tp.topic)
            if topic is None or topic.topic_id != one.topic_id or tp.partition >= len(topic.partitions):
                continue
            if me not in topic.partitions[tp.partition].replicas:
                found.append((tp, one.topic_id))
        return found

    async def _delete(self) -> None:
        due = self._rule.due(self._candidates(), self._reactor.seconds())
        if not due or not self._registered():
            return
        try:
            await self._session.sync()
            read = {name: await self._read(name) for name in dict.fromkeys(tp.topic for tp, _ in due)}
        except CoordinationError as problem:
            log.debug("left replicas are looked at later: {problem}", problem=problem)
            return
        for replica in due:
            if not self._rule.read(replica, read[replica[0].topic], self._reactor.seconds()):
                continue
            if replica in self._candidates() and self._registered():
                log.info("the replica of {tp} is deleted: its partition has moved to other brokers", tp=replica[0])
                self._forget(replica[0])
                self._broker.logs.delete(replica[0])

    async def _read(self, name: str) -> TopicAssignment | None:
        try:
            data, _ = await self._session.get(paths.topic(name))
            return TopicAssignment.decode(name, data)
        except (NoNode, BadNode):
            return None
