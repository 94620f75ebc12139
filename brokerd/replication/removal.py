"""Deletes the logs of partitions that were moved to other brokers (A27): late, and only after asking twice.

A log goes if ZooKeeper said, after a sync, that its topic (the same id) is assigned without this broker, and says so
again a minute later. What cannot be read, is not known, or is another topic under the same name is left alone (A29).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from brokerd.cluster.asynchronous import spawn
from zk_schema import paths
from zk_schema.nodes import BadNode, TopicAssignment
from zk_schema.operations import CoordinationError, NoNode

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.storage.partition_log import PartitionLog
    from kafka_wire.ids import TopicPartition
    from zk_schema.session import Session

log = Logger()

LOOK_SECONDS = 10.0
WAIT_SECONDS = 60.0


class Removal:
    """`registered` says whether this broker is part of the cluster; `forget` ends a partition's role."""

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
        self._since: dict[tuple[TopicPartition, bytes], float] = {}
        """When ZooKeeper first said so, by partition and topic id."""
        self._looking = False
        self._loop = LoopingCall(self.look)
        self._loop.clock = reactor

    def start(self) -> None:
        """Begins to look, now and then."""
        self._loop.start(LOOK_SECONDS, now=False)

    def stop(self) -> None:
        """Ends."""
        if self._loop.running:
            self._loop.stop()

    def look(self) -> None:
        """Looks once."""
        found = self._candidates()
        self._since = {key: since for key, since in self._since.items() if key in found}
        if found and self._registered() and not self._looking:
            self._looking = True
            spawn(self._ask(found)).addBoth(self._looked)

    def _looked(self, result: Any) -> None:
        self._looking = False
        if result is not None:
            log.failure("moved replicas could not be looked at", result)

    def _candidates(self) -> dict[tuple[TopicPartition, bytes], PartitionLog]:
        """Logs of known topics that are not assigned to us, as far as we know."""
        me, view, found = self._broker.config.broker_id, self._broker.view, {}
        for tp, one in self._broker.logs.logs.items():
            topic = view.topics.get(tp.topic)
            if topic is None or one.topic_id is None or topic.topic_id != one.topic_id:
                continue
            if tp.partition < len(topic.partitions) and me not in topic.partitions[tp.partition].replicas:
                found[tp, one.topic_id] = one
        return found

    async def _ask(self, candidates: dict[tuple[TopicPartition, bytes], PartitionLog]) -> None:
        try:
            await self._session.sync()
            for name in {tp.topic for tp, _ in candidates}:
                data, _ = await self._session.get(paths.topic(name))
                assignment = TopicAssignment.decode(name, data)
                for (tp, topic_id), one in candidates.items():
                    if tp.topic == name:
                        self._judge(tp, topic_id, one, assignment)
        except (NoNode, BadNode):
            return  # deleted just now, or not to be read: nothing follows from that
        except CoordinationError as problem:
            log.debug("{problem}", problem=problem)

    def _judge(self, tp: TopicPartition, topic_id: bytes, one: PartitionLog, assignment: TopicAssignment) -> None:
        replicas = assignment.partitions.get(tp.partition)
        key = tp, topic_id
        if assignment.topic_id != topic_id or replicas is None or self._broker.config.broker_id in replicas:
            self._since.pop(key, None)
            return
        now = self._reactor.seconds()
        if now - self._since.setdefault(key, now) < WAIT_SECONDS or self._broker.logs.logs.get(tp) is not one:
            return
        del self._since[key]
        log.info("{tp} was moved to brokers {replicas}; its log here is deleted", tp=tp, replicas=list(replicas))
        self._forget(tp)
        self._broker.logs.delete(tp)
