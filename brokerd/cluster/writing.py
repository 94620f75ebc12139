"""Writes in the name of this broker: fenced by its incarnation, repeated until ZooKeeper has taken them.

A write is a function that reads what it depends on and sends one multi; it is called again as a whole when the answer
was lost or somebody else was faster, so it must find out by itself whether its last try was applied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.logger import Logger

from brokerd.cluster.asynchronous import Signal, pause, until
from kafka_wire import errors
from zk_schema import paths
from zk_schema.nodes import BadNode, EntityConfig
from zk_schema.operations import Check, CoordinationError, Create, MultiTooLarge, NodeError, NoNode, Operation, Set

if TYPE_CHECKING:
    from brokerd.cluster.life import Life
    from zk_schema.session import Session

log = Logger()

PATIENCE_SECONDS = 60.0
"""How long a call tries before it gives up; clients set their own, shorter deadlines on top."""
RETRY_SECONDS = 0.2

T = TypeVar("T")

Alteration = Callable[[Mapping[str, str]], dict[str, str]]
"""The settings wanted, of the settings now; raises KafkaError for what is not possible."""


class Again(Exception):
    """Somebody was faster; decide anew."""


class Writer:
    """What all writes of a broker have in common."""

    def __init__(self, reactor: Any, session: Session, life: Life, broker_id: int, *, changed: Signal) -> None:
        self._reactor = reactor
        self._session = session
        self._life = life
        self._broker_id = broker_id
        self._changed = changed

    def fence(self) -> Check:
        """Fails the multi of a life of this broker that is over (F9)."""
        return Check(paths.incarnation(self._broker_id), self._life.epoch)

    async def registered(self) -> None:
        """Waits until this broker may write; RequestTimedOut if it may not for long."""

        def registered() -> bool:
            return self._life.is_registered

        if not await until(self._reactor, self._changed, registered, PATIENCE_SECONDS):
            raise errors.RequestTimedOut("This broker has no session with ZooKeeper.")

    async def until(self, condition: Callable[[], bool]) -> bool:
        """Waits until what was written holds here; says whether it does before the patience is over."""
        return bool(await until(self._reactor, self._changed, condition, PATIENCE_SECONDS))

    async def attempt(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeats work that ZooKeeper did not answer, or that others overtook, until the patience is over."""
        deadline = self._reactor.seconds() + PATIENCE_SECONDS
        while True:
            try:
                return await work()
            except MultiTooLarge as problem:
                raise errors.InvalidRequest(f"This is too much for one change in ZooKeeper: {problem}") from problem
            except (CoordinationError, Again) as problem:
                self._look_at_fence(problem)
                if self._reactor.seconds() > deadline:
                    raise errors.RequestTimedOut(f"ZooKeeper did not take it in time: {problem}") from problem
                log.info("a change is tried again: {problem}", problem=problem.__cause__ or problem)
                await pause(self._reactor, RETRY_SECONDS)
                await self.registered()

    async def altering(self, path: str, change: Alteration) -> tuple[dict[str, str], Operation | None]:
        """The settings that a change makes of those in a node, and the operation that stores them, if that is needed.

        The operation fails if the node was changed since: so of two changes at the same time none is lost. A node
        that cannot be read is replaced.
        """
        try:
            data, stat = await self._session.get(path)
        except NoNode:
            wanted = change({})
            return wanted, Create(path, EntityConfig(path, wanted).encode())
        try:
            now = dict(EntityConfig.decode(path, data).overrides)
        except BadNode:
            now = {}
        wanted = change(now)
        if wanted == now:
            return wanted, None
        return wanted, Set(path, EntityConfig(path, wanted).encode(), stat.version)

    async def replacing(self, config: EntityConfig) -> Operation:
        """The operation that makes the node or replaces what it holds."""
        found = await self._session.exists(config.path)
        if found is None:
            return Create(config.path, config.encode())
        return Set(config.path, config.encode(), found.version)

    def _look_at_fence(self, problem: Exception) -> None:
        cause = problem.__cause__ if isinstance(problem, Again) else problem
        if isinstance(cause, NodeError) and cause.operation == self.fence():
            self._life.fenced("its incarnation was changed by somebody else")
