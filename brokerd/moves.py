"""Replicas and leaders moved on demand, through ZooKeeper, from any broker.

A broker writes the step that a client asks for in multis that are fenced by its own incarnation and by the versions of
every node they change; so they are right or refused, whoever is controller. What takes time afterwards - the copying,
the last step of a reassignment - is the controller's and the leaders' (A27).

Every method returns a Deferred of what became of each partition: None, or the `KafkaError` for the client. It fails
with RequestTimedOut where ZooKeeper did not answer in time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from brokerd.cluster import decisions, preferred, reassignment
from brokerd.cluster.asynchronous import spawn
from brokerd.cluster.reassignment import Replicas, Wish
from brokerd.cluster.writing import Again, Writer
from kafka_wire import errors
from kafka_wire.errors import KafkaError
from zk_schema.operations import BadVersion, CoordinationError, NoNode

if TYPE_CHECKING:
    from brokerd.cluster.cluster_state import KnownTopic
    from brokerd.cluster.decisions import Multi
    from brokerd.cluster.learning import Learner
    from zk_schema.session import Session

log = Logger()

LOGGED_REASONS = 20

Results = dict[int, KafkaError | None]
Place = tuple[str, int]
"""A topic's name and a partition's index."""


class Moves:
    """What handlers ask for. `published` makes a new view of what was learned."""

    def __init__(self, session: Session, learner: Learner, writer: Writer, *, published: Callable[[], None]) -> None:
        self._session = session
        self._learner = learner
        self._known = learner.known
        self._writer = writer
        self._publish = published

    # ---- reassignment

    def ongoing(self) -> dict[str, dict[int, Replicas]]:
        """All reassignments under way, by topic."""
        found = {
            name: reassignment.moving(topic.assignment)
            for name, topic in sorted(self._known.topics.items())
            if not self._known.is_dead(topic)
        }
        return {name: partitions for name, partitions in found.items() if partitions}

    def reassign(
        self, name: str, targets: Mapping[int, Sequence[int] | None], *, same_number: bool = False
    ) -> Deferred[Results]:
        """Begins to move partitions of a topic to these replicas, or cancels (None). With `same_number` no partition
        may get more or fewer replicas than it has.
        """
        return spawn(self._reassign(name, targets, same_number))

    async def _reassign(self, name: str, targets: Mapping[int, Sequence[int] | None], same_number: bool) -> Results:
        await self._writer.registered()
        results: Results = {}
        asked: dict[int, Wish] = {}
        for index, target in targets.items():
            try:
                asked[index] = reassignment.wish(self._topic(name), index, target, same_number=same_number)
            except KafkaError as problem:
                results[index] = problem

        async def write() -> bool:
            """One multi; whether that was all."""
            begun = reassignment.begin(self._known, self._topic(name), asked, (self._writer.fence(),))
            if begun.multi is not None:
                await self._write(begun.multi)
            results.update(begun.refused)
            results.update(dict.fromkeys(begun.settled))
            for index in results:
                asked.pop(index, None)
            return not asked

        while asked and not await self._writer.attempt(write):
            pass
        return results

    # ---- elections

    def elect(self, asked: Iterable[Place] | None, *, unclean: bool) -> Deferred[dict[Place, KafkaError | None]]:
        """Elects the preferred leaders of these partitions (None: of all), or, unclean, whoever is there where nobody
        leads: records that were acknowledged may be lost. Of all partitions only those are told that needed it.
        """
        return spawn(self._elect(asked, unclean))

    async def _elect(self, asked: Iterable[Place] | None, unclean: bool) -> dict[Place, KafkaError | None]:
        await self._writer.registered()
        places = self._everywhere() if asked is None else list(dict.fromkeys(asked))
        tried: set[Place] = set()
        results: dict[Place, KafkaError | None] = {}

        async def write() -> None:
            results.clear()
            pieces = []
            for name, index in places:
                try:
                    pieces.append(preferred.on_demand(self._known, self._topic(name), index, unclean=unclean))
                    results[name, index] = None
                except errors.ElectionNotNeeded as problem:
                    # After a lost reply our own election is what makes it unneeded.
                    results[name, index] = None if (name, index) in tried else problem
                except KafkaError as problem:
                    results[name, index] = problem
            for multi in decisions.pack(pieces, fences=(self._writer.fence(),)):
                tried.update((change.topic or "", index) for change in multi.changes for index in change.states)
                await self._write(multi)

        await self._writer.attempt(write)
        if asked is None:
            return {place: one for place, one in results.items() if not isinstance(one, errors.ElectionNotNeeded)}
        return results

    def _everywhere(self) -> list[Place]:
        return [
            (name, index)
            for name, topic in sorted(self._known.topics.items())
            if not self._known.is_dead(topic)
            for index in sorted(topic.states)
        ]

    # ---- common

    async def _write(self, multi: Multi) -> None:
        try:
            await self._session.multi(multi.all())
        except (BadVersion, NoNode) as problem:
            await self._reread(multi)
            raise Again from problem
        except CoordinationError:
            await self._reread(multi)  # applied or not: what is there now says so
            raise
        for reason in multi.reasons[:LOGGED_REASONS]:
            log.info("asked for by a client: {reason}", reason=reason)
        if len(multi.reasons) > LOGGED_REASONS:
            log.info("and {n} more that a client asked for", n=len(multi.reasons) - LOGGED_REASONS)
        for change in multi.changes:
            with contextlib.suppress(CoordinationError):
                await self._learner.apply(change)
        self._publish()

    async def _reread(self, multi: Multi) -> None:
        for name in multi.topics:
            await self._learner.read_topic(name)
        self._publish()

    def _topic(self, name: str) -> KnownTopic:
        topic = self._known.topics.get(name)
        if topic is None or self._known.is_dead(topic):
            raise errors.UnknownTopicOrPartition(f"There is no topic '{name}'.")
        return topic
