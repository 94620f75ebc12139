"""What this broker does for each partition that is assigned to it: the view of the cluster made true on its disk.

Works through a queue of topics in short slices, because a topic may have thousands of partitions and each needs files;
the reactor serves clients in between. Level-triggered: a topic is compared with what is there, whatever happened to it
since (A21, A29).

Nothing here waits for the disk. A slice makes files and stores epochs without a sync; a thread then syncs what several
slices made, and only after that the partitions are led (A11).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from brokerd.partition import Partition
from brokerd.storage.checkpoint import PARTITION_METADATA
from brokerd.storage.deferred_sync import make_durable, without_sync
from brokerd.storage.epochs import FILE_NAME as EPOCHS
from brokerd.storage.log_dir import LogDir
from brokerd.topic_config import TopicConfig
from kafka_wire.errors import KafkaError
from kafka_wire.ids import TopicPartition

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.cluster.cluster_state import ClusterState
    from brokerd.metadata import PartitionInfo, TopicInfo
    from brokerd.storage.partition_log import PartitionLog

log = Logger()

SLICE_SECONDS = 0.004


class Followers(Protocol):
    """Who fetches for the partitions that are led elsewhere: replication/replicas.py."""

    def follow(self, partition: Partition, info: PartitionInfo) -> None:
        """The partition follows the leader that the state names, if there is one."""

    def leave(self, partition: Partition) -> None:
        """It follows nobody any more."""

    def drop_all(self) -> None:
        """Nobody does: the session is lost."""


class Roles:
    """Keeps `broker.partitions` and the logs as the view wants them. `settled` is told when topics are done."""

    def __init__(
        self,
        reactor: Any,
        broker: Broker,
        known: ClusterState,
        *,
        registered: Callable[[], bool],
        settled: Callable[[], None],
        followers: Followers,
    ) -> None:
        self._reactor = reactor
        self._broker = broker
        self._known = known
        self._registered = registered
        self._tell = settled
        self._followers = followers
        self._me = broker.config.broker_id
        self._waiting: dict[str, None] = {}
        self._work: deque[tuple[str, Callable[[], None]]] = deque()
        self._busy = ""
        self._scheduled = False
        self._configs: dict[str, TopicConfig] = {}
        self._elected: dict[Partition, int] = {}
        """Partitions to lead, and at which epoch, as soon as that epoch is durable."""
        self._syncing: dict[Partition, int] = {}
        """Those whose files are being synced just now."""
        self._unled: Counter[str] = Counter()
        self._refused: dict[TopicPartition, str] = {}

    # ---- what others tell

    def look(self, names: Iterable[str]) -> None:
        """These topics are known anew."""
        self._waiting.update(dict.fromkeys(names))
        self._schedule()

    def look_at_all(self) -> None:
        """Everything: after registration, and what is on the disk and in no topic."""
        self.look(self._broker.view.topics)
        self.look(log.topic for log in self._broker.logs.logs.values())
        self.look(tp.topic for tp in self._broker.logs.offline)
        self._report_strays()

    def drop_all(self) -> None:
        """The session is lost: no role outlives it (A12)."""
        self._waiting.clear()
        self._work.clear()
        self._busy = ""
        self._elected.clear()
        self._syncing.clear()
        self._unled.clear()
        self._followers.drop_all()
        for partition in self._broker.partitions.values():
            if partition.is_leader:
                partition.resign()

    def forget(self, tp: TopicPartition) -> None:
        """The partition is no longer served here."""
        partition = self._broker.partitions.pop(tp, None)
        if partition is not None:
            self._followers.leave(partition)
            partition.resign()

    def settled(self, name: str) -> bool:
        """Whether nothing is left to do for this topic."""
        return name not in self._waiting and name != self._busy and not self._unled[name]

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return self._planned and not self._unled

    @property
    def _planned(self) -> bool:
        return not self._waiting and not self._work and not self._busy

    # ---- slices

    def _schedule(self) -> None:
        if not self._scheduled and not self._planned:
            self._scheduled = True
            self._reactor.callLater(0, self._slice)

    def _slice(self) -> None:
        self._scheduled = False
        end, done = self._reactor.seconds() + SLICE_SECONDS, False
        while self._reactor.seconds() < end:
            if self._work:
                self._do(*self._work.popleft())
            if not self._work:
                done, self._busy = done or bool(self._busy), ""
                if not self._waiting:
                    break
                self._busy = next(iter(self._waiting))
                del self._waiting[self._busy]
                self._work.extend((self._busy, work) for work in self._plan(self._busy))
        self._sync()
        self._schedule()
        if done:
            self._tell()

    def _do(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            log.failure("a partition of {name} could not be given its role", name=name)

    # ---- waiting for the disk, in a thread

    def _sync(self) -> None:
        """Makes durable what was made since the last time; one sync at a time, the next takes all that came between."""
        if self._syncing or not self._elected:
            return
        self._syncing, self._elected = self._elected, {}
        batch = self._syncing
        by_dir: dict[LogDir, list[Path]] = {}
        for partition in batch:
            by_dir.setdefault(partition.log.log_dir, []).append(partition.log.directory)
        work = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), _make_durable, by_dir)
        work.addCallback(self._synced, batch)
        work.addErrback(lambda failure: log.failure("new leaderships could not be stored", failure))

    def _synced(self, failed: list[tuple[LogDir, OSError]], batch: dict[Partition, int]) -> None:
        for place, problem in failed:
            self._broker.logs.dir_failed(place, problem)
        if self._syncing is not batch:
            return  # the session was lost meanwhile
        self._syncing = {}
        for partition, epoch in batch.items():
            self._led(partition.tp.topic)
            topic = self._broker.view.topics.get(partition.tp.topic)
            if topic is None or self._broker.partitions.get(partition.tp) is not partition:
                continue
            info = topic.partitions[partition.tp.partition]
            leads = partition.is_leader and partition.leader_epoch == epoch
            if self._registered() and not leads and (info.leader, info.leader_epoch) == (self._me, epoch):
                self._lead(partition, info)
        self._sync()
        self._tell()

    def _led(self, name: str) -> None:
        self._unled[name] -= 1
        if self._unled[name] <= 0:
            del self._unled[name]

    def _lead(self, partition: Partition, info: PartitionInfo) -> None:
        partition.lead(info.leader_epoch, info.replicas, info.isr, partition.high_watermark, info.version)

    # ---- one topic

    def _plan(self, name: str) -> list[Callable[[], None]]:
        """What is to be done for a topic, partition by partition."""
        topic = self._broker.view.topics.get(name)
        if topic is None:
            self._configs.pop(name, None)
            logs = self._broker.logs
            every = dict.fromkeys((*logs.logs, *logs.offline, *self._broker.partitions))
            return [self._gone(tp) for tp in every if tp.topic == name]
        config = TopicConfig.of(self._broker.config, topic.overrides)
        fresh = self._configs.get(name) != config
        self._configs[name] = config
        return [
            self._one(name, info.index, config, fresh)
            for info in topic.partitions
            if self._me in info.replicas or TopicPartition(name, info.index) in self._broker.partitions
        ]

    def _one(self, name: str, index: int, config: TopicConfig, fresh: bool) -> Callable[[], None]:
        def work() -> None:
            # As the view is now: it may have changed since this was planned.
            topic, tp = self._broker.view.topics.get(name), TopicPartition(name, index)
            if topic is None or index >= len(topic.partitions):
                return
            info = topic.partitions[index]
            partition = self._broker.partitions.get(tp)
            if partition is not None and partition.log.topic_id != topic.topic_id:
                self.forget(tp)
                partition = None
            if self._me not in info.replicas:
                if partition is not None:
                    self._followers.leave(partition)
                if partition is not None and partition.is_leader:
                    partition.resign()
                return
            if partition is None:
                partition = self._open(tp, topic, info, config)
            if partition is None:
                return
            if fresh:
                partition.log.configure(config)
                partition.gate()
                self._broker.request_flush(partition)
            self._play(partition, info)

        return work

    def _open(self, tp: TopicPartition, topic: TopicInfo, info: PartitionInfo, config: TopicConfig) -> Partition | None:
        """The partition with its log; made if there is none. None: it is offline or refused, and reported."""
        if not self._registered() or info.version < 0:
            return None
        if self._is_offline(tp) and not self._replaced(tp, info):
            return None
        found = self._log(tp, topic, config)
        if found is None:
            return None
        partition = Partition(tp, found, self._me, self._broker.surroundings)
        mark = self._broker.logs.high_watermarks.get(tp, 0)
        partition.high_watermark = max(found.log_start, min(mark, found.log_end))
        self._broker.partitions[tp] = partition
        return partition

    def _log(self, tp: TopicPartition, topic: TopicInfo, config: TopicConfig) -> PartitionLog | None:
        logs = self._broker.logs
        found = logs.logs.get(tp)
        if found is not None and found.topic_id != topic.topic_id and found.topic_id in self._known.tombstones:
            logs.delete(tp)
        try:
            with without_sync():
                return logs.create(tp, topic.topic_id, config)
        except (KafkaError, OSError) as problem:
            self._refuse(tp, str(problem))
            return None

    def _refuse(self, tp: TopicPartition, why: str) -> None:
        if self._refused.get(tp) != why:
            self._refused[tp] = why
            log.error("{tp} is not served: {why}", tp=tp, why=why)

    def _play(self, partition: Partition, info: PartitionInfo) -> None:
        """A21: a higher epoch is a new role, the same one only another ISR, a lower one is old news."""
        if not self._registered():
            if partition.is_leader:
                partition.resign()
            return
        if info.leader != self._me:
            if info.leader_epoch > partition.leader_epoch or not partition.is_leader:
                self._followers.follow(partition, info)
            return
        if partition.is_leader and info.leader_epoch <= partition.leader_epoch:
            if info.leader_epoch == partition.leader_epoch:
                partition.settle_isr(info.replicas, info.isr, info.version)
            return
        self._followers.leave(partition)
        if info.leader_epoch <= partition.log.latest_epoch:
            return  # A11: being stored just now; or of a former life, then the next election is on its way
        with without_sync():
            partition.log.start_epoch(info.leader_epoch)
        if partition.is_leader:
            # It leads on, as in every step of a reassignment. Without a moment in which requests are refused: a
            # producer with several on their way would see some fail before one that is taken, give up its sequence,
            # and send again what is in the log. The epoch is durable a moment later; a crash before raises it (A10).
            self._lead(partition, info)
        if partition not in self._elected:
            self._unled[partition.tp.topic] += 1
        self._elected[partition] = info.leader_epoch

    # ---- what is no longer there

    def _gone(self, tp: TopicPartition) -> Callable[[], None]:
        def work() -> None:
            found = self._broker.logs.logs.get(tp)
            self.forget(tp)
            self._is_offline(tp)
            if found is not None and found.topic_id in self._known.tombstones:
                self._broker.logs.delete(tp)

        return work

    def _is_offline(self, tp: TopicPartition) -> bool:
        """Whether the partition's log cannot be used; a damaged one of a topic that is dead is taken away."""
        logs = self._broker.logs
        if tp in logs.offline and logs.offline_topic_id(tp) in self._known.tombstones:
            log.info("the damaged log of {tp} goes: its topic was deleted", tp=tp)
            logs.delete(tp)
        return tp in logs.offline

    def _replaced(self, tp: TopicPartition, info: PartitionInfo) -> bool:
        """Sets a damaged log aside where another broker leads and nobody counts on ours: it is copied anew."""
        if info.leader in (-1, self._me) or self._me in info.isr:
            return False
        why, away = self._broker.logs.offline[tp], self._broker.logs.set_aside(tp)
        if away is not None:
            log.warn(
                "{tp} is copied anew from broker {leader}; its damaged log ({why}) was set aside as {away}",
                tp=tp,
                leader=info.leader,
                why=why,
                away=away,
            )
        return away is not None

    def _report_strays(self) -> None:
        """A29: a log of a topic that is neither known nor dead is kept and not served."""
        names = self._broker.view.names
        strays = [
            str(tp)
            for tp, one in self._broker.logs.logs.items()
            if one.topic_id not in names and one.topic_id not in self._known.tombstones
        ]
        if strays:
            log.error(
                "{n} logs belong to topics that ZooKeeper does not know; they are kept and not served: {some}",
                n=len(strays),
                some=", ".join(strays[:10]) + (", ..." if len(strays) > 10 else ""),
            )


def _make_durable(by_dir: Mapping[LogDir, list[Path]]) -> list[tuple[LogDir, OSError]]:
    """In a thread. The log directories that failed, and how."""
    failed = []
    for place, directories in by_dir.items():
        try:
            make_durable(place.path, directories, (PARTITION_METADATA, EPOCHS))
        except OSError as problem:
            failed.append((place, problem))
    return failed
