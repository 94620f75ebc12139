"""The broker as handlers see it: configuration, the view of the cluster, the partitions led here, and the end of
the turn.

It is put together by `app.py`; it holds no protocol and no file formats. One turn of the reactor: handlers
queue appends and register waiters; `end_turn` writes every dirty log once, lets the long polls look at what has grown,
and then the answers go out. Nothing here blocks but the write of what the turn queued.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger

from brokerd.fetch_sessions import FetchSessions
from brokerd.metadata import BrokerInfo, ClusterView, TopicInfo
from brokerd.reactor import Turns
from brokerd.replication.serving import ReplicaFetches
from brokerd.replication.surroundings import ALONE, Surroundings
from brokerd.topic_config import TopicConfig
from brokerd.waiting import Deadlines
from kafka_wire import errors
from kafka_wire.ids import TopicPartition

if TYPE_CHECKING:
    from brokerd.broker_settings import BrokerSettings
    from brokerd.config import BrokerConfig
    from brokerd.groups.groups import Groups
    from brokerd.metrics import Metrics
    from brokerd.moves import Moves
    from brokerd.partition import Partition
    from brokerd.storage.log_manager import LogManager
    from brokerd.topics import Topics
    from kafka_wire.schema.metadata import MetadataResponseTopic

log = Logger()


class Woken(Protocol):
    """A long poll whose partitions have grown."""

    def look(self) -> None:
        """Reads again what has grown, and answers if that is enough."""


class Broker:
    """What handlers may use. `request_flush` has a written partition flushed as its settings say."""

    def __init__(
        self,
        reactor: Any,
        config: BrokerConfig,
        logs: LogManager,
        metrics: Metrics,
        request_flush: Callable[[Partition], None],
        turns: Turns,
    ) -> None:
        self.reactor = reactor
        self.config = config
        self.logs: LogManager = logs
        self.metrics = metrics
        self.view: ClusterView = ClusterView(cluster_id="")
        self.partitions: dict[TopicPartition, Partition] = {}
        self.topics: Topics
        self.moves: Moves
        self.settings: BrokerSettings
        self.groups: Groups
        self.deadlines = Deadlines(reactor)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.surroundings: Surroundings = ALONE
        self.replica_fetches = ReplicaFetches(self)
        self.metadata_parts: dict[str, tuple[TopicInfo, Mapping[int, BrokerInfo], MetadataResponseTopic]] = {}
        self.request_flush = request_flush
        self._turns = turns
        self._dirty: dict[Partition, None] = {}
        self._woken: dict[Woken, None] = {}
        turns.addEndOfTurn(self.end_turn)

    def now_ms(self) -> int:
        """Wall clock in milliseconds (record timestamps, retention)."""
        return int(time.time() * 1000)

    def topic_config(self, name: str) -> TopicConfig:
        """Effective settings of a topic."""
        topic = self.view.topics.get(name)
        overrides: Mapping[str, str] = topic.overrides if topic is not None else {}
        return TopicConfig.of(self.config, overrides)

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, if this broker has it; otherwise the error that sends the client where it belongs."""
        found = self.partitions.get((topic, index))  # type: ignore[call-overload]  # equal to a TopicPartition
        if found is not None:
            return found  # type: ignore[no-any-return]
        known = self.view.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            raise errors.UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
        if TopicPartition(topic, index) in self.logs.offline:
            raise errors.KafkaStorageError(f"{topic}-{index} is offline on this broker; its log says why")
        me, replicas = self.config.broker_id, known.partitions[index].replicas
        how = "still being set up" if me in replicas else "not"
        raise errors.NotLeaderOrFollower(f"{topic}-{index} is {how} on broker {me}")

    def topic_name(self, topic_id: bytes) -> str:
        """Name of a topic id."""
        name = self.view.names.get(topic_id)
        if name is None:
            raise errors.UnknownTopicId("no topic has this id")
        return name

    # ---- the turn

    def mark_dirty(self, partition: Partition) -> None:
        """The partition's log has queued appends; the end of this turn writes them."""
        self._dirty[partition] = None
        self._turns.requestEndOfTurn()

    def wake(self, poll: Woken) -> None:
        """Has a long poll look at its partitions at the end of this turn, once, however many of them have grown."""
        self._woken[poll] = None
        self._turns.requestEndOfTurn()

    def end_turn(self) -> None:
        """Writes every dirty log once, has them flushed as their settings say, lets long polls look."""
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for partition in dirty:
                try:
                    partition.write()
                except Exception as problem:
                    log.error(
                        "append to {topic}-{index} failed: {problem}",
                        topic=partition.tp.topic,
                        index=partition.tp.partition,
                        problem=problem,
                    )
                    self.logs.append_failed(partition.log, problem)
                    continue
                self.request_flush(partition)
        if self._woken:
            woken, self._woken = self._woken, {}
            for poll in woken:
                poll.look()
