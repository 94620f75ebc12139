"""A broker's life in the cluster: start, new session and stop are one path (A7-A13).

    new session -> cluster id and transaction checked -> an old registration of ours deleted, somebody else's waited
    out -> incarnation (fences the former life) -> full read -> written out of every leadership -> registered

The registration is looked at *before* the incarnation is written: the other way round a second broker that was given
the same id by mistake would fence the first one, which lives and serves.

Only a registered broker has roles. When the session is lost all roles are dropped and the path is gone again from its
beginning; nothing of the old session is sent in the new one. What stops a broker for good is told to `fatal`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from twisted.internet.defer import gatherResults
from twisted.logger import Logger

from brokerd.cluster import decisions, identity
from brokerd.cluster.asynchronous import pause, spawn
from brokerd.cluster.cluster_state import ClusterState, KnownTopic
from brokerd.cluster.learning import Learner
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.nodes import (
    NO_LEADER,
    BadNode,
    BrokerRegistration,
    Change,
    ClusterId,
    Endpoint,
    Incarnation,
    VersionedState,
    uuid_text,
)
from zk_schema.operations import (
    ANY_VERSION,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    NodeError,
    NodeExists,
    NoNode,
    Set,
    Stat,
)
from zk_schema.session import Session, SessionState

log = Logger()

RETRY_SECONDS = 0.5
REFUSED_RETRY_SECONDS = 10.0
POLL_SECONDS = 0.25


class CannotJoin(Exception):
    """This broker must not be part of this cluster as it is; the message says why, for a person."""


class Joining(Exception):
    """Somebody else wrote what we were about to write: begin again."""


@attrs.frozen
class Self:
    """What the broker says of itself, and what its disk says."""

    broker_id: int
    endpoints: Callable[[], tuple[Endpoint, ...]]
    """What to advertise; it may change with the settings that were learned."""
    rack: str | None
    notes: identity.Notes
    """Where the last session is kept: the first log directory that works."""
    stored_cluster_id: Callable[[], str | None]
    store_cluster_id: Callable[[str], None]
    has_log: Callable[[TopicPartition], bool]
    is_suspect: Callable[[TopicPartition], bool]


class Life:
    """One broker's membership. `registered` and `lost` are told when roles may begin and when they must end."""

    def __init__(
        self,
        reactor: Any,
        session: Session,
        learner: Learner,
        me: Self,
        *,
        registered: Callable[[], None],
        lost: Callable[[], None],
        fatal: Callable[[Exception], None],
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        """`learned` is called when everything was read and before anything is registered."""
        self._reactor = reactor
        self._session = session
        self._learner = learner
        self._known: ClusterState = learner.known
        self._me = me
        self._registered = registered
        self._lost = lost
        self._fatal = fatal
        self._learned = learned
        self._running_for: int | None = None
        self._ever_registered = False
        self.epoch = -1
        """The broker epoch: the version of the incarnation node at registration (A3)."""
        self.is_registered = False
        self.draining = False
        session.add_listener(self._session_changed)

    # ---- the session

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.NEW_SESSION:
            self._drop()
            self._run()
        elif state is SessionState.LOST:
            log.warn("the ZooKeeper session is lost; every role is dropped until a new one is made")
            self._drop()
        elif state is SessionState.SUSPENDED:
            log.warn("no connection to ZooKeeper")
        else:
            log.info("connected to ZooKeeper again, session {id:x}", id=self._session.session_id)
            if not self.is_registered:
                self._run()

    def _drop(self) -> None:
        if self.is_registered:
            self.is_registered = False
            self._lost()

    def _run(self) -> None:
        """Goes the path in this session, if nobody is on it already."""
        session_id = self._session.session_id
        if self.draining or session_id is None or self._running_for == session_id:
            return
        self._running_for = session_id
        spawn(self._join(session_id)).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        log.failure("joining the cluster failed", failure)
        self._fatal(failure.value)

    async def _join(self, session_id: int) -> None:
        """Tries until it is registered, the session is another, or it must not be."""
        try:
            while self._session.session_id == session_id and not self.draining:
                try:
                    await self._once(session_id)
                    return
                except CannotJoin as problem:
                    if not self._ever_registered or isinstance(problem, IdInUse):
                        self._fatal(problem)
                        return
                    log.error("this broker serves nothing: {problem}", problem=problem)
                    await pause(self._reactor, REFUSED_RETRY_SECONDS)
                except (CoordinationError, Joining) as problem:
                    log.info("joining the cluster is tried again: {problem}", problem=problem)
                    await pause(self._reactor, RETRY_SECONDS)
        finally:
            if self._running_for == session_id:
                self._running_for = None

    async def _once(self, session_id: int) -> None:
        """A8, in its order."""
        me = self._me
        await self._make_parents()
        former = identity.read(me.notes)
        await self._check_cluster(former)
        await self._clear_registration(former, session_id)
        kept = await self._former_suspects()
        epoch = await self._become(Incarnation(me.broker_id, suspect=kept))
        await self._learner.full_read()
        self._learned()
        suspects = tuple(await self._write_myself_out(epoch, kept))
        if suspects != kept:
            epoch = await self._become(Incarnation(me.broker_id, suspect=suspects))
        identity.write(me.notes, identity.LastSession(session_id, max(self._session.last_zxid, former.zxid)))
        await self._register(epoch)
        await self._learner.read_brokers()
        self.epoch = epoch
        self.is_registered = self._ever_registered = True
        log.info(
            "registered as broker {id}, epoch {epoch}, session {session:x}, cluster {cluster}",
            id=me.broker_id,
            epoch=epoch,
            session=session_id,
            cluster=self._known.cluster_id,
        )
        self._registered()

    def audit(self) -> None:
        """The brokers are known anew: if our registration is not among them, somebody took it away; begin again."""
        found = self._known.brokers.get(self._me.broker_id)
        if self.is_registered and (found is None or found.registration.epoch != self.epoch):
            self.fenced("its registration is gone or not its own")

    def fenced(self, why: str) -> None:
        """Somebody ended this life of the broker; the next one begins."""
        if self.is_registered and not self.draining:
            log.error("broker {id} registers again: {why}", id=self._me.broker_id, why=why)
            self._drop()
            self._run()

    # ---- the steps

    async def _make_parents(self) -> None:
        found = await gatherResults([self._session.exists(path) for path in paths.FIXED_PARENTS], consumeErrors=True)
        for path, stat in zip(paths.FIXED_PARENTS, found, strict=True):
            if stat is None:
                with contextlib.suppress(NodeExists):
                    await self._session.create(path)

    async def _check_cluster(self, former: identity.LastSession) -> None:
        """A8.1: the ZooKeeper is that of our logs, and not from an earlier time."""
        me = self._me
        await self._session.sync()
        stored = me.stored_cluster_id()
        try:
            data, _ = await self._session.get(paths.CLUSTER_ID)
            found: str | None = ClusterId.decode(data).cluster_id
        except NoNode:
            found = None
        except BadNode as problem:
            raise CannotJoin(str(problem)) from problem
        if stored is not None and found != stored:
            there = "has no cluster id" if found is None else f"belongs to cluster {found}"
            raise CannotJoin(
                f"the log directories belong to cluster {stored}, but the ZooKeeper {there}; "
                "is zookeeper.connect right, or was the ZooKeeper emptied?"
            )
        if self._session.last_zxid < former.zxid:
            raise CannotJoin(
                f"the ZooKeeper is older (transaction {self._session.last_zxid:x}) than what this broker has seen "
                f"({former.zxid:x}): it was restored from a backup or emptied; if that is meant, "
                f"take {identity.ZXID} out of .barnabas.properties in the log directory"
            )
        if found is None:
            created = ClusterId(uuid_text(os.urandom(16)))
            try:
                await self._session.create(created.path, created.encode())
            except NodeExists:
                raise Joining("another broker has just named the cluster") from None
            found = created.cluster_id
        if stored is None:
            me.store_cluster_id(found)
        self._known.set_cluster_id(found)

    async def _former_suspects(self) -> tuple[tuple[str, int], ...]:
        """What the life before did not trust. A log stays suspect until others have vouched for it: the second start
        after an emptied disk finds a log, which is empty because the first one made it."""
        path = paths.incarnation(self._me.broker_id)
        try:
            data, _ = await self._session.get(path)
            return Incarnation.decode(self._me.broker_id, data).suspect
        except NoNode:
            return ()
        except BadNode as problem:
            log.error("{problem}; it is written anew", problem=problem)
            return ()

    async def _become(self, incarnation: Incarnation) -> int:
        """Writes the incarnation node; its version is the epoch, and whoever knew an older one is fenced."""
        try:
            _, stat = await self._session.get(incarnation.path)
        except NoNode:
            try:
                await self._session.create(incarnation.path, incarnation.encode())
            except NodeExists:
                raise Joining("the incarnation node has just been made") from None
            self._known.set_incarnation(incarnation, 0)
            return 0
        try:
            epoch = (await self._session.set(incarnation.path, incarnation.encode(), stat.version)).version
        except BadVersion:
            raise Joining("the incarnation node has just been changed") from None
        self._known.set_incarnation(incarnation, epoch)
        return epoch

    async def _clear_registration(self, former: identity.LastSession, session_id: int) -> None:
        """A8.3, and the same for /controller: what our former life left is deleted, a stranger's is waited out."""
        mine = (former.session_id, session_id)
        stat = await self._session.exists(paths.CONTROLLER)
        if stat is not None and stat.ephemeral_owner in mine:
            await self._delete(paths.CONTROLLER, stat)
        path = paths.broker(self._me.broker_id)
        deadline = self._reactor.seconds() + self._session.negotiated_timeout_ms / 1000 + POLL_SECONDS
        told = False
        while (stat := await self._session.exists(path)) is not None:
            if stat.ephemeral_owner in mine:
                await self._delete(path, stat)
                continue
            user = await self._user(path)
            if self._reactor.seconds() > deadline:
                raise IdInUse(f"broker id {self._me.broker_id} in use by {user}; give this broker another broker.id")
            if not told:
                told = True
                log.info("broker id {id} is registered by {user}; waiting", id=self._me.broker_id, user=user)
            await pause(self._reactor, POLL_SECONDS)

    async def _delete(self, path: str, stat: Stat) -> None:
        try:
            await self._session.delete(path, stat.version)
        except NodeError as problem:
            log.debug("{problem}", problem=problem)

    async def _user(self, path: str) -> str:
        try:
            data, _ = await self._session.get(path)
            found = BrokerRegistration.decode(self._me.broker_id, data)
        except (NoNode, BadNode):
            return "another broker"
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.timestamp_ms / 1000))
        return ", ".join(f"{one.host}:{one.port}" for one in found.endpoints) + f" (registered {since})"

    async def _write_myself_out(self, epoch: int, kept: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """A10: no state names me leader, and no ISR with others has a suspect log of mine. Returns the suspect logs
        that are alone in their ISR.
        """
        pieces: list[decisions.Piece] = []
        alone: list[tuple[str, int]] = []
        for topic in list(self._known.topics.values()):
            if not self._known.is_dead(topic):
                pieces.extend(self._retired(topic, alone, kept))
                await pause(self._reactor, 0)  # a turn for everybody else
        fence = Check(paths.incarnation(self._me.broker_id), epoch)
        for multi in decisions.pack(pieces, fences=(fence,)):
            try:
                await self._session.multi(multi.all())
            except NodeError as problem:
                raise Joining(f"a state has just been changed ({problem})") from problem
            for change in multi.changes:
                await self._learner.apply(change)
        if pieces:
            log.info("gave up {n} leaderships and ISR places of the life before", n=len(pieces))
        return alone

    def _retired(
        self, topic: KnownTopic, alone: list[tuple[str, int]], kept: Sequence[tuple[str, int]]
    ) -> Iterable[decisions.Piece]:
        me = self._me.broker_id
        for index, known in topic.states.items():
            state = known.state
            if state.leader != me and me not in state.isr:
                continue
            tp = TopicPartition(topic.name, index)
            leader, isr = state.leader, state.isr
            lost = not self._me.has_log(tp) or self._me.is_suspect(tp)
            if isr == (me,) and (topic.name, index) in kept and len(topic.assignment.partitions.get(index, ())) > 1:
                lost = lost or not state.recovering  # who asked for an unclean election has accepted the loss
            if me in isr and lost:
                if isr == (me,):
                    alone.append((topic.name, index))
                    log.warn("the log of {tp} is missing or not to be trusted, and nobody else is in sync", tp=tp)
                else:
                    isr = tuple(one for one in isr if one != me)
            leader = NO_LEADER if leader == me else leader
            if (leader, isr) != (state.leader, state.isr):
                yield _retire(topic, index, known, leader, isr)

    async def _register(self, epoch: int) -> None:
        registration = self._registration(epoch)
        try:
            await self._announce(Create(registration.path, registration.encode(), ephemeral=True), epoch)
        except NodeError as problem:
            raise Joining(f"not registered: {problem}") from problem

    def readvertise(self) -> None:
        """The endpoints have changed: the registration says so, and everybody is told."""
        if self.is_registered:
            spawn(self._readvertise()).addErrback(lambda failure: log.failure("not advertised anew", failure))

    async def _readvertise(self) -> None:
        epoch = self.epoch
        while self.is_registered and self.epoch == epoch:
            registration = self._registration(epoch)
            try:
                await self._announce(Set(registration.path, registration.encode(), ANY_VERSION), epoch)
                await self._learner.read_brokers()
                return
            except NodeError as problem:
                self.fenced(f"its registration could not be changed: {problem}")
            except CoordinationError as problem:
                log.info("the new endpoints are advertised later: {problem}", problem=problem)
                await pause(self._reactor, RETRY_SECONDS)

    def _registration(self, epoch: int) -> BrokerRegistration:
        me = self._me
        return BrokerRegistration(me.broker_id, me.endpoints(), int(time.time() * 1000), epoch, me.rack)

    async def _announce(self, write: Create | Set, epoch: int) -> None:
        change = Change("broker", broker_id=self._me.broker_id)
        fence = Check(paths.incarnation(self._me.broker_id), epoch)
        await self._session.multi([fence, write, Create(change.prefix, change.encode(), sequence=True)])

    # ---- leaving

    async def drain(self) -> None:
        """A13, its first step: from here nobody adds this broker to an ISR and the controller moves its leaderships."""
        self.draining = True
        if not self.is_registered:
            return
        kept = tuple(sorted(self._known.suspects(self._me.broker_id)))
        incarnation = Incarnation(self._me.broker_id, draining=True, suspect=kept)
        change = Change("broker", broker_id=self._me.broker_id)
        await self._session.multi(
            [
                Set(incarnation.path, incarnation.encode(), self.epoch),
                Create(change.prefix, change.encode(), sequence=True),
            ]
        )
        self._known.set_incarnation(incarnation, self.epoch + 1)

    def leadership_to_move(self) -> int:
        """Partitions led here that another in-sync broker could lead."""
        me = self._me.broker_id
        return sum(
            1
            for topic in self._known.topics.values()
            for known in topic.states.values()
            if known.state.leader == me
            and any(one != me and one in self._known.brokers for one in known.state.isr)
            and not self._known.is_dead(topic)
        )

    async def unregister(self) -> None:
        """The last step: the id node is deleted, so that others need not wait for the session to end."""
        if self.is_registered:
            self.is_registered = False
            with contextlib.suppress(NoNode):
                await self._session.delete(paths.broker(self._me.broker_id))

    def remember(self) -> None:
        """Stores the highest transaction seen (F8); to be called now and then."""
        session_id = self._session.session_id
        if self.is_registered and session_id is not None:
            identity.write(self._me.notes, identity.LastSession(session_id, self._session.last_zxid))


class IdInUse(CannotJoin):
    """Another live broker has this id."""


def _retire(
    topic: KnownTopic, index: int, known: VersionedState, leader: int, isr: Sequence[int]
) -> decisions.Piece:
    """The epoch goes up only where the leader changes (A4)."""
    before = known.state
    state = attrs.evolve(
        before, leader=leader, leader_epoch=before.leader_epoch + (leader != before.leader), isr=tuple(isr)
    )
    write = Set(paths.partition_state(topic.name, index), state.encode(), known.version)
    return decisions.Piece(
        topic.name, topic.topic_id, index, (write,), VersionedState(state, known.version + 1), "states", ""
    )
