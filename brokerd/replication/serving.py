"""The leader's side of replica fetches (A22): one session for each loop of a follower, long polls, bounded answers.

A session (KIP-227) names its partitions once and then only what has changed, so a request costs what has changed, not
what there is: growing partitions announce themselves to the sessions that fetch them. A request speaks for all
partitions of its session: for those that it does not name, that nothing has changed.

Rules. Followers read to the end of what is written and are sent the true high watermark (V3); only records, errors and
divergence end a wait, a moved high watermark goes along. Replicas in sync are served first; those that catch up share
CATCH_UP_BYTES of an answer while there is live traffic, so that a returning broker starves nobody.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from brokerd.handlers.types import LATER, Later, Request
from brokerd.replication.leader_state import NEVER, Heard
from brokerd.waiting import Wait
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.partition import Partition
    from kafka_wire.schema.fetch import FetchPartition

FIRST_VERSION = 15
"""Of Fetch: from here on a request carries the replica's epoch (KIP-903)."""
CATCH_UP_BYTES = 1 << 20
LIVE_SECONDS = 1.0
IDLE_SECONDS = 60.0
FIRST_EPOCH, NO_SESSION_EPOCH = 0, -1
_MAX_INT = 2**31 - 1
_NOTHING = b""
_NOT_DIVERGING = EpochEndOffset()


class _Entry:
    """One partition of a session."""

    __slots__ = ("asked", "diverging", "index", "partition", "problem", "sent_start", "session", "topic_id")

    def __init__(self, session: ReplicaSession, topic_id: bytes, index: int) -> None:
        self.session = session
        self.topic_id = topic_id
        self.index = index
        self.asked: FetchPartition
        self.partition: Partition | None = None
        self.problem: errors.KafkaError | None = None
        self.diverging: EpochEndOffset | None = None
        self.sent_start = -1

    def ask(self, broker: Broker, asked: FetchPartition) -> None:
        """The follower names the partition: its position, or its first question, or the same once more."""
        self.asked = asked
        self.problem = self.diverging = None
        session = self.session
        try:
            partition = broker.partition(broker.topic_name(self.topic_id), self.index)
            self._watch(partition)
            self.diverging = partition.asked(session.replica_id, session.replica_epoch, asked, session.heard)
        except errors.KafkaError as problem:
            self.problem = problem

    def _watch(self, partition: Partition) -> None:
        if partition is not self.partition:
            self.leave()
            self.partition = partition
            partition.watch_log(self.grew)
            partition.watch_growth(self.moved)

    def leave(self) -> None:
        """The follower fetches the partition no more, or it is another one."""
        partition, self.partition = self.partition, None
        if partition is not None:
            partition.unwatch_log(self.grew)
            partition.unwatch_growth(self.moved)
            if partition.leading is not None:
                partition.leading.left(self.session.replica_id, self.session.heard)

    def grew(self, _: Partition) -> None:
        """There is more to read, or the leadership is over."""
        self.session.wake(self)

    def moved(self, _: Partition) -> None:
        """The high watermark has moved: worth telling, not worth an answer of its own."""
        self.session.moved[self] = None

    @property
    def in_sync(self) -> bool:
        """Whether the follower is in the ISR: its progress is waited for."""
        leading = None if self.partition is None else self.partition.leading
        return leading is not None and self.session.replica_id in leading.committed

    def answer(self, room: int, *, first: bool) -> PartitionData | None:
        """What is to be told, at most `room` bytes of it (one batch whole if it is the `first`); None: nothing."""
        partition, asked = self.partition, self.asked
        try:
            if self.problem is not None:
                raise self.problem
            assert partition is not None
            partition.check_leader(asked.current_leader_epoch)
            if self.diverging is not None:
                return self.told(_NOTHING, self.diverging)
            log, offset = partition.log, asked.fetch_offset
            if offset >= log.written_end:
                return None
            records = log.read(offset, min(asked.partition_max_bytes, room), log.written_end, min_one=first)
        except errors.KafkaError as problem:
            return self._failed(problem)
        return self.told(records) if len(records) else None

    def told(self, records: Any, diverging: EpochEndOffset = _NOT_DIVERGING) -> PartitionData:
        """Records, or none, with the marks of now."""
        partition = self.partition
        assert partition is not None
        mark, self.sent_start = partition.high_watermark, partition.log.log_start
        return PartitionData(self.index, 0, mark, mark, self.sent_start, diverging, records=records)

    def _failed(self, problem: errors.KafkaError) -> PartitionData:
        """An error. One about the offset says where the log is, so that the follower need not ask (R9)."""
        start = end = -1
        if self.partition is not None and problem.code == errors.OFFSET_OUT_OF_RANGE:
            start, end = self.partition.log.log_start, self.partition.log.log_end
        return PartitionData(self.index, problem.code, -1, end, start, records=_NOTHING)


class ReplicaSession:
    """What one loop of one follower fetches. `ready`: partitions with something to tell; `moved`: with a new high
    watermark. `heard` is shared with the states of all its partitions."""

    def __init__(self, owner: ReplicaFetches, session_id: int, replica_id: int, replica_epoch: int) -> None:
        self.session_id = session_id
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.next_epoch = 1
        self.entries: dict[tuple[bytes, int], _Entry] = {}
        self.ready: dict[_Entry, None] = {}
        self.moved: dict[_Entry, None] = {}
        self.heard = Heard()
        self._owner = owner
        self._broker = owner.broker
        self._answered_at = NEVER
        self._live_at = NEVER
        self._request: Request | None = None
        self._wait: Wait | None = None

    def ask(self, request: Request) -> None:
        """Takes note of what the request says and answers it, at once or when there is something to tell.

        A follower that has news sends the next request before the answer to the last one: that ends its wait.
        """
        self._answer([])
        body: FetchRequest = request.body
        self.heard.at = self._broker.surroundings.now()
        if body.max_wait_ms > 0:  # else it was sent before our last answer arrived, and proves nothing
            self.heard.proven_at = self._answered_at
        for topic in body.topics:
            for asked in topic.partitions:
                key = topic.topic_id, asked.partition
                entry = self.entries.get(key)
                if entry is None:
                    entry = self.entries[key] = _Entry(self, *key)
                entry.ask(self._broker, asked)
                self.ready[entry] = None
        for gone in body.forgotten_topics_data:
            for index in gone.partitions:
                self._forget(self.entries.pop((gone.topic_id, index), None))
        self._request = request
        if not self._answer_ready() and (body.max_wait_ms <= 0 or not self.session_id):
            self._answer([])
        elif self._request is not None:
            self._wait = Wait(self._broker.reactor, body.max_wait_ms / 1000, self._over)

    def _forget(self, entry: _Entry | None) -> None:
        if entry is not None:
            entry.leave()
            self.ready.pop(entry, None)
            self.moved.pop(entry, None)

    def close(self) -> None:
        """The follower has begun another session, or is gone."""
        self._drop_request()
        for entry in self.entries.values():
            entry.leave()
        self.entries.clear()
        self.ready.clear()
        self.moved.clear()

    def _drop_request(self) -> None:
        self._request = None
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    # ---- waiting

    def wake(self, entry: _Entry) -> None:
        """A partition has something to tell."""
        self.ready[entry] = None
        if self._request is not None:
            self._broker.wake(self)

    def look(self) -> None:
        """At the end of the turn."""
        if self._request is not None:
            if self._request.gone:
                self._drop_request()
            else:
                self._answer_ready()

    def _over(self, _timed_out: bool) -> None:
        """Waited in vain. Log starts move without a sign; here is the time to compare them."""
        for entry in self.entries.values():
            if entry.partition is not None and entry.partition.log.log_start != entry.sent_start:
                self.moved[entry] = None
        self._answer([])

    # ---- answering

    def _answer_ready(self) -> bool:
        """Answers if there is anything to tell; says whether it did."""
        assert self._request is not None
        body: FetchRequest = self._request.body
        left = min(body.max_bytes, self._broker.config.fetch_max_bytes)
        found: list[tuple[_Entry, PartitionData]] = []
        entries, now = list(self.ready), self.heard.at
        live = [entry for entry in entries if entry.in_sync]
        left = self._collect(live, left, found)
        if len(live) < len(entries):
            now = self._broker.surroundings.now()
            if found:
                self._live_at = now
            if now - self._live_at < LIVE_SECONDS:
                left = min(left, CATCH_UP_BYTES)
            self._collect([entry for entry in entries if not entry.in_sync], left, found)
        if found:
            self._answer(found)
        return bool(found)

    def _collect(self, entries: list[_Entry], left: int, found: list[tuple[_Entry, PartitionData]]) -> int:
        """Adds what these have to tell, of the first one a whole batch however large; who does not fit stays ready, in
        front of those that will ask again. Returns the room that is left."""
        before = len(found)
        for entry in entries:
            if left <= 0:
                break
            del self.ready[entry]
            answer = entry.answer(left, first=len(found) == before)
            if answer is not None:
                left -= len(answer.records)
                found.append((entry, answer))
            elif entry.partition is not None and entry.asked.fetch_offset < entry.partition.log.written_end:
                self.ready[entry] = None  # its first batch is larger than the room: its turn comes
        return left

    def _answer(self, found: list[tuple[_Entry, PartitionData]]) -> None:
        request = self._request
        if request is None:
            return
        self._drop_request()
        if request.gone:
            return
        topics: dict[bytes, list[PartitionData]] = {}
        for entry, answer in found:
            topics.setdefault(entry.topic_id, []).append(answer)
            self.moved.pop(entry, None)
            self._owner.bytes_out += len(answer.records)
        moved, self.moved = self.moved, {}
        for entry in moved:
            if entry.partition is not None and entry.partition.is_leader:
                topics.setdefault(entry.topic_id, []).append(entry.told(_NOTHING))
        self._answered_at = self._broker.surroundings.now()
        request.respond(
            FetchResponse(
                session_id=self.session_id,
                responses=[FetchableTopicResponse(topic_id, answers) for topic_id, answers in topics.items()],
            )
        )


class ReplicaFetches:
    """All sessions of followers on this broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.bytes_out = 0
        self._sessions: dict[int, ReplicaSession] = {}

    def handle(self, request: Request) -> Later | FetchResponse:
        """A Fetch request with a replica's id."""
        try:
            session = self._session(request)
        except errors.KafkaError as problem:
            self.broker.metrics.request_failed(Api.FETCH, problem.code)
            return FetchResponse(error_code=problem.code)
        session.ask(request)
        if not session.session_id:
            session.close()
        return LATER

    def drop_all(self) -> None:
        """No role outlives the ZooKeeper session (A12)."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()

    def _session(self, request: Request) -> ReplicaSession:
        body: FetchRequest = request.body
        replica_id, replica_epoch = body.replica_state
        self._check(request, replica_id, replica_epoch)
        if body.session_epoch == NO_SESSION_EPOCH:
            return ReplicaSession(self, 0, replica_id, replica_epoch)
        if body.session_epoch == FIRST_EPOCH:
            self._end(body.session_id)
            return self._open(replica_id, replica_epoch)
        found = self._sessions.get(body.session_id)
        if found is None or (found.replica_id, found.replica_epoch) != (replica_id, replica_epoch):
            raise errors.FetchSessionIdNotFound(f"broker {replica_id} has no fetch session {body.session_id} here")
        if found.next_epoch != body.session_epoch:
            raise errors.InvalidFetchSessionEpoch(f"epoch {body.session_epoch} where {found.next_epoch} is due")
        found.next_epoch = found.next_epoch + 1 if found.next_epoch < _MAX_INT else 1
        return found

    def _check(self, request: Request, replica_id: int, replica_epoch: int) -> None:
        """A22: a replica's authority, and that it is the life of the broker that is registered."""
        if request.header.api_version < FIRST_VERSION or replica_id < 0:
            raise errors.InvalidRequest(f"a replica's fetch must be of version {FIRST_VERSION} or later")
        if request.connection.listener != self.broker.config.inter_broker_listener_name:
            raise errors.ClusterAuthorizationFailed("replicas fetch through the listener between brokers only")
        known = self.broker.surroundings.registered.get(replica_id, -1)
        if replica_epoch < known:
            raise errors.StaleBrokerEpoch(f"broker {replica_id} is registered with epoch {known}, not {replica_epoch}")
        if replica_epoch > known:
            self.broker.surroundings.reread_brokers()
            raise errors.UnknownLeaderEpoch(f"epoch {replica_epoch} of broker {replica_id} is not known here yet")

    def _open(self, replica_id: int, replica_epoch: int) -> ReplicaSession:
        now, registered = self.broker.surroundings.now(), self.broker.surroundings.registered
        for one in list(self._sessions.values()):
            if registered.get(one.replica_id) != one.replica_epoch or now - one.heard.at > IDLE_SECONDS:
                self._end(one.session_id)
        session_id = random.randint(1, _MAX_INT)
        while session_id in self._sessions:
            session_id = random.randint(1, _MAX_INT)
        session = self._sessions[session_id] = ReplicaSession(self, session_id, replica_id, replica_epoch)
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
