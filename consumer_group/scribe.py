"""Who writes the plan, and when (B2-B5).

Every member has a Scribe; the one of the first live id acts, the others only if the plan stays wrong for longer the
lower their rank. Before a plan is written there must be a moment of quiet, so that a deploy of many members makes few
plans, and there is an upper bound, so that a group whose members come and go all the time is served too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from consumer_group.asynchronous import each, spawn, stop_timer, together
from consumer_group.group_session import GroupSession, Life, LifeOver
from consumer_group.logs import logger
from consumer_group.planning import MAX_PLAN_BYTES, newest_first, next_plan
from zk_schema import paths
from zk_schema.consumer_nodes import Plan, PlanTopic, Registration
from zk_schema.group_nodes import encode_topic_id
from zk_schema.nodes import BadNode, TopicAssignment
from zk_schema.operations import BadVersion, CoordinationError, Create, NodeExists, NoNode, Operation, Set
from zk_schema.session import WatchEvent

log = logger()

QUIET_SECONDS, QUIET_AT_MOST = 0.2, 2.0
FIRST_QUIET_SECONDS, FIRST_QUIET_AT_MOST = 1.0, 5.0
DEPUTY_SECONDS, DEPUTY_SECONDS_PER_RANK = 3.0, 0.5
_READS_AT_ONCE = 50


class Scribe:
    """Watches members and topics for one member, and writes the group's plan when it is that member's turn."""

    def __init__(self, session: GroupSession, group_id: str) -> None:
        self._session = session
        self._zookeeper = session.zookeeper
        self._reactor: Any = session.reactor
        self._group = group_id
        self._life: Life | None = None
        self._timer: Any = None
        self._first_dirty: float | None = None
        self._writing = False
        self._again = False
        self._armed: set[str] = set()
        self._topics_read = False
        self.plans_written = 0

    def begin(self, life: Life) -> None:
        """A life begins, or its connection came back: no watch is armed."""
        self._life = life
        self._armed.clear()
        self._topics_read = False

    def end(self) -> None:
        """The life is over."""
        self._life = None
        stop_timer(self._timer)
        self._first_dirty = None

    def observed(self, ids: list[str], plan: Plan | None) -> None:
        """What the member just read. The first live id keeps the plan right, the others wait for it to do so."""
        life = self._life
        if life is None or life.consumer_id not in ids:
            return
        wrong = plan is None or [member.consumer_id for member in plan.members] != ids
        if ids[0] == life.consumer_id:
            if wrong or not self._topics_read:
                self._write_soon(first=plan is None or not plan.members)
        elif wrong:
            rank = ids.index(life.consumer_id)
            self._write_after(DEPUTY_SECONDS + DEPUTY_SECONDS_PER_RANK * rank)
        else:
            stop_timer(self._timer)
            self._first_dirty = None

    def write_now(self) -> None:
        """The member changed its own subscription, and writes the next plan itself (B3)."""
        self._write_after(0.0)

    def _write_soon(self, first: bool = False) -> None:
        quiet, at_most = (FIRST_QUIET_SECONDS, FIRST_QUIET_AT_MOST) if first else (QUIET_SECONDS, QUIET_AT_MOST)
        now = self._reactor.seconds()
        if self._first_dirty is None:
            self._first_dirty = now
        stop_timer(self._timer)
        self._timer = self._reactor.callLater(min(quiet, max(0.0, self._first_dirty + at_most - now)), self._due)

    def _write_after(self, seconds: float) -> None:
        timer = self._timer
        if timer is not None and timer.active() and timer.getTime() - self._reactor.seconds() <= seconds:
            return
        stop_timer(timer)
        self._timer = self._reactor.callLater(seconds, self._due)

    def _due(self) -> None:
        life = self._life
        if life is None:
            return
        if self._writing:
            self._again = True
            return
        self._writing, self._first_dirty = True, None
        spawn(self._write(life)).addErrback(self._failed).addBoth(lambda _: self._written())

    def _written(self) -> None:
        self._writing = False
        if self._again:
            self._again = False
            self._write_soon()

    def _failed(self, failure: Any) -> None:
        if failure.check(LifeOver) is None:
            why = failure.getErrorMessage()
            log.warn("the plan of group {group} was not written: {why}", group=self._group, why=why)
            self._again = self._life is not None

    async def _write(self, life: Life) -> None:
        """One try: whoever was faster wins, and its plan is followed (B3)."""
        await self._session.persist(life.session_id, lambda: self._write_once(life))

    async def _write_once(self, life: Life) -> None:
        zookeeper, path = self._zookeeper, paths.group_plan(self._group)
        await zookeeper.sync(path)
        self._session.check(life)
        last: Plan | None = None
        version: int | None = None
        try:
            data, stat = await zookeeper.get(path)
        except NoNode:
            pass
        else:
            last, version = Plan.decode(self._group, data), stat.version
        registrations = await self._registrations()
        topics = await self._topics(registrations)
        plan = self._fitted(last, registrations, topics)
        if plan is None:
            return
        await self._parents(plan.topics)
        self._session.check(life)
        write: Operation = Create(path, plan.encode()) if version is None else Set(path, plan.encode(), version)
        try:
            await zookeeper.multi([*life.fence, write])
        except (BadVersion, NodeExists, NoNode):
            return  # another scribe was faster, or we are not registered any more: our own watches tell us
        self.plans_written += 1
        log.info(
            "group {group}: generation {generation} for {members} members and {topics} topics, {strategy}",
            group=self._group,
            generation=plan.generation,
            members=len(plan.members),
            topics=len(plan.topics),
            strategy=plan.strategy,
        )
        if len({one.strategy for one in registrations.values()}) > 1:
            log.warn("members of group {group} name different strategies: range it is", group=self._group)

    def _fitted(
        self, last: Plan | None, registrations: dict[str, Registration], topics: Mapping[str, PlanTopic]
    ) -> Plan | None:
        """The next plan, if there is one; the newest members are left out of one that would grow too large (B4)."""
        left = dict(registrations)
        plan = next_plan(self._group, last, left, topics)
        for member in newest_first(registrations):
            if plan is None or len(plan.encode()) <= MAX_PLAN_BYTES:
                break
            log.error("group {group} is full: {member} is left out of its plan", group=self._group, member=member)
            del left[member]
            plan = next_plan(self._group, last, left, topics)
        return plan

    async def _registrations(self) -> dict[str, Registration]:
        """Those of live members. A node that cannot be read, or vanishes meanwhile, is left out by name."""
        parent = paths.group_ids(self._group)
        found: dict[str, Registration] = {}

        async def read(name: str) -> None:
            path = f"{parent}/{name}"
            try:
                data, stat = await self._zookeeper.get(path)
            except NoNode:
                return
            if stat.ephemeral_owner == 0:
                try:
                    await self._zookeeper.delete(path)  # a copy that the other kind of group left behind (K5)
                except CoordinationError:
                    log.debug("{path} is not to be deleted", path=path)
                return
            try:
                found[name] = Registration.decode(path, data)
            except BadNode as problem:
                log.error("a member is left out of the plan: {problem}", problem=str(problem))

        await each(await self._zookeeper.children(parent), read, _READS_AT_ONCE)
        return found

    async def _topics(self, registrations: Mapping[str, Registration]) -> dict[str, PlanTopic]:
        """The topics that members may want, as they are now, watched from here on (W11)."""
        wanted = {topic for one in registrations.values() for topic in one.topics}
        if any(one.pattern is not None for one in registrations.values()):
            wanted |= set(await self._zookeeper.children(paths.TOPICS, self._watch(paths.TOPICS)))
        found: dict[str, PlanTopic] = {}

        async def read(name: str) -> None:
            path = paths.topic(name)
            try:
                data, _ = await self._zookeeper.get(path, self._watch(path))
            except NoNode:
                self._armed.discard(path)
                if await self._zookeeper.exists(path, self._watch(path)) is not None:
                    self._write_soon()
                return
            try:
                topic = TopicAssignment.decode(name, data)
            except BadNode as problem:
                log.error("a topic is left out of the plan: {problem}", problem=str(problem))
                return
            found[name] = PlanTopic(topic.topic_id, len(topic.partitions))

        await each(sorted(wanted), read, _READS_AT_ONCE)
        self._topics_read = True
        return found

    async def _parents(self, topics: Mapping[str, PlanTopic]) -> None:
        """The scribe makes what claims and commits need (B16)."""
        root = paths.group(self._group)
        await together([spawn(self._session.ensure((f"{root}/{name}", b""))) for name in ("owners", "offsets")])

        async def make(name: str) -> None:
            await self._session.ensure(
                (paths.group_owners(self._group, name), b""),
                (paths.group_offsets(self._group, name), encode_topic_id(topics[name].topic_id)),
            )

        known = [name for name in topics if f"made {name}" not in self._armed]
        await each(known, make, _READS_AT_ONCE)
        self._armed.update(f"made {name}" for name in known)

    def _watch(self, path: str) -> Callable[[WatchEvent], None] | None:
        """One watch for each path and connection."""
        if path in self._armed:
            return None
        self._armed.add(path)

        def fired(_: WatchEvent) -> None:
            self._armed.discard(path)
            if self._life is not None:
                self._topics_read = False
                self._write_soon()

        return fired
