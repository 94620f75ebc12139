"""A member's life in one ZooKeeper session, and the waiting that goes with a connection that comes and goes.

Every write of a member names its life: the session it was begun in and the id that exists only in that session (F9).
Work of a life that is over ends with `LifeOver`; work that met a broken connection waits here for it to come back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import attrs

from consumer_group.asynchronous import Signal, pause
from zk_schema import paths
from zk_schema.operations import ANY_VERSION, Check, ConnectionLost, NodeExists, NoNode, Operation, SessionExpired
from zk_schema.session import SessionState

T = TypeVar("T")
_RETRY_SECONDS = 0.05


class LifeOver(Exception):
    """What this work belonged to is over: the session ended, or the member joined anew."""


class Evicted(Exception):
    """Our registration is gone though the session lives (B18)."""


@attrs.frozen(eq=False)
class Life:
    """One registration of a member. `consumer_id` is new for every one, so its node's existence is a fence (F4)."""

    group_id: str
    session_id: int
    consumer_id: str

    @property
    def path(self) -> str:
        """Our registration."""
        return paths.group_member(self.group_id, self.consumer_id)

    @property
    def fence(self) -> list[Operation]:
        """What every multi of this life begins with."""
        return [Check(self.path, ANY_VERSION)]

    def is_fence(self, problem: NoNode) -> bool:
        """Whether a multi failed because we are not registered any more."""
        return problem.path == self.path


class GroupSession:
    """The ZooKeeper session as the group's parts use it. Everything runs on the reactor's thread."""

    def __init__(self, reactor: Any, session: Any) -> None:
        self.reactor = reactor
        self.zookeeper = session
        self.life: Life | None = None
        self._moved = Signal()
        session.add_listener(self._heard)

    def _heard(self, state: SessionState) -> None:
        if state in (SessionState.NEW_SESSION, SessionState.CONNECTED, SessionState.LOST):
            self._moved.fire()

    def check(self, life: Life) -> None:
        """LifeOver unless this is the life of now."""
        if life is not self.life or self.zookeeper.session_id != life.session_id:
            raise LifeOver

    def over(self) -> None:
        """The life of now has ended: whoever waits in it learns so."""
        self.life = None
        self._moved.fire()

    async def connection(self, session_id: int) -> None:
        """Returns when this session is connected; LifeOver when it has ended."""
        while self.zookeeper.session_id == session_id:
            if self.zookeeper.connected:
                return
            await self._moved.wait()
        raise LifeOver

    async def persist(self, session_id: int, work: Callable[[], Awaitable[T]]) -> T:
        """Repeats a piece of work that may be repeated until it was answered in this session. LifeOver."""
        while True:
            try:
                return await work()
            except ConnectionLost:
                await pause(self.reactor, _RETRY_SECONDS)
                await self.connection(session_id)
            except SessionExpired:
                raise LifeOver from None

    async def ensure(self, *nodes: tuple[str, bytes]) -> None:
        """Creates persistent nodes that are missing, parents first."""
        for path, data in nodes:
            with contextlib.suppress(NodeExists):
                await self.zookeeper.create(path, data)
