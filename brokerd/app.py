"""The composition root: every part of a broker is made, started and stopped here, in one order and its reverse.

    logs loaded -> ports bound -> session -> registered -> roles played -> ports opened, "ready"
    drained -> ports closed -> roles dropped -> everything flushed and marked clean -> unregistered -> session closed

The only file that knows all the others. What may stop a start is a StartFailed with one line for a person.
"""

# Twisted's transports have no types for these calls.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import gc
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from brokerd.broker import Broker
from brokerd.broker_settings import BrokerSettings
from brokerd.cluster.asynchronous import Signal, pause, spawn, until
from brokerd.cluster.cluster_state import ClusterState, KnownTopic
from brokerd.cluster.controller import Controller
from brokerd.cluster.departed import Departed
from brokerd.cluster.learning import Learner
from brokerd.cluster.life import Life, Self
from brokerd.cluster.preferred import Balance
from brokerd.cluster.roles import Roles
from brokerd.config import BrokerConfig, Listener
from brokerd.dynamic_config import EVERYBODY, in_force
from brokerd.flush_schedule import FlushSchedule
from brokerd.groups.groups import Groups
from brokerd.housekeeping import Housekeeping
from brokerd.http import HttpError, HttpServer
from brokerd.metrics import Metrics
from brokerd.moves import Moves
from brokerd.partition import Partition
from brokerd.reactor import turns_of
from brokerd.replication.removal import Removal
from brokerd.replication.replicas import Replicas
from brokerd.server.connection import Outbox
from brokerd.server.dispatch import KafkaProtocol
from brokerd.server.limits import Limits
from brokerd.server.port import BrokerPort, Traffic
from brokerd.storage.errors import LogDirError
from brokerd.storage.flusher import Flusher
from brokerd.storage.log_dir import LogDir
from brokerd.storage.log_manager import LogManager
from brokerd.storage.partition_log import PartitionLog
from brokerd.topic_config import TopicConfig
from brokerd.topics import Topics
from brokerd.turn_times import time_turns
from kafka_wire.ids import TopicPartition
from zk_schema.nodes import Endpoint
from zk_schema.operations import CoordinationError
from zk_schema.session import Session, boot_time

log = Logger()

DRAIN_SECONDS = 5.0
"""How long a leaving broker waits for others to take its leaderships; all of a stop has to fit in 10 s."""
ZOOKEEPER_SECONDS = 1.5
"""How long a leaving broker waits for each answer of ZooKeeper."""


class StartFailed(Exception):
    """The broker cannot start; the text says why in one line."""


class Daemon:
    """One broker. `prepare` before the reactor runs (it blocks), `start` when it does; `exit_code` when it has."""

    def __init__(self, reactor: Any, config: BrokerConfig) -> None:
        self.reactor = reactor
        self.config = config
        self._static = config
        self._settings: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self.exit_code = 0
        self.ready = False
        self.changed = Signal()
        self._stopping: Deferred[None] | None = None
        self.metrics = Metrics()
        self.logs = LogManager(config, on_offline=self._went_offline)
        self.flusher = Flusher(self._post, self._flushed, self._flush_failed, self.metrics.flushed)
        self.flushes = FlushSchedule(
            reactor, partial(self.flusher.request, now=True), lambda one: self.logs.logs.get(one.tp) is one
        )
        turns = turns_of(reactor)
        self.broker = Broker(reactor, config, self.logs, self.metrics, self._request_flush, turns)
        self.limits = Limits(config.max_connections, config.max_connections_per_ip, config.max_buffered_bytes)
        self.outbox, self.traffic = Outbox(turns), Traffic()
        self.ports: dict[str, BrokerPort] = {}
        self.http = HttpServer(reactor, self.broker, config, ready=self._not_ready)
        self.session = Session(reactor, config.zookeeper_connect, config.zookeeper_session_timeout_ms)
        self.known = ClusterState()
        self.learner = Learner(reactor, self.session, self.known, self.publish)
        self.replicas = Replicas(
            reactor,
            self.broker,
            self.session,
            self.known,
            broker_epoch=lambda: self.life.epoch,
            fence=self._fence,
            published=self.publish,
            reread_brokers=self.learner.look_at_brokers,
        )
        self.roles = Roles(
            reactor,
            self.broker,
            self.known,
            registered=lambda: self.life.is_registered,
            settled=self._settled,
            followers=self.replicas,
        )
        self.removal = Removal(
            reactor,
            self.broker,
            self.session,
            registered=lambda: self.life.is_registered,
            forget=self.roles.forget,
        )
        self.departed = Departed(
            reactor,
            self.broker,
            self.session,
            registered=lambda: self.life.is_registered,
            forget=self.roles.forget,
        )
        self.housekeeping = Housekeeping(reactor, self.broker, remember=self._remember)
        self.life: Life
        self.controller: Controller

    # ---- starting

    def prepare(self) -> None:
        """Loads the logs and binds the ports. Raises StartFailed."""
        try:
            self.logs.load(lambda text: log.info("{text}", text=text))
        except (LogDirError, OSError) as problem:
            raise StartFailed(str(problem)) from problem
        for listener in self.config.listeners:
            self._bind(listener)
        try:
            self.http.start()
        except HttpError as problem:
            raise StartFailed(str(problem)) from problem
        self._join_cluster()
        self._watch_metrics()

    def _bind(self, listener: Listener) -> None:
        """Takes the address; connections wait until the broker is ready."""
        port = BrokerPort(
            listener.port,
            _Protocols(self.broker, listener.name),
            self.config.socket_listen_backlog_size,
            listener.host,
            self.reactor,
            limits=self.limits,
            outbox=self.outbox,
            traffic=self.traffic,
            max_frame=self.config.socket_request_max_bytes,
            idle_seconds=self.config.connections_max_idle_ms / 1000,
        )
        try:
            port.startListening()
        except CannotListenError as problem:
            where = f"{listener.host or '0.0.0.0'}:{listener.port}"
            raise StartFailed(f"listeners: cannot listen on {where}: {problem.socketError}") from problem
        port.stopReading()
        self.ports[listener.name] = port

    def _join_cluster(self) -> None:
        config, logs = self.config, self.logs
        me = Self(
            config.broker_id,
            self._endpoints,
            config.broker_rack,
            next(place for place in logs.dirs if place.online),
            stored_cluster_id=lambda: logs.cluster_id,
            store_cluster_id=logs.set_cluster_id,
            has_log=lambda tp: tp in logs.logs or tp in logs.offline,
            is_suspect=self._is_suspect,
        )
        self.life = Life(
            self.reactor,
            self.session,
            self.learner,
            me,
            registered=self._registered,
            lost=self._lost,
            fatal=self.fail,
            learned=self._take_settings,
        )
        self.controller = Controller(
            self.reactor,
            self.session,
            self.learner,
            config.broker_id,
            eligible=lambda: self.life.is_registered and not self.life.draining,
            unclean=self._unclean,
            may_delete=config.delete_topic_enable,
            applied=self.publish,
            balance=self._balance,
        )
        self.broker.topics = Topics(
            self.reactor,
            self.session,
            self.learner,
            self.life,
            config.broker_id,
            changed=self.changed,
            published=self.publish,
            settled=self.roles.settled,
        )
        self.broker.moves = Moves(self.session, self.learner, self.broker.topics.writer, published=self.publish)
        self.broker.settings = BrokerSettings(
            self.session,
            self.known,
            self.broker.topics.writer,
            published=self.publish,
            settled=lambda: self.roles.idle,
        )
        self.broker.groups = Groups(
            self.reactor, self.broker, self.session, registered=lambda: self.life.is_registered
        )

    def _endpoints(self) -> tuple[Endpoint, ...]:
        """What is advertised: a port that the system chose by its number, "all interfaces" by this machine's name."""
        found = []
        for one in self.config.advertised_listeners:
            port = one.port or int(self.ports[one.name].getHost().port)
            host = one.host if one.host not in ("", "0.0.0.0", "::") else socket.gethostname()
            found.append(Endpoint(one.name, one.protocol, host, port))
        return tuple(found)

    def _unclean(self, topic: KnownTopic) -> bool:
        given = topic.overrides.get("unclean.leader.election.enable")
        return self.config.unclean_leader_election_enable if given is None else given == "true"

    def _balance(self) -> Balance:
        config = self.config
        return Balance(
            config.auto_leader_rebalance_enable,
            config.leader_imbalance_per_broker_percentage,
            float(config.leader_imbalance_check_interval_seconds),
        )

    def _watch_metrics(self) -> None:
        metrics = self.metrics
        metrics.turns = time_turns(self.reactor)
        self.session.add_listener(metrics.session_changed)
        metrics.watch("kafka_server_socketservermetrics_connection_count", lambda: self.limits.connections)
        metrics.watch("barnabas_connections_refused_total", lambda: self.limits.refused)
        metrics.watch("barnabas_network_received_bytes_total", lambda: self.traffic.bytes_received)
        metrics.watch("barnabas_network_sent_bytes_total", lambda: self.traffic.bytes_sent)
        metrics.watch("barnabas_buffered_bytes", lambda: self.limits.buffered_bytes)
        self.replicas.watch_metrics(metrics)
        metrics.watch("barnabas_zookeeper_lease_seconds", lambda: self.session.lease_until - boot_time())

    def start(self) -> None:
        """Joins the cluster; the log says `ready` when clients are served."""
        self.reactor.addSystemEventTrigger("before", "shutdown", self.stop)
        timeout = self.config.zookeeper_connection_timeout_ms / 1000
        self.session.start(timeout).addErrback(self._no_session)
        self.housekeeping.start()
        self.departed.start()
        self.replicas.start()
        self.removal.start()
        self.broker.groups.start()

    def _no_session(self, failure: Failure) -> None:
        self.fail(failure.value or RuntimeError("no session"))

    def fail(self, problem: BaseException) -> None:
        """Ends the process with 1; called for what no retry can mend."""
        if self.exit_code == 0:
            self.exit_code = 1
            log.critical("{problem}", problem=problem)
        if self._stopping is None and self.reactor.running:
            self.reactor.stop()

    # ---- what the cluster tells

    def publish(self) -> None:
        """What was learned becomes the view, and everybody who acts on it looks."""
        self.broker.view, changed = self.known.view()
        self.replicas.look()
        self._take_settings()
        if self._stopping is None:
            self.life.audit()
            if self.life.is_registered:
                self.roles.look(changed)
        for name in changed:
            if name not in self.broker.view.topics:
                self.metrics.forget_topic(name)
        self.controller.look(changed)
        self.broker.groups.look()
        self.changed.fire()
        self._open_if_ready()

    def _take_settings(self) -> None:
        """Settings that were changed while brokers run begin to hold."""
        learned = self.known.broker_settings
        settings = learned.get(EVERYBODY, {}), learned.get(str(self.config.broker_id), {})
        if settings == self._settings:
            return
        self._settings = settings
        former, (config, problems) = self.config, in_force(self._static, *settings)
        for problem in problems:
            log.error("a dynamic setting is not used: {problem}", problem=problem)
        log.info("settings in force: all brokers' {all}, this one's {own}", all=config.cluster_wide, own=config.own)
        self.config = self.broker.config = config
        self.logs.configure(config)
        self.limits.set(config.max_connections, config.max_connections_per_ip, config.max_buffered_bytes)
        for port in self.ports.values():
            port.set_idle_time(config.connections_max_idle_ms / 1000)
        if config.advertised_listeners != former.advertised_listeners:
            self.life.readvertise()
        if self.life.is_registered and self._stopping is None:
            self.roles.look(self.broker.view.topics)
            self.controller.look(set(self.broker.view.topics))

    def _fence(self) -> int | None:
        """The version of our incarnation node as far as we wrote it ourselves (A3, A13); None: not registered."""
        if not self.life.is_registered:
            return None
        return self.life.epoch + 1 if self.known.is_draining(self.config.broker_id) else self.life.epoch

    def _registered(self) -> None:
        self.publish()
        self.roles.look_at_all()
        self._open_if_ready()

    def _lost(self) -> None:
        self.controller.resign("the ZooKeeper session is over")
        self.roles.drop_all()
        self.broker.groups.look()
        self.changed.fire()

    def _settled(self) -> None:
        self.changed.fire()
        self._open_if_ready()

    def _not_ready(self) -> str | None:
        """For /readyz."""
        if self._stopping is not None:
            return "the broker stops"
        if not self.ready or not self.life.is_registered:
            return f"broker {self.config.broker_id} is not registered in ZooKeeper"
        return None if any(place.online for place in self.logs.dirs) else "every log dir is offline"

    def _open_if_ready(self) -> None:
        """Ready: registered, there is a controller (if it is us, it has decided), and our roles are played."""
        if self.ready or self._stopping is not None or not self.life.is_registered or not self.roles.idle:
            return
        if self.known.controller_id == -1 or (self.controller.authority and not self.controller.decided_once):
            return
        self.ready = True
        for port in self.ports.values():
            port.startReading()
        _calm_collector()
        where = ", ".join(one.url() for one in self._endpoints())
        log.info("ready: broker {id} serves {where}", id=self.config.broker_id, where=where)

    def _remember(self) -> None:
        self.reactor.callInThread(self.life.remember)

    # ---- flushing

    def _post(self, function: Callable[[], None]) -> None:
        self.reactor.callFromThread(function)

    def _request_flush(self, partition: Partition) -> None:
        self.flushes.request(partition.log)

    def _flushed(self, flushed: PartitionLog) -> None:
        partition = self.broker.partitions.get(TopicPartition(flushed.topic, flushed.partition))
        if partition is not None:
            partition.advance()

    def _flush_failed(self, place: LogDir, problem: Exception) -> None:
        self.logs.dir_failed(place, problem)

    def _went_offline(self, gone: list[TopicPartition], problem: str) -> None:
        log.critical("{problem}; {n} partitions are offline", problem=problem, n=len(gone))
        for tp in gone:
            self.roles.forget(tp)

    def _is_suspect(self, tp: TopicPartition) -> bool:
        """A7. Asked before the view is published, so the settings are those just learned."""
        logs = self.logs
        if tp in logs.suspects or tp not in logs.suspects_unless_flushed:
            return tp in logs.suspects
        topic = self.known.topics.get(tp.topic)
        overrides = {} if topic is None else topic.overrides
        return logs.is_suspect(tp, TopicConfig.of(self.config, overrides).durability)

    # ---- stopping

    def stop(self) -> Deferred[None]:
        """A13. Fires when everything is on the disk and ZooKeeper knows that we are gone; never fails."""
        if self._stopping is None:
            self._stopping = Deferred()
            spawn(self._stop()).addBoth(self._stopped)
        return self._stopping

    def _stopped(self, result: Any) -> None:
        assert self._stopping is not None
        if result is not None:
            log.failure("the stop did not end well", result)
            self.exit_code = self.exit_code or 1
        self._stopping.callback(None)

    async def _stop(self) -> None:
        """All steps, whatever happens to one of them."""
        log.info("stopping")
        steps: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
            ("drain", self._drain),
            ("close the ports", self._close_ports),
            ("drop the roles", self._drop_roles),
            ("close the logs", self._close_logs),
            ("unregister", lambda: self._within(ZOOKEEPER_SECONDS, spawn(self.life.unregister()))),
            ("close the session", lambda: self._within(2 * ZOOKEEPER_SECONDS, self.session.stop())),
            ("close http", lambda: maybeDeferred(self.http.stop)),
        ]
        for name, step in steps:
            try:
                await step()
            except CoordinationError as problem:
                log.warn("could not {name}: {problem}", name=name, problem=problem)
            except Exception:
                log.failure("could not {name}", name=name)
                self.exit_code = self.exit_code or 1
        log.info("stopped")

    async def _drain(self) -> None:
        await self._within(ZOOKEEPER_SECONDS, spawn(self.life.drain()))
        self.publish()

        def moved() -> bool:
            return self.life.leadership_to_move() == 0

        if self.life.is_registered and not await until(self.reactor, self.changed, moved, DRAIN_SECONDS):
            log.warn("{n} leaderships were not taken over by others", n=self.life.leadership_to_move())

    async def _close_ports(self) -> None:
        for port in self.ports.values():
            await maybeDeferred(port.stopListening)

    async def _drop_roles(self) -> None:
        self.housekeeping.stop()
        self.departed.stop()
        self.replicas.stop()
        self.removal.stop()
        self.flushes.stop()
        self.broker.groups.stop()
        self.controller.stop()
        self.learner.stop()
        self.broker.end_turn()
        self.roles.drop_all()
        await pause(self.reactor, 0.05)  # the answers that this gave leave at the end of the turn
        for port in self.ports.values():
            port.close_all()

    async def _close_logs(self) -> None:
        marks = {tp: partition.high_watermark for tp, partition in self.broker.partitions.items()}

        def close() -> None:
            self.flusher.stop()
            self.logs.close(marks)

        await self._in_thread(close)

    def _in_thread(self, work: Callable[[], None]) -> Deferred[None]:
        return deferToThreadPool(self.reactor, self.reactor.getThreadPool(), work)

    def _within(self, seconds: float, work: Deferred[Any]) -> Deferred[Any]:
        """The work's result, or a CoordinationError at the deadline; the work itself is left alone."""
        answer: Deferred[Any] = Deferred()

        def late() -> None:
            answer.errback(CoordinationError(f"no answer within {seconds:g} s"))

        timer = self.reactor.callLater(seconds, late)

        def pass_on(result: Any) -> None:
            if timer.active():
                timer.cancel()
                answer.callback(result)

        work.addBoth(pass_on)
        return answer


def _calm_collector() -> None:
    """Nearly everything that a request makes is freed by its last reference; looking for cycles after every 700 objects
    cost 40 % of a small request. What is there now stays for ever and need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class _Protocols:
    """The factory of one listener's connections."""

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._listener = listener

    def doStart(self) -> None:
        """Twisted calls this."""

    def doStop(self) -> None:
        """Twisted calls this."""

    def buildProtocol(self, address: Any) -> KafkaProtocol:
        """The protocol of one connection."""
        return KafkaProtocol(self._broker, address.host, self._listener)
