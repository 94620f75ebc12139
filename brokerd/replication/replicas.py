"""Replication on one broker: which leaders are followed, whose ISR is looked at, what partitions know of the world.

Told of roles by cluster/roles.py (`follow`, `leave`), and of every new view of the cluster by the daemon (`look`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from brokerd.partition import FLUSHED
from brokerd.replication.fetcher import Fetcher
from brokerd.replication.isr_writer import IsrWriter
from brokerd.replication.surroundings import Surroundings
from zk_schema.session import Session, boot_time

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.cluster.cluster_state import ClusterState
    from brokerd.metadata import PartitionInfo
    from brokerd.metrics import Metrics
    from brokerd.partition import Partition

log = Logger()

HELD_SECONDS = 0.1
Loop = tuple[int, bool, int]
"""(leader, whether it waits for flushes, number): num.replica.fetchers loops of each kind."""


class Replicas:
    """`broker_epoch` is that of our registration (A22); `fence` the version of our incarnation node, None while we are
    not registered."""

    def __init__(
        self,
        reactor: Any,
        broker: Broker,
        session: Session,
        known: ClusterState,
        *,
        broker_epoch: Callable[[], int],
        fence: Callable[[], int | None],
        published: Callable[[], None],
        reread_brokers: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._broker = broker
        self._known = known
        self._broker_epoch = broker_epoch
        config = broker.config
        self.writer = IsrWriter(reactor, session, known, config.broker_id, fence=fence, published=published)
        broker.surroundings = Surroundings(
            now=boot_time,
            lease_valid=session.lease_valid,
            lag_seconds=config.replica_lag_time_max_ms / 1000,
            horizon_seconds=2 * config.replica_fetch_wait_max_ms / 1000,
            propose=self.writer.propose,
            hold=self._hold,
            reread_brokers=reread_brokers,
        )
        self._fetchers: dict[Loop, Fetcher] = {}
        self._loops: dict[Partition, Loop] = {}
        self._homeless: dict[Partition, int] = {}
        """Partitions whose leader is not registered as far as we know, and who that is."""
        self._reported: set[int] = set()
        """Leaders without a listener for us."""
        self._held: dict[Partition, None] = {}
        """Partitions whose high watermark waits for the write gate."""
        self._held_timer: Any = None
        self._seen = -1
        self.bytes_in = 0
        self._check = LoopingCall(self._look_at_isrs)
        self._check.clock = reactor

    def start(self) -> None:
        """Begins to look at the ISRs of what is led here, twice within the lag time (R14)."""
        self._check.start(self._broker.surroundings.lag_seconds / 2, now=False)

    def stop(self) -> None:
        """Ends."""
        if self._check.running:
            self._check.stop()
        self.writer.stop()
        if self._held_timer is not None and self._held_timer.active():
            self._held_timer.cancel()
        self.drop_all()

    def drop_all(self) -> None:
        """The session is lost: nothing is followed and nobody is served (A12)."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._loops.clear()
        self._homeless.clear()
        self._broker.replica_fetches.drop_all()

    def watch_metrics(self, metrics: Metrics) -> None:
        """What is counted here."""
        writer, serving = self.writer, self._broker.replica_fetches
        metrics.watch("kafka_server_replicamanager_isrshrinks_total", lambda: writer.shrinks)
        metrics.watch("kafka_server_replicamanager_isrexpands_total", lambda: writer.expands)
        metrics.watch("kafka_server_replicamanager_failedisrupdates_total", lambda: writer.refused)
        metrics.watch("kafka_server_brokertopicmetrics_replicationbytesin_total", lambda: self.bytes_in)
        metrics.watch("kafka_server_brokertopicmetrics_replicationbytesout_total", lambda: serving.bytes_out)

    def _hold(self, partition: Partition) -> None:
        self._held[partition] = None
        if self._held_timer is None:
            self._held_timer = self._reactor.callLater(HELD_SECONDS, self._look_at_held)

    def _look_at_held(self) -> None:
        self._held_timer = None
        held, self._held = self._held, {}
        for partition in held:
            partition.advance()

    # ---- roles

    def follow(self, partition: Partition, info: PartitionInfo) -> None:
        """The partition follows the leader that the state names (A21); nobody, if there is none."""
        if info.leader_epoch < partition.leader_epoch:
            return
        partition.follow(info.leader_epoch, info.replicas, info.isr)
        self._homeless.pop(partition, None)
        address = self._address(info.leader)
        if address is None:
            self.leave(partition)
            self._homeless[partition] = info.leader
            self._report_listener(info.leader)
            return
        loop = self._loop(partition, info.leader)
        former = self._loops.get(partition)
        if former == loop:
            fetcher = self._fetchers[loop]
            if fetcher.address == address and fetcher.follows(partition):
                return
        elif former is not None:
            self.leave(partition)
        self._loops[partition] = loop
        self._fetcher(loop, address).add(partition)

    def leave(self, partition: Partition) -> None:
        """The partition is no follower any more."""
        self._homeless.pop(partition, None)
        loop = self._loops.pop(partition, None)
        fetcher = None if loop is None else self._fetchers.get(loop)
        if loop is None or fetcher is None:
            return
        fetcher.remove(partition)

    def _loop(self, partition: Partition, leader: int) -> Loop:
        number = hash(partition.tp) % self._broker.config.num_replica_fetchers
        return leader, partition.log.config.durability == FLUSHED, number

    def _fetcher(self, loop: Loop, address: tuple[str, int]) -> Fetcher:
        found = self._fetchers.get(loop)
        if found is not None and found.address == address:
            return found
        if found is not None:
            found.stop()
        leader, durable, _ = loop
        made = self._fetchers[loop] = Fetcher(
            self._reactor,
            self._broker,
            leader,
            address,
            waits_for_flush=durable,
            replica_epoch=self._broker_epoch,
            took=self._took,
        )
        for partition, its in self._loops.items():
            if its == loop and found is not None:
                made.add(partition)
        return made

    def _took(self, size: int) -> None:
        self.bytes_in += size

    def _address(self, broker_id: int) -> tuple[str, int] | None:
        info = self._broker.view.brokers.get(broker_id)
        if info is None:
            return None
        return info.addresses.get(self._broker.config.inter_broker_listener_name)

    def _report_listener(self, broker_id: int) -> None:
        if broker_id in self._broker.view.brokers and broker_id not in self._reported:
            self._reported.add(broker_id)
            log.error(
                "broker {id} cannot be followed: it advertises no listener {name} (inter.broker.listener.name)",
                id=broker_id,
                name=self._broker.config.inter_broker_listener_name,
            )

    # ---- the cluster

    def look(self) -> None:
        """The view is new: who is registered, who drains, where they are."""
        if self._known.broker_changes == self._seen:
            return
        self._seen = self._known.broker_changes
        world = self._broker.surroundings
        world.registered = {number: one.registration.epoch for number, one in self._known.brokers.items()}
        world.fit = {number: epoch for number, epoch in world.registered.items() if not self._known.is_draining(number)}
        self._follow_moved()
        self._look_at_isrs()

    def _follow_moved(self) -> None:
        """Leaders that have come back, or have another address."""
        for partition, leader in list(self._homeless.items()):
            if self._address(leader) is not None:
                self._follow_again(partition)
        for loop, fetcher in list(self._fetchers.items()):
            address = self._address(loop[0])
            if address is not None and address != fetcher.address:
                self._fetcher(loop, address)
            elif not len(fetcher) and address is None:
                fetcher.stop()
                del self._fetchers[loop]

    def _follow_again(self, partition: Partition) -> None:
        topic = self._broker.view.topics.get(partition.tp.topic)
        if topic is not None and partition.tp.partition < len(topic.partitions) and not partition.is_leader:
            self.follow(partition, topic.partitions[partition.tp.partition])

    def _look_at_isrs(self) -> None:
        """Of all that is led here with others (A4, R14)."""
        for partition in self._broker.partitions.values():
            leading = partition.leading
            if leading is not None and leading.followers and partition.wished_isr() is not None:
                self.writer.propose(partition)
