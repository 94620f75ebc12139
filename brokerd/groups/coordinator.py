"""Hosts the group machines: gives them their events, carries out their effects, keeps their time.

    a request -> slot and lease checked -> an event for the group's machine -> effects: answers, a write of the group

Rules: the machine decides, this file acts. A write is done before the machine hears of it (K3). Groups live here only
while their slot is held; when it is lost everybody who waits is sent away (16), and when it is won its groups are read
and go on without a rebalance (K4). Without a lease nothing is answered but 16, and nobody's silence counts (K7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.defer import Deferred, DeferredSemaphore, fail
from twisted.logger import Logger

from brokerd.cluster.asynchronous import each, pause, spawn
from brokerd.groups import machine
from brokerd.groups.group_store import GroupStore, Nodes
from brokerd.groups.offset_store import OffsetStore
from brokerd.groups.slots import Slot, Slots
from brokerd.groups.values import (
    Answer,
    Commit,
    Event,
    Group,
    Heartbeat,
    Join,
    Limits,
    Resume,
    State,
    Store,
    Tick,
    Unload,
    Written,
)
from kafka_wire import errors
from zk_schema import paths
from zk_schema.group_nodes import StoredGroup
from zk_schema.nodes import BadNode
from zk_schema.operations import CoordinationError

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from zk_schema.session import Session

log = Logger()

LOAD_WIDTH = 32
"""Coordinator that are read at the same time."""
COPY_WIDTH = 8
"""Groups whose copies for tools are brought up to date at the same time: after a failover all of them want it."""
RETRY_SECONDS = 0.5
COPY_RETRY_SECONDS = 5.0
NO_LEASE_SECONDS = 1.0


@attrs.define(eq=False)
class Hosted:
    """A group that lives here. `stores` are writes that were asked for and not begun; `empty_since_ms` is the time of
    the last write, which for an empty group is the time since when it is empty."""

    slot: Slot
    nodes: Nodes
    group: Group
    timer: Any = None
    stores: list[Store] = attrs.field(factory=list)
    storing: bool = False
    copying: bool = False
    copy: StoredGroup | None = None
    empty_since_ms: int = 0

    @property
    def forgettable(self) -> bool:
        """Whether nothing at all is known of it: it was only asked for."""
        group = self.group
        return self.nodes.version is None and group.state is State.EMPTY and not group.pending and not self.storing


@contextmanager
def in_vain(error: type[errors.KafkaError] = errors.CoordinatorNotAvailable) -> Iterator[None]:
    """What ZooKeeper did not do, or has unreadable, as the error that a client is told."""
    try:
        yield
    except (CoordinationError, BadNode) as problem:
        raise error(f"ZooKeeper was asked in vain: {problem}") from problem


class Coordinator:
    """All groups that this broker coordinates."""

    def __init__(self, reactor: Any, broker: Broker, session: Session, *, registered: Callable[[], bool]) -> None:
        self._reactor = reactor
        self._broker = broker
        self._session = session
        self._limits = Limits(broker.config.group_initial_rebalance_delay_ms, broker.config.group_max_size)
        self.slots = Slots(
            session, broker.config.broker_id, lambda: broker.view, registered=registered, lost=self._slot_lost
        )
        self.store = GroupStore(reactor, session, self.slots)
        self.offsets = OffsetStore(session, self.slots)
        self.hosted: dict[str, Hosted] = {}
        self._unreadable: dict[str, str] = {}
        self._copiers = DeferredSemaphore(COPY_WIDTH)
        self._waiting: dict[int, Deferred[Any]] = {}
        self._tokens = 0
        self._stopped = False

    # ---- what the broker tells

    def look(self) -> None:
        """The view or our registration may have changed."""
        if self._stopped:
            return
        gained, lost = self.slots.refresh()
        for slot in lost:
            self._slot_lost(slot)
        if gained:
            log.info("coordinator of {n} more slots of groups", n=len(gained))
            spawn(self._load(gained)).addErrback(lambda failure: log.failure("loading groups failed", failure))

    def stop(self) -> None:
        """Everybody who waits is sent to another broker."""
        self._stopped = True
        for hosted in list(self.hosted.values()):
            self._unhost(hosted)

    def _slot_lost(self, slot: Slot) -> None:
        for hosted in [one for one in self.hosted.values() if one.slot is slot]:
            self._unhost(hosted)
        if not self.slots.held:
            self._unreadable.clear()

    def _unhost(self, hosted: Hosted) -> None:
        self.hosted.pop(hosted.group.group_id, None)
        self.offsets.forget(hosted.group.group_id)
        self._feed(hosted, Unload(errors.NOT_COORDINATOR))

    # ---- loading (K4)

    async def _load(self, slots: Sequence[Slot]) -> None:
        """Reads the groups of won slots, for as long as they are held and until it succeeds."""
        while not self._stopped:
            mine = {slot.index: slot for slot in slots if slot.held}
            if not mine:
                return
            try:
                await self._load_all(mine)
            except (CoordinationError, errors.KafkaError) as problem:
                log.info("loading groups is tried again: {problem}", problem=problem)
                await pause(self._reactor, RETRY_SECONDS)
                continue
            for slot in mine.values():
                slot.loaded = slot.held
            return

    async def _load_all(self, mine: Mapping[int, Slot]) -> None:
        await self._session.sync(paths.CONSUMERS)  # the last words of our predecessor
        names = [name for name in await self.store.names() if self.slots.index_of(name) in mine]
        await each(names, lambda name: self.load_group(mine[self.slots.index_of(name)], name), LOAD_WIDTH)

    async def load_group(self, slot: Slot, name: str) -> None:
        """Takes in what ZooKeeper says of a group, if it says anything."""
        try:
            nodes, stored = await self.store.read(name)
        except BadNode as problem:
            log.error("group {name} cannot be used: {problem}", name=name, problem=problem)
            self._unreadable[name] = str(problem)
            return
        self._unreadable.pop(name, None)
        if stored is None or not slot.held:
            return
        hosted = Hosted(slot, nodes, machine.restore(stored, self._reactor.seconds()), empty_since_ms=stored.time_ms)
        self.hosted[name] = hosted
        self._plan_tick(hosted)
        self._copy(hosted, stored)

    # ---- events

    def join(self, group_id: str, make: Callable[[int], Join]) -> Deferred[Any]:
        """The answer to a join. Before somebody joins an empty group it is looked up whose group it is (B5)."""
        try:
            hosted = self.host(group_id)
        except errors.KafkaError as problem:
            return fail(problem)
        if hosted.group.state is not State.EMPTY or hosted.group.pending:
            return self.submit(group_id, make)
        return spawn(self._join_empty(hosted, make))

    async def _join_empty(self, hosted: Hosted, make: Callable[[int], Join]) -> Any:
        try:
            with in_vain():
                await self.store.look_at_kind(hosted.nodes)
        except errors.KafkaError:
            self.forget_if_unused(hosted)
            raise
        return await self.submit(hosted.group.group_id, make)

    def submit(self, group_id: str, make: Callable[[int], Event]) -> Deferred[Any]:
        """The machine's answer to an event that carries the token it is given. NotCoordinator,
        CoordinatorLoadInProgress, InvalidGroupId.
        """
        try:
            hosted = self.host(group_id)
        except errors.KafkaError as problem:
            return fail(problem)
        self._tokens += 1
        answer: Deferred[Any] = Deferred()
        self._waiting[self._tokens] = answer
        self._feed(hosted, make(self._tokens))
        self.forget_if_unused(hosted)
        return answer

    def host(self, group_id: str) -> Hosted:
        """The group, made if there is none."""
        slot = self.slot(group_id)
        hosted = self.hosted.get(group_id)
        if hosted is None:
            hosted = self.hosted[group_id] = Hosted(slot, Nodes(group_id), Group(group_id))
        return hosted

    def slot(self, group_id: str) -> Slot:
        """The slot of a group that may be served now. NotCoordinator, CoordinatorLoadInProgress, InvalidGroupId."""
        if not group_id:
            raise errors.InvalidGroupId("the group's name is empty")
        self.look()
        if self._stopped:
            raise errors.NotCoordinator("this broker stops")
        slot = self.slots.slot_for(group_id)
        if group_id in self._unreadable:
            raise errors.CoordinatorNotAvailable(self._unreadable[group_id])
        return slot

    def forget_if_unused(self, hosted: Hosted) -> None:
        """Lets a group go that was only asked for."""
        if hosted.forgettable and self.hosted.get(hosted.group.group_id) is hosted:
            del self.hosted[hosted.group.group_id]

    def _feed(self, hosted: Hosted, event: Event) -> None:
        """One step of the machine, and what it asks for."""
        before = hosted.group
        hosted.group, effects = machine.step(before, event, self._reactor.seconds(), self._limits)
        for effect in effects:
            if isinstance(effect, Answer):
                self._waiting.pop(effect.token).callback(effect.body)
            else:
                hosted.stores.append(effect)
        if hosted.stores and not hosted.storing:
            hosted.storing = True
            spawn(self._write(hosted)).addErrback(lambda failure: log.failure("writing a group failed", failure))
        if hosted.group.state is not before.state and hosted.group.state is not State.DEAD:
            self.offsets.forget(before.group_id)  # offsets may have been moved by a tool between two generations
            log.info(
                "group {name}: {state}, generation {generation}, {n} members",
                name=before.group_id,
                state=hosted.group.state.value,
                generation=hosted.group.generation,
                n=len(hosted.group.members),
            )
        heard = isinstance(event, Heartbeat | Commit) and hosted.timer is not None
        if not heard:
            self._plan_tick(hosted)

    # ---- time (K7)

    def _plan_tick(self, hosted: Hosted) -> None:
        """One timer per group. One that is too early only looks again: heartbeats need not move it."""
        deadline = machine.next_deadline(hosted.group)
        timer = hosted.timer
        if timer is not None and timer.active():
            if deadline is not None and timer.getTime() <= deadline:
                return
            timer.cancel()
        hosted.timer = None
        if deadline is not None:
            delay = max(deadline - self._reactor.seconds(), 0.0)
            hosted.timer = self._reactor.callLater(delay, self._tick, hosted)

    def _tick(self, hosted: Hosted) -> None:
        hosted.timer = None
        if self.hosted.get(hosted.group.group_id) is not hosted:
            return
        if self._session.lease_valid():
            self._feed(hosted, Tick())
            self.forget_if_unused(hosted)
        else:
            self._feed(hosted, Resume())
            if hosted.timer is None:
                hosted.timer = self._reactor.callLater(NO_LEASE_SECONDS, self._tick, hosted)

    # ---- writing (K3, K5)

    async def _write(self, hosted: Hosted) -> None:
        """Writes the newest of what was asked for, until there is no more."""
        while hosted.stores:
            store = hosted.stores[-1]
            hosted.stores.clear()
            stored = attrs.evolve(store.group, time_ms=self._broker.now_ms())
            code = await self._write_once(hosted, stored)
            if code == errors.NONE:
                hosted.empty_since_ms = stored.time_ms
                self._copy(hosted, stored)
            if hosted.group.state is not State.DEAD:
                self._feed(hosted, Written(store.number, code))
        hosted.storing = False

    async def _write_once(self, hosted: Hosted, stored: StoredGroup) -> int:
        try:
            await self.store.write(hosted.slot, hosted.nodes, stored)
        except errors.KafkaError as problem:
            log.warn("group {name} was not written: {problem}", name=stored.group_id, problem=problem)
            return problem.code
        except (CoordinationError, BadNode) as problem:
            log.warn("group {name} was not written: {problem}", name=stored.group_id, problem=problem)
            return errors.COORDINATOR_NOT_AVAILABLE
        return errors.NONE

    def _copy(self, hosted: Hosted, stored: StoredGroup) -> None:
        """Has the copies for tools follow, one after the other; nobody waits for them."""
        hosted.copy = stored
        if not hosted.copying:
            hosted.copying = True
            spawn(self._copy_on(hosted)).addErrback(lambda failure: log.failure("copying a group failed", failure))

    def _copy_once(self, hosted: Hosted, stored: StoredGroup) -> Deferred[None]:
        return spawn(self.store.copy(hosted.slot, hosted.nodes, stored))

    async def _copy_on(self, hosted: Hosted) -> None:
        try:
            while hosted.copy is not None and hosted.slot.held and not self._stopped:
                stored, hosted.copy = hosted.copy, None
                try:
                    await self._copiers.run(self._copy_once, hosted, stored)
                except errors.NotCoordinator:
                    return
                except (CoordinationError, errors.KafkaError) as problem:
                    log.info("the copies of group {name} wait: {why}", name=stored.group_id, why=problem)
                    if hosted.copy is None:
                        hosted.copy = stored
                    await pause(self._reactor, COPY_RETRY_SECONDS)
        finally:
            hosted.copying = False
