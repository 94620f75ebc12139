"""The controller: elected in ZooKeeper, it carries out what `decisions` decides.

Every broker has one of these; at most one at a time has authority. Authority is a version of /controller_epoch: it is
taken together with /controller in one multi, every write checks it, and the first write that fails this check ends it
(A2). So two controllers may believe in themselves for a moment, but only one can write.

Decisions are made in small steps: some topics, one multi at a time, each result applied to what is known before the
next step. Whatever fails is read again and decided again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger

from brokerd.cluster import decisions, preferred, reassignment
from brokerd.cluster.asynchronous import pause, spawn
from brokerd.cluster.cluster_state import ClusterState, KnownTopic
from brokerd.cluster.decisions import Authority, Multi
from brokerd.cluster.learning import Learner
from brokerd.cluster.preferred import Balance, Tenure
from brokerd.cluster.purging import Purger
from zk_schema import paths
from zk_schema.nodes import ControllerEpoch, ControllerNode
from zk_schema.operations import (
    BadVersion,
    ConnectionLost,
    CoordinationError,
    Create,
    Delete,
    NodeError,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    Set,
)
from zk_schema.session import Session

log = Logger()

RECHECK_SECONDS = 30.0
RETRY_SECONDS = 1.0
OVERTAKEN_SECONDS = 0.05
STEP_SECONDS = 0.003
"""How long one step may look at topics before the reactor gets its turn."""
TOPICS_AT_A_TIME = 32
PURGE_EVERY_SECONDS = 300.0
MINUTE = 60.0
LOGGED_REASONS = 20


class Controller:
    """Election and the loop of decisions. `eligible` says whether this broker is registered and not leaving."""

    def __init__(
        self,
        reactor: Any,
        session: Session,
        learner: Learner,
        broker_id: int,
        *,
        eligible: Callable[[], bool],
        unclean: Callable[[KnownTopic], bool],
        may_delete: bool,
        applied: Callable[[], None],
        balance: Callable[[], Balance] = lambda: Balance(False, 10, 300.0),
    ) -> None:
        self._reactor = reactor
        self._session = session
        self._learner = learner
        self._known: ClusterState = learner.known
        self._broker_id = broker_id
        self._eligible = eligible
        self._unclean = unclean
        self._may_delete = may_delete
        self._applied = applied
        self.authority: Authority | None = None
        self._authority_session: int | None = None
        self._electing = False
        self._deciding = False
        self._todo: dict[str, None] = {}
        self._seen_brokers = -1
        self._timer: Any = None
        self._next_purge = 0.0
        self._purger = Purger(session, self._known)
        self._balance = balance
        self._tenure = Tenure()
        self._next_balance = 0.0
        self.decided_once = False
        """Whether everything has been looked at since this broker became controller."""

    # ---- what others tell

    def look(self, names: Sequence[str] | set[str]) -> None:
        """Something is known anew: these topics, or the brokers, or who is controller."""
        self._tenure.observe(self._known.brokers, self._reactor.seconds())
        if self.authority is not None and self._authority_session != self._session.session_id:
            self.resign("the ZooKeeper session is over")
        if self.authority is None:
            if self._known.controller_id == -1 and self._eligible() and not self._electing:
                self._electing = True
                spawn(self._elect()).addErrback(lambda failure: log.failure("the election failed", failure))
            return
        if self._known.broker_changes != self._seen_brokers:
            self._seen_brokers = self._known.broker_changes
            self._todo.update(dict.fromkeys(self._known.topics))
        self._todo.update(dict.fromkeys(names))
        self._decide_soon()

    def resign(self, why: str) -> None:
        """No longer controller."""
        if self.authority is None:
            return
        log.info("broker {id} is no longer controller: {why}", id=self._broker_id, why=why)
        self.authority = None
        self.decided_once = False
        self._todo.clear()
        self._learner.control(False)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def stop(self) -> None:
        """Ends it; the node goes with the session."""
        self.resign("it stops")

    # ---- election

    async def _elect(self) -> None:
        """One multi: /controller, and the next epoch at the version read before; so two winners are impossible (Z1)."""
        session_id = self._session.session_id
        try:
            authority = await self._stand()
        except CoordinationError as problem:
            log.debug("not elected: {problem}", problem=problem)
            authority = None
            if not isinstance(problem, SessionExpired):
                self._later(RETRY_SECONDS)
        finally:
            self._electing = False
        if authority is None or session_id != self._session.session_id:
            return
        self.authority, self._authority_session = authority, session_id
        log.info("broker {id} is controller, epoch {epoch}", id=self._broker_id, epoch=authority.epoch)
        self._known.set_controller(self._broker_id)
        self._seen_brokers = -1
        self._learner.control(True)
        self._next_purge = self._reactor.seconds() + PURGE_EVERY_SECONDS
        self._next_balance = self._reactor.seconds() + self._balance().interval_seconds
        self._applied()

    async def _stand(self) -> Authority | None:
        node = ControllerNode(self._broker_id, int(time.time() * 1000))
        try:
            data, stat = await self._session.get(paths.CONTROLLER_EPOCH)
            won = Authority(ControllerEpoch.decode(data).epoch + 1, stat.version + 1)
            epoch: Create | Set = Set(paths.CONTROLLER_EPOCH, ControllerEpoch(won.epoch).encode(), stat.version)
        except NoNode:
            won = Authority(1, 0)
            epoch = Create(paths.CONTROLLER_EPOCH, ControllerEpoch(1).encode())
        try:
            await self._session.multi([Create(node.path, node.encode(), ephemeral=True), epoch])
        except (NodeExists, BadVersion):
            return None
        except ConnectionLost:
            # The reply may be lost of a multi that was applied: the node says whose it is.
            stat_of = await self._session.exists(paths.CONTROLLER)
            if stat_of is None or stat_of.ephemeral_owner != self._session.session_id:
                raise
            _, stat = await self._session.get(paths.CONTROLLER_EPOCH)
            if stat.version != won.version:
                raise
        return won

    # ---- deciding

    def _decide_soon(self) -> None:
        if not self._deciding and self.authority is not None:
            self._deciding = True
            self._reactor.callLater(0, self._begin)

    def _begin(self) -> None:
        spawn(self._decide()).addErrback(lambda failure: log.failure("the controller failed", failure))

    async def _decide(self) -> None:
        try:
            await self._steps()
            await self._replace_weary()
            await self._balance_if_due()
            await self._purge_if_due()
            if self.authority is not None and not self._todo:
                self.decided_once = True
                self._applied()
            self._later(0 if self._todo else RECHECK_SECONDS)
        except CoordinationError as problem:
            log.debug("deciding stopped: {problem}", problem=problem)
            self._later(RETRY_SECONDS)
        finally:
            self._deciding = False

    def _later(self, seconds: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._reactor.callLater(seconds, self._recheck)

    def _recheck(self) -> None:
        """A30: level-triggered, so that a lost event costs time and nothing else."""
        self.look(set(self._known.topics) if not self._todo else set())

    async def _steps(self) -> None:
        for multi in self._wishes():
            await self._write(multi)
        while self.authority is not None and self._todo:
            for multi in self._step():
                if self.authority is not None:
                    await self._write(multi)
            # The reactor's turn, also when there was nothing to write.
            await pause(self._reactor, 0)

    def _wishes(self) -> list[Multi]:
        if self.authority is None:
            return []
        now_ms = int(time.time() * 1000)
        return decisions.grant_wishes(self._known, self.authority, now_ms, allowed=self._may_delete)

    def _step(self) -> list[Multi]:
        """Decides for as many topics as fit in a step."""
        assert self.authority is not None
        began, multis = self._reactor.seconds(), list[Multi]()
        while self._todo and not multis and self._reactor.seconds() - began < STEP_SECONDS:
            names = [self._todo.popitem()[0] for _ in range(min(len(self._todo), TOPICS_AT_A_TIME))]
            multis = decisions.decide(
                self._known, names, self.authority, unclean=self._unclean, new_id=lambda: os.urandom(16)
            )
            multis += reassignment.finish(self._known, names, self.authority)
            if multis:
                self._todo.update(dict.fromkeys(names))  # until there is nothing left to decide for them
        return multis

    async def _write(self, multi: Multi) -> None:
        try:
            await self._session.multi(multi.all())
        except NodeError as problem:
            if problem.path == paths.CONTROLLER_EPOCH:
                self.resign("another broker has become controller")
                return
            log.info("a decision came too late and is made again: {problem}", problem=problem)
            await self._reread(multi.topics)
            await pause(self._reactor, OVERTAKEN_SECONDS)
            return
        except CoordinationError:
            # Applied or not: what is there now says so.
            self._todo.update(dict.fromkeys(multi.topics))
            for name in multi.topics:
                self._learner.read_topic(name)
            raise
        _report(multi.reasons)
        for change in multi.changes:
            await self._learner.apply(change)
        self._known.wishes -= {one.path.rpartition("/")[2] for one in multi.operations if _ends_wish(one)}
        for name, index in multi.dropped:
            self._known.drop_states(name, [index])
        self._applied()

    async def _reread(self, names: Sequence[str]) -> None:
        for name in names:
            await self._learner.read_topic(name)
        self._todo.update(dict.fromkeys(names))
        self._known.wishes = set(await self._session.children(paths.DELETE_TOPICS))

    # ---- A25, A32

    async def _replace_weary(self) -> None:
        if self.authority is not None and self._known.resignations:
            pieces = preferred.replace_weary(self._known, self.authority.epoch)
            self._known.resignations.clear()
            for multi in decisions.pack(pieces, self.authority):
                await self._write(multi)

    async def _balance_if_due(self) -> None:
        now, balance = self._reactor.seconds(), self._balance()
        if self.authority is None or not balance.enabled or now < self._next_balance:
            return
        settled, most = self._tenure.settled(now), preferred.PER_MINUTE
        pieces = preferred.rebalance(self._known, settled, balance.percentage, most, self.authority.epoch)
        self._next_balance = now + (MINUTE if len(pieces) == most else balance.interval_seconds)
        for multi in decisions.pack(pieces, self.authority):
            if self.authority is not None:
                await self._write(multi)

    # ---- A20

    async def _purge_if_due(self) -> None:
        if self.authority is None or self._reactor.seconds() < self._next_purge:
            return
        self._next_purge = self._reactor.seconds() + PURGE_EVERY_SECONDS
        await self._purger.purge()


def _ends_wish(operation: Operation) -> bool:
    return isinstance(operation, Delete) and operation.path.startswith(paths.DELETE_TOPICS)


def _report(reasons: Sequence[str]) -> None:
    """One line per decision; of a flood the first ones, and how many more."""
    for reason in reasons[:LOGGED_REASONS]:
        log.info("controller: {reason}", reason=reason)
    if len(reasons) > LOGGED_REASONS:
        log.info("controller: and {n} decisions of the same kind", n=len(reasons) - LOGGED_REASONS)
