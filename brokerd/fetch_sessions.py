"""Incremental fetch sessions (KIP-227): a client names its partitions once, later only what changes, and is answered
only for the partitions that have something new.

Pure: a cache of what clients asked for; time comes in as an argument. A session belongs to its id, not to a
connection. When all places are taken a session that was not used for EVICT_AFTER_SECONDS makes room; if there is none
the client is answered with session 0, which it takes as "no session": it goes on with full requests.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable

from kafka_wire import errors
from kafka_wire.schema.fetch import FetchPartition, FetchRequest

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = -1
EVICT_AFTER_SECONDS = 120.0
_MAX_INT = 2**31 - 1


class Entry:
    """One partition of a session: what is asked of it, and what the client was last told."""

    __slots__ = ("asked", "high_watermark", "log_start", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.high_watermark = -1
        self.log_start = -1


Key = tuple[str | bytes, int]


class Session:
    """What one client fetches. `entries` is in the order of service: who was given records goes to the end."""

    __slots__ = ("entries", "epoch", "session_id", "used", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool, now: float) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.uses_ids = uses_ids
        self.used = now
        self.entries: OrderedDict[Key, Entry] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        """Adds, changes and forgets partitions as the request says."""
        for topic in request.topics:
            name = topic.topic_id if self.uses_ids else topic.topic
            for asked in topic.partitions:
                known = self.entries.get((name, asked.partition))
                if known is None:
                    self.entries[name, asked.partition] = Entry(topic.topic, topic.topic_id, asked)
                else:
                    known.asked = asked
        for gone in request.forgotten_topics_data:
            name = gone.topic_id if self.uses_ids else gone.topic
            for index in gone.partitions:
                self.entries.pop((name, index), None)

    def served(self, keys: Iterable[Key]) -> None:
        """These were given records: the others come first next time, so that no partition starves."""
        for key in keys:
            if key in self.entries:
                self.entries.move_to_end(key)


class FetchSessions:
    """All sessions of a broker, least recently used first."""

    def __init__(self, slots: int, new_id: Callable[[], int] = lambda: random.randint(1, _MAX_INT)) -> None:
        self.slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def uses_ids(self, session_id: int) -> bool:
        """Whether the session names its topics by id; False if there is none."""
        found = self._sessions.get(session_id)
        return found is not None and found.uses_ids

    def find(self, request: FetchRequest, uses_ids: bool, now: float) -> Session | None:
        """The session that a request opens or goes on with, its partitions brought up to date; None for a request
        without one. Raises the errors that tell a client to begin anew."""
        if request.session_epoch in (FIRST_EPOCH, LAST_EPOCH):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == LAST_EPOCH:
                return None
            session = self._open(uses_ids, now)
            if session is not None:
                session.update(request)
            return session
        found = self._sessions.get(request.session_id)
        if found is None:
            raise errors.FetchSessionIdNotFound(f"there is no fetch session {request.session_id}")
        if found.epoch != request.session_epoch:
            raise errors.InvalidFetchSessionEpoch(f"epoch {request.session_epoch} where {found.epoch} is due")
        if found.uses_ids != uses_ids:
            raise errors.FetchSessionTopicIdError("the session was opened with the other way of naming topics")
        found.epoch = found.epoch + 1 if found.epoch < _MAX_INT else 1
        found.used = now
        self._sessions.move_to_end(found.session_id)
        found.update(request)
        return found

    def _open(self, uses_ids: bool, now: float) -> Session | None:
        if len(self._sessions) >= self.slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used < EVICT_AFTER_SECONDS:
                return None
            del self._sessions[oldest.session_id]
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = Session(session_id, uses_ids, now)
        return session
