"""How a broker comes to know the cluster and stays up to date (A9, A18-A21).

Four watches: changes, /brokers/ids, /config/changes, /controller. A watch only marks what is to be read again; one
loop does all reading, so that what is read is applied in one order. Changes are applied in the order of their numbers,
straight from their payload; a gap in the numbers means that something was missed, and everything is read anew. What is
watched is also read after every reconnect (watches do not outlive the connection) and every 10 s besides.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from brokerd.cluster.asynchronous import each, spawn
from brokerd.cluster.cluster_state import ClusterState, LiveBroker
from zk_schema import paths
from zk_schema.nodes import (
    BadNode,
    BrokerRegistration,
    Change,
    ConfigChange,
    ControllerNode,
    EntityConfig,
    Incarnation,
    PartitionState,
    TopicAssignment,
    VersionedState,
    uuid_bytes,
)
from zk_schema.operations import CoordinationError, NoNode
from zk_schema.session import Session, SessionState, WatchEvent

log = Logger()

REREAD_SECONDS = 10.0
WIDTH = 64
"""Reads under way at a time: enough to fill the connection, few enough that no turn of the reactor starts many."""


class Part(enum.Enum):
    """What can be out of date, each behind one watch."""

    CHANGES = paths.CHANGES
    BROKERS = paths.BROKER_IDS
    CONFIGS = paths.CONFIG_CHANGES
    CONTROLLER = paths.CONTROLLER
    TOPICS = paths.TOPICS
    WISHES = paths.DELETE_TOPICS


EVERYBODYS = (Part.CHANGES, Part.BROKERS, Part.CONFIGS, Part.CONTROLLER)
CONTROLLERS = (Part.TOPICS, Part.WISHES)
"""What only the controller looks at: where tools of the ZooKeeper age write (A18)."""


class Learner:
    """Keeps a ClusterState up to date. `changed` is called after every round that may have changed it."""

    def __init__(self, reactor: Any, session: Session, known: ClusterState, changed: Callable[[], None]) -> None:
        self._reactor = reactor
        self._session = session
        self.known = known
        self._changed = changed
        self._last_change = -1
        self._last_config = -1
        self._armed: set[Part] = set()
        self._stale: set[Part] = set()
        self._rereads: dict[str, list[Deferred[None]]] = {}
        self._missed = False
        self._running = False
        self._live = False
        self._controlling = False
        self._timer: Any = None
        session.add_listener(self._session_changed)

    # ---- start and stop

    async def full_read(self) -> None:
        """A9. Raises what the session raises; the caller begins again."""
        known = self.known
        await self._session.sync()
        self._last_change = _highest(await self._children(Part.CHANGES))
        self._last_config = _highest(await self._children(Part.CONFIGS))
        dead = await self._session.children(paths.DELETED)
        for name in dead:
            self._bury(name)
        await each(await self._session.children(paths.INCARNATIONS), self._read_incarnation, WIDTH)
        names = await self._session.children(paths.TOPICS)
        await each(names, self._read_topic, WIDTH // 8)
        for name in set(known.topics) - set(names):
            known.forget_topic(name)
        known.keep_tombstones(dead)
        await each(await self._session.children(paths.BROKER_CONFIGS), self._read_broker_settings, WIDTH)
        await self.read_brokers()
        await self._read_controller()
        self._live = True
        self._stale.update(self._watched())
        self._kick()

    def control(self, controlling: bool) -> None:
        """The broker has become controller, or is none any more: whether it looks at the controller's watches."""
        self._controlling = controlling
        if controlling:
            self._stale.update(CONTROLLERS)
            self._kick()

    def stop(self) -> None:
        """No more reading."""
        self._live = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def read_topic(self, name: str) -> Deferred[None]:
        """Reads one topic anew; fires when that is done, or when the session ends first."""
        waiting: Deferred[None] = Deferred()
        self._rereads.setdefault(name, []).append(waiting)
        self._kick()
        return waiting

    def look_at_brokers(self) -> None:
        """Somebody has heard of a broker that is newer than what is known of it (A22)."""
        self._stale.add(Part.BROKERS)
        self._kick()

    # ---- what makes reading necessary

    def _watched(self) -> tuple[Part, ...]:
        return EVERYBODYS + CONTROLLERS if self._controlling else EVERYBODYS

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._armed.clear()
        elif state is SessionState.LOST:
            self._armed.clear()
            self._live = False
        elif state is SessionState.CONNECTED and self._live:
            self._stale.update(self._watched())
            self._kick()

    def _watch(self, part: Part) -> Callable[[WatchEvent], None] | None:
        """The watch to arm with a read of this part; None while one is armed (a second would add up for ever)."""
        if part in self._armed:
            return None
        self._armed.add(part)

        def fired(_: WatchEvent) -> None:
            self._armed.discard(part)
            self._stale.add(part)
            self._kick()

        return fired

    def _tick(self) -> None:
        if self._live:
            self._stale.update(self._watched())
            self._kick()

    def _kick(self) -> None:
        if self._live and not self._running:
            self._running = True
            spawn(self._read_all()).addErrback(lambda failure: log.failure("learning failed", failure))

    # ---- the loop

    async def _read_all(self) -> None:
        """Reads until nothing is out of date. A lost connection ends it; the next one begins it again."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        try:
            while self._live and (self._stale or self._rereads or self._missed):
                await self._round()
                self._changed()
        except CoordinationError as problem:
            log.debug("learning stopped: {problem}", problem=problem)
            self._armed.clear()
            self._stale.update(self._watched())
            self._changed()
        finally:
            self._running = False
            if self._live:
                soon = 1.0 if self._stale and self._session.connected else REREAD_SECONDS
                self._timer = self._reactor.callLater(soon, self._tick)

    async def _round(self) -> None:
        if self._missed:
            log.warn("changes were missed; everything is read again")
            await self.full_read()
            self._missed = False
        stale, self._stale = self._stale, set()
        # Changes first: a change of a broker's state and its registration are told there in order.
        for part in sorted(stale, key=list(Part).index):
            await _READERS[part](self)
        await self._read_asked()

    async def _read_asked(self) -> None:
        asked, self._rereads = self._rereads, {}
        try:
            for name in asked:
                await self._read_topic(name)
        finally:
            for waiting in (one for several in asked.values() for one in several):
                waiting.callback(None)

    # ---- one part each

    async def _children(self, part: Part) -> list[str]:
        try:
            return await self._session.children(part.value, self._watch(part))
        except CoordinationError:
            self._armed.discard(part)
            raise

    async def _read_changes(self) -> None:
        numbers = sorted(_number(name) for name in await self._children(Part.CHANGES))
        unread = [number for number in numbers if number > self._last_change]
        restarted = bool(numbers) and numbers[-1] < self._last_change
        if restarted or (unread and unread[0] > self._last_change + 1):
            self._missed = True
            return
        found: dict[int, Change | None] = {}

        async def read(number: int) -> None:
            path = f"{paths.CHANGE_PREFIX}{number:010}"
            try:
                data, _ = await self._session.get(path)
                found[number] = Change.decode(path, data)
            except NoNode:
                self._missed = True
            except BadNode as problem:
                log.error("{problem}; everything is read again", problem=problem)
                self._missed = True
                found[number] = None

        await each(unread, read, WIDTH)
        for number in unread:
            change = found.get(number)
            if change is not None:
                await self.apply(change)
            self._last_change = number

    async def apply(self, change: Change) -> None:
        """A19, A20: one change, read from its payload as far as that is possible."""
        if change.broker_id is not None:
            await self._read_incarnation(str(change.broker_id))
            self._stale.add(Part.BROKERS)
        name = change.topic
        if name is None:
            return
        if change.kind == "deleted" and change.topic_id is not None:
            self.known.bury(change.topic_id)
            return
        if change.kind == "resign":
            for index, one in change.states.items():
                self.known.resignations[name, index] = one.state.leader_epoch
        elif change.kind == "assignment":
            await self._read_assignment(name)
        topic = self.known.topics.get(name)
        if topic is None or topic.topic_id != change.topic_id or not self._covers(change):
            await self._read_topic(name)
            topic = self.known.topics.get(name)
        if topic is not None and topic.topic_id == change.topic_id and not self.known.is_dead(topic):
            topic.has_partitions_node = True
            self.known.put_states(name, change.states.items())

    def _covers(self, change: Change) -> bool:
        """Whether a topic is known well enough that the change tells nothing beyond its states."""
        if change.kind in ("states", "assignment", "resign"):
            return True
        topic = self.known.topics.get(change.topic or "")
        if topic is None or topic.topic_id != change.topic_id or not change.states:
            return False
        return change.kind == "topic" and all(index in topic.assignment.partitions for index in change.states)

    async def read_brokers(self) -> None:
        """All registrations, whatever the children look like: a broker may be another life under the same id."""
        names = await self._children(Part.BROKERS)
        found: dict[int, LiveBroker] = {}

        async def read(name: str) -> None:
            try:
                data, stat = await self._session.get(paths.broker(int(name)))
                found[int(name)] = LiveBroker(BrokerRegistration.decode(int(name), data), stat.czxid)
                if int(name) not in self.known.incarnations:
                    await self._read_incarnation(name)
            except NoNode:
                pass
            except (BadNode, ValueError) as problem:
                log.error("broker {name} cannot be read: {problem}", name=name, problem=problem)

        await each(names, read, WIDTH)
        self.known.set_brokers(dict(sorted(found.items())))

    async def _read_incarnation(self, name: str) -> None:
        try:
            data, stat = await self._session.get(paths.incarnation(int(name)))
            self.known.set_incarnation(Incarnation.decode(int(name), data), stat.version)
        except NoNode:
            pass
        except (BadNode, ValueError) as problem:
            log.error("the incarnation of broker {name} cannot be read: {problem}", name=name, problem=problem)

    async def _read_controller(self) -> None:
        # `exists` arms the watch whether the node is there or not, `get` would not.
        try:
            await self._session.exists(paths.CONTROLLER, self._watch(Part.CONTROLLER))
        except CoordinationError:
            self._armed.discard(Part.CONTROLLER)
            raise
        try:
            data, _ = await self._session.get(paths.CONTROLLER)
            self.known.set_controller(ControllerNode.decode(data).broker_id)
        except NoNode:
            self.known.set_controller(-1)
        except BadNode as problem:
            log.error("{problem}", problem=problem)

    async def _read_configs(self) -> None:
        numbers = sorted(_number(name) for name in await self._children(Part.CONFIGS))
        unread = [number for number in numbers if number > self._last_config]
        for number in unread:
            path = f"{paths.CONFIG_CHANGE_PREFIX}{number:010}"
            try:
                data, _ = await self._session.get(path)
                kind, _, name = ConfigChange.decode(path, data).entity_path.partition("/")
                if kind == "topics":
                    await self._read_overrides(name)
                elif kind == "brokers":
                    await self._read_broker_settings(name)
            except NoNode:
                pass
            except BadNode as problem:
                log.error("{problem}", problem=problem)
            self._last_config = number
        if numbers and numbers[-1] < self._last_config:
            self._missed = True

    async def _read_topics(self) -> None:
        """The controller's look at the topics that exist: tools of the ZooKeeper age tell nobody of a new one."""
        for name in await self._children(Part.TOPICS):
            if name not in self.known.topics and name not in self.known.frozen:
                await self._read_topic(name)

    async def _read_wishes(self) -> None:
        self.known.wishes = set(await self._children(Part.WISHES))

    # ---- one topic

    async def _read_topic(self, name: str) -> None:
        """Assignment, states and settings of one topic; one that is gone is forgotten."""
        try:
            data, stat = await self._session.get(paths.topic(name))
            topic = self.known.set_assignment(TopicAssignment.decode(name, data), stat.version)
            before = dict(topic.states)
            overrides = await self._overrides(name)
            states, bare, has_parent = await self._states(name)
        except NoNode:
            self.known.forget_topic(name)
            return
        except BadNode as problem:
            self.freeze(name, problem)
            return
        self.known.frozen.pop(name, None)
        self.known.set_overrides(name, overrides)
        topic.has_partitions_node, topic.bare = has_parent, bare
        self.known.put_states(name, states)
        # What was written while we read is newer than what we read, so only what was known before can be gone.
        gone = set(before) - {index for index, _ in states}
        self.known.drop_states(name, [index for index in gone if topic.states.get(index) is before[index]])

    async def _read_assignment(self, name: str) -> None:
        """Who has the replicas; nothing else of the topic has changed."""
        try:
            data, stat = await self._session.get(paths.topic(name))
            topic = self.known.topics.get(name)
            assignment = TopicAssignment.decode(name, data)
            if topic is not None and topic.topic_id == assignment.topic_id:
                self.known.set_assignment(assignment, stat.version)
        except NoNode:
            self.known.forget_topic(name)
        except BadNode as problem:
            self.freeze(name, problem)

    async def _states(self, name: str) -> tuple[Sequence[tuple[int, VersionedState]], set[int], bool]:
        """(states, partitions whose node has none, whether their parent exists)"""
        states: list[tuple[int, VersionedState]] = []
        bare: set[int] = set()
        try:
            indexes = await self._session.children(paths.partitions(name))
        except NoNode:
            return states, bare, False

        async def read(text: str) -> None:
            index = int(text)
            try:
                data, stat = await self._session.get(paths.partition_state(name, index))
            except NoNode:
                bare.add(index)
                return
            states.append((index, VersionedState(PartitionState.decode(name, index, data), stat.version)))

        await each((text for text in indexes if text.isdigit()), read, WIDTH)
        return states, bare, True

    async def _overrides(self, name: str) -> dict[str, str] | None:
        path = paths.topic_config(name)
        try:
            data, _ = await self._session.get(path)
        except NoNode:
            return None
        return dict(EntityConfig.decode(path, data).overrides)

    async def _read_overrides(self, name: str) -> None:
        try:
            self.known.set_overrides(name, await self._overrides(name))
        except BadNode as problem:
            log.error("{problem}; the settings of {name} stay as they were", problem=problem, name=name)

    async def _read_broker_settings(self, name: str) -> None:
        path = paths.broker_config(name)
        try:
            data, _ = await self._session.get(path)
            self.known.set_broker_settings(name, EntityConfig.decode(path, data).overrides)
        except NoNode:
            self.known.set_broker_settings(name, {})
        except BadNode as problem:
            log.error("{problem}; these settings stay as they were", problem=problem)

    def _bury(self, name: str) -> None:
        try:
            self.known.bury(uuid_bytes(name))
        except ValueError:
            log.error("{parent}/{name} is not a topic id", parent=paths.DELETED, name=name)

    def freeze(self, name: str, problem: BadNode) -> None:
        """A31: nothing is decided for the topic until its node can be read."""
        if self.known.freeze(name, str(problem)):
            log.error("topic {name} is left as it is: {problem}", name=name, problem=problem)


_READERS: dict[Part, Callable[[Learner], Any]] = {
    Part.CHANGES: Learner._read_changes,
    Part.BROKERS: Learner.read_brokers,
    Part.CONFIGS: Learner._read_configs,
    Part.CONTROLLER: Learner._read_controller,
    Part.TOPICS: Learner._read_topics,
    Part.WISHES: Learner._read_wishes,
}


def _number(name: str) -> int:
    try:
        return paths.sequence_number(name)
    except ValueError:
        return -1


def _highest(names: Sequence[str]) -> int:
    return max(map(_number, names), default=-1)
