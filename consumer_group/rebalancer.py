"""One member of a group at work: session and watches in, the machine decides, its effects are carried out.

Everything runs on the reactor's thread. kazoo's events only post here (B21), each piece of work belongs to a life, and
what it posts after that life is over is dropped. `Host` is the consumer's other half: what is fetched and delivered.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from consumer_group import membership as m
from consumer_group.asynchronous import spawn, stop_timer, together
from consumer_group.errors import CommitFailedError, GroupRefusedError
from consumer_group.group_session import Evicted, GroupSession, Life, LifeOver
from consumer_group.logs import logger
from consumer_group.membership import Member, Partitions, State
from consumer_group.ownership import MAX_OWNED, Offsets, Ownership
from consumer_group.planning import MAX_PLAN_BYTES, shares_of, thread_id
from consumer_group.scribe import Scribe
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.consumer_nodes import Plan, Registration
from zk_schema.group_nodes import PROTOCOL, GroupKind, StoredGroup
from zk_schema.operations import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
)
from zk_schema.session import SessionState

log = logger()

AUDIT_SECONDS, AUDIT_SPREAD = 60.0, 0.2
RELOOK_SECONDS = 5.0
LEASE_LOOKS_PER_TIMEOUT = 40
DEPART_SECONDS = 3.0
"""How long a departure may take when ZooKeeper does not answer; the session then ends by itself."""


class Host(Protocol):
    """What a member does with its partitions."""

    def start(self, life: Life, partitions: Mapping[TopicPartition, int], topic_ids: Mapping[str, bytes]) -> None:
        """They are ours: look up their offsets and begin. The numbers are their streams."""

    def hand_over(self, partitions: Partitions) -> None:
        """Have the application let go; `Rebalancer.post` HandedOver or HandOverOverdue."""

    def lose(self, partitions: Partitions) -> None:
        """They are not ours any more."""

    def offsets_of(self, partitions: Partitions) -> Offsets:
        """What is to be committed with the release of these."""

    def released(self, partitions: Partitions) -> None:
        """Their owner nodes are gone."""

    def refused(self, problem: Exception) -> None:
        """The group cannot be joined."""

    def settled(self) -> None:
        """The state of the member has changed."""


class Rebalancer:
    """One member; `registration` may be changed by `resubscribe`."""

    def __init__(
        self,
        reactor: Any,
        session: Any,
        group_id: str,
        registration: Callable[[], Registration],
        host: Host,
        *,
        client_id: str = "barnabas",
        dice: random.Random | None = None,
        wall_ms: Callable[[], int] = lambda: round(time.time() * 1000),
    ) -> None:
        self.member = Member()
        self.group_id = group_id
        self.generation = 0
        self.audits_healed = 0
        self._reactor = reactor
        self._zookeeper = session
        self._registration = registration
        self._host = host
        self._client_id = client_id
        self.dice = dice or random.Random()
        self._wall_ms = wall_ms
        self.session = GroupSession(reactor, session)
        self.ownership = Ownership(self.session, group_id, self._owner_gone)
        self.scribe = Scribe(self.session, group_id)
        self._plan: Plan | None = None
        self._ids: list[str] = []
        self._share: dict[TopicPartition, int] = {}
        self._watching: set[str] = set()
        self._timers: dict[str, Any] = {}
        self._gone: Deferred[None] | None = None
        self._departing = False
        session.add_listener(self._heard)

    # --- events ---

    def post(self, event: m.Event) -> None:
        """Something happened; the machine decides and its effects begin at once."""
        before = self.member
        self.member, effects = m.step(before, event)
        if before.state is not self.member.state:
            log.debug(
                "group {group}: {before} -> {after} ({event})",
                group=self.group_id,
                before=before.state.value,
                after=self.member.state.value,
                event=type(event).__name__,
            )
        if self.member.state is State.JOINING and before.state is not State.JOINING:
            self._end_life()
        for effect in effects:
            self._begin(effect)
        if self.member != before:
            self._host.settled()

    def leave(self) -> Deferred[None]:
        """Give back what we own, delete the registration, close the session. Fires when that is done."""
        if self._gone is None:
            self._gone = Deferred()
            self.post(m.Leave())
        done: Deferred[None] = Deferred()
        if self._gone.called:
            done.callback(None)
        else:
            self._gone.addCallback(lambda _: done.callback(None))
        return done

    def abandon(self) -> None:
        """Leave without waiting for the application any more."""
        if self.member.state is not State.CLOSED and not self._departing:
            self._begin(m.Depart())

    def resubscribe(self) -> None:
        """The registration has changed."""
        life = self.session.life
        if life is not None:
            self._run(life, self._resubscribe(life))

    async def commit(self, life: Life, offsets: Callable[[], Offsets]) -> None:
        """Write what `offsets` has (B14). CommitFailedError if that life is over (B17)."""
        try:
            await self.ownership.commit(life, offsets)
        except (LifeOver, Evicted) as problem:
            if isinstance(problem, Evicted):
                self.evicted(life)
            raise CommitFailedError("this member was fenced: its partitions may have other owners now") from None

    def _heard(self, state: SessionState) -> None:
        if state is SessionState.NEW_SESSION:
            self.ownership.new_session()
            self._watching.clear()
            self._look_at_lease()
            self.post(m.NewSession())
        elif state is SessionState.CONNECTED:
            self._watching.clear()
            if self.session.life is not None:
                self.scribe.begin(self.session.life)
            if self._zookeeper.lease_valid():
                self.post(m.Resumed())
        elif state is SessionState.SUSPENDED:
            self.ownership.disconnected()
            self.post(m.Suspended())
        else:
            self.post(m.SessionLost())
            self._end_life()

    def _look_at_lease(self) -> None:
        """B19, besides the look at every delivery: tell the application, and see when the lease is valid again."""
        seconds = self._zookeeper.negotiated_timeout_ms / 1000 / LEASE_LOOKS_PER_TIMEOUT
        self._timer("lease", seconds, self._look_at_lease)
        if self.session.life is None:
            return
        if not self._zookeeper.lease_valid():
            self.post(m.LeaseOver())
        elif self.member.state is State.FENCED and self._zookeeper.connected:
            self.post(m.Resumed())

    def _owner_gone(self, partition: TopicPartition) -> None:
        if self.session.life is not None:
            self.post(m.OwnerGone(frozenset((partition,))))

    def evicted(self, life: Life) -> None:
        """Somebody deleted our registration (B18)."""
        if life is self.session.life:
            log.warn("this member was put out of group {group}; it joins again", group=self.group_id)
            self.post(m.Evicted())

    def _end_life(self) -> None:
        self.session.over()
        self.scribe.end()
        self._plan, self._share, self._ids = None, {}, []
        for name in ("audit", "relook"):
            stop_timer(self._timers.get(name))

    # --- effects ---

    def _begin(self, effect: m.Effect) -> None:
        life = self.session.life
        match effect:
            case m.Join():
                spawn(self._join()).addErrback(self._join_failed)
            case m.Depart():
                if not self._departing:
                    self._departing = True
                    spawn(self._depart(life)).addErrback(lambda _: None).addBoth(lambda _: self._departed())
            case m.HandOver(partitions):
                self._host.hand_over(partitions)
            case m.Lost(partitions):
                self._host.lose(partitions)
            case m.Start(partitions):
                self._start(partitions)
            case _ if life is None:
                log.debug("{effect} without a life", effect=type(effect).__name__)
            case m.ReadPlan():
                self._run(life, self._read_plan(life))
            case m.Claim(partitions, version):
                self._run(life, self._claim(life, partitions, version))
            case m.Release(partitions, commit):
                self._run(life, self._release(life, partitions, commit))
            case m.Audit():
                self._run(life, self._audit(life))

    def _run(self, life: Life, work: Coroutine[Any, Any, None]) -> None:
        """Work of a life. What ends it early is that life's end, an eviction, or a defect: logged, and audited."""

        def failed(failure: Any) -> None:
            if failure.check(LifeOver, SessionExpired) is not None:
                return
            if failure.check(Evicted) is not None:
                self.evicted(life)
                return
            log.failure("group {group}: a step failed; an audit follows", failure, group=self.group_id)
            if life is self.session.life:
                self._timer("audit", 1.0, self._audit_now)

        spawn(work).addErrback(failed)

    async def _join(self) -> None:
        session_id = self._zookeeper.session_id
        if session_id is None:
            raise LifeOver
        await self.ownership.drop_leftovers(session_id)
        host, now = socket.gethostname(), self._wall_ms()
        name = f"{paths.escape_group(self.group_id)}_{host}-{now}-{self.dice.getrandbits(32):08x}"
        life = Life(self.group_id, session_id, name)
        await self.session.persist(session_id, lambda: self._register(life))
        if self.member.state is not State.JOINING or self._zookeeper.session_id != session_id:
            return
        self.session.life = life
        self.scribe.begin(life)
        self._plan_audit()
        self.post(m.Joined())
        if not self._zookeeper.connected:
            self.post(m.Suspended())

    async def _register(self, life: Life) -> None:
        """B20, B5. The id is new and nobody else's: that it exists means that an earlier try of ours was answered."""
        root = paths.group(self.group_id)
        parents = [paths.CONSUMERS, root, *(f"{root}/{name}" for name in ("ids", "owners", "offsets"))]
        await self.session.ensure(*((path, b"") for path in parents))
        while True:
            check = await self._kind_check()
            try:
                await self._zookeeper.multi([*check, Create(life.path, self._registration().encode(), ephemeral=True)])
            except NodeExists:
                return
            except (BadVersion, NoNode):
                continue
            return

    async def _kind_check(self) -> list[Operation]:
        """The plan's version, if there is a plan; GroupRefusedError if the other kind of member is in the group."""
        path = paths.group_plan(self.group_id)
        try:
            data, stat = await self._zookeeper.get(path)
        except NoNode:
            return []
        if GroupKind.decode(self.group_id, data).kind == PROTOCOL:
            state_path = paths.group_state(self.group_id)
            try:
                stored = StoredGroup.decode(state_path, (await self._zookeeper.get(state_path))[0])
            except NoNode:
                stored = None
            if stored is not None and stored.members:
                raise GroupRefusedError(
                    f"group {self.group_id} is in use by {len(stored.members)} members of the JoinGroup protocol; this "
                    "consumer coordinates through ZooKeeper, and the two kinds do not mix in one group"
                )
        return [Check(path, stat.version)]

    def _join_failed(self, failure: Any) -> None:
        if failure.check(LifeOver, SessionExpired) is not None:
            return
        if failure.check(GroupRefusedError) is not None:
            self._host.refused(failure.value)
        else:
            log.warn("group {group}: not joined: {why}", group=self.group_id, why=failure.getErrorMessage())
        self._timer("join", RELOOK_SECONDS, self._join_again)

    def _join_again(self) -> None:
        if self.member.state is State.JOINING and self.session.life is None and self._zookeeper.session_id is not None:
            self._begin(m.Join())

    async def _read_plan(self, life: Life) -> None:
        """Both watches are armed before anything is decided, and again whenever one fires."""
        ids, plan = await self.session.persist(life.session_id, self._read_once)
        self.session.check(life)
        if life.consumer_id not in ids:  # a session sees its own writes, so somebody deleted it
            raise Evicted
        self._ids = ids
        self.scribe.observed(ids, None if plan is None else plan[0])
        if plan is not None and plan[1] >= self.member.version:
            self._follow(life, *plan)

    async def _read_once(self) -> tuple[list[str], tuple[Plan, int, int] | None]:
        """(live ids, (plan, its version, its size) or None)."""
        plan_path, ids_path = paths.group_plan(self.group_id), paths.group_ids(self.group_id)
        ids = await self._zookeeper.children(ids_path, self._watch(ids_path))
        while True:
            try:
                data, stat = await self._zookeeper.get(plan_path, self._watch(plan_path))
            except NoNode:
                self._watching.discard(plan_path)
            else:
                return ids, (Plan.decode(self.group_id, data), stat.version, len(data))
            if await self._zookeeper.exists(plan_path, self._watch(plan_path)) is None:
                return ids, None

    def _follow(self, life: Life, plan: Plan, version: int, size: int) -> None:
        shares = shares_of(plan)
        self._plan, self.generation = plan, plan.generation
        self._share = dict(shares.get(life.consumer_id, {}))
        named = life.consumer_id in shares
        if not named and size + len(self._registration().encode()) > MAX_PLAN_BYTES:
            self._host.refused(GroupRefusedError(f"group {self.group_id} is full: its plan has {size} bytes"))
        if len(self._share) > MAX_OWNED:
            kept = sorted(self._share)[:MAX_OWNED]
            log.error("a share of {n} partitions: only {max} are taken", n=len(self._share), max=MAX_OWNED)
            self._share = {partition: self._share[partition] for partition in kept}
        self.ownership.topic_ids.update((name, topic.topic_id) for name, topic in plan.topics.items())
        self.post(m.PlanSeen(version, frozenset(self._share), named))

    def _watch(self, path: str) -> Callable[[Any], None] | None:
        if path in self._watching:
            return None
        self._watching.add(path)

        def fired(_: Any) -> None:
            self._watching.discard(path)
            life = self.session.life  # another one than armed it, if the member joined anew in the same session
            if life is not None:
                self._run(life, self._read_plan(life))

        return fired

    async def _claim(self, life: Life, partitions: Partitions, version: int) -> None:
        threads = {one: thread_id(life.consumer_id, self._share.get(one, 0)) for one in partitions}
        outcome = await self.ownership.claim(life, threads, version)
        if outcome.claimed:
            self.post(m.Claimed(outcome.claimed))
        if outcome.stale and life is self.session.life:
            self.post(m.ClaimStale(outcome.stale))
        if outcome.blocked and life is self.session.life:
            self.post(m.Blocked(outcome.blocked))
            gone = self.ownership.unwatched(outcome.blocked)
            if gone:  # released while we were still looking at the others
                self.post(m.OwnerGone(gone))
            self._timer("relook", RELOOK_SECONDS * self.dice.uniform(0.8, 1.2), self._look_again)

    def _look_again(self) -> None:
        if self.member.blocked:
            self.post(m.OwnerGone(self.member.blocked))

    def _start(self, partitions: Partitions) -> None:
        life, plan = self.session.life, self._plan
        assert life is not None
        assert plan is not None
        streams = {partition: self._share.get(partition, 0) for partition in partitions}
        topics = {one.topic for one in partitions if one.topic in plan.topics}
        self._host.start(life, streams, {topic: plan.topics[topic].topic_id for topic in topics})

    async def _release(self, life: Life, partitions: Partitions, commit: bool) -> None:
        offsets: Callable[[], Offsets] = lambda: self._host.offsets_of(partitions) if commit else {}  # noqa: E731
        await self.ownership.release(life, partitions, offsets, self._host.released)
        self.post(m.Released(partitions))

    async def _audit(self, life: Life) -> None:
        found = await self.ownership.audit(life)
        healthy = found == self.member.owned
        if not healthy and self.member.state is State.OWNING:
            self.audits_healed += 1
            log.warn("group {group}: the audit found a difference, and mends it", group=self.group_id)
        self.post(m.Audited(found))
        if self._ids and self._ids[0] == life.consumer_id:
            await self._audit_group(life)

    async def _audit_group(self, life: Life) -> None:
        """The scribe's part of B22: every partition should have an owner by the time that we are settled."""
        plan = self._plan
        if plan is None or not self.member.settled:
            return
        asked = [self._zookeeper.children(paths.group_owners(self.group_id, topic)) for topic in plan.topics]
        try:
            owned = await together(asked)
        except (NoNode, ConnectionLost):
            return
        missing = [
            f"{topic}-{index}"
            for (topic, one), names in zip(plan.topics.items(), owned, strict=True)
            for index in range(one.partitions)
            if str(index) not in names
        ]
        if missing and plan.members:
            log.warn(
                "group {group}: {n} partitions have no owner: {some}",
                group=self.group_id,
                n=len(missing),
                some=", ".join(missing[:10]),
            )
        self._run(life, self._read_plan(life))

    def _plan_audit(self) -> None:
        seconds = AUDIT_SECONDS * self.dice.uniform(1 - AUDIT_SPREAD, 1 + AUDIT_SPREAD)
        self._timer("audit", seconds, self._audit_now)

    def _audit_now(self) -> None:
        self._plan_audit()
        life = self.session.life
        if life is not None and self.member.state in (State.MOVING, State.OWNING):
            self._run(life, self._audit(life))

    async def _resubscribe(self, life: Life) -> None:
        data = self._registration().encode()
        try:
            await self.session.persist(life.session_id, lambda: self._zookeeper.set(life.path, data, -1))
        except NoNode:
            raise Evicted from None
        self.scribe.write_now()

    async def _depart(self, life: Life | None) -> None:
        if life is not None and self._zookeeper.connected:
            gone = self._zookeeper.delete(life.path)
            gone.addTimeout(DEPART_SECONDS, self._reactor)
            try:
                await gone
            except Exception as problem:
                log.debug("the registration goes with the session: {problem}", problem=str(problem))
        self._end_life()
        await self._zookeeper.stop()

    def _departed(self) -> None:
        for timer in self._timers.values():
            stop_timer(timer)
        self.post(m.Left())
        if self._gone is None:
            self._gone = Deferred()
        if not self._gone.called:
            self._gone.callback(None)

    def _timer(self, name: str, seconds: float, function: Callable[[], None]) -> None:
        stop_timer(self._timers.get(name))
        if not self._departing:
            self._timers[name] = self._reactor.callLater(seconds, function)

