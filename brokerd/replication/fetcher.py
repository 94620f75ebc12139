"""The follower's side of replication: one loop for each leader and durability (V4), fed by long polls.

Rules of this file:
- A position is told only when what is below it is written, in `flushed` topics flushed: the leader counts on it (V4).
  `flushed` and `replicated` topics have loops of their own, so that the latter never wait for a disk.
- The session names a partition again after every answer about it, and forgets one that rests: what the leader believes
  of us is never more than what is true.
- One partition's trouble is its own: it rests for a while, the others go on. A lost connection or session begins anew.
- News do not wait for the end of a long poll: the next request is sent at once, and ends the wait of the one before.
- A request that may wait is sent only when nothing is unanswered: it tells the leader that its last answer has arrived,
  and so that this broker followed it then (A16 b). Early ones, and those that open a session, are answered at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from brokerd.replication.follower_state import Cut, Question, Restart, Take, Wait, next_step
from brokerd.storage.errors import StorageError
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.exchange import back_off
from kafka_wire.peer import Peer
from kafka_wire.schema.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.partition import Partition

log = Logger()

FIRST_REST_SECONDS = 0.02
REPORTED = 6
"""Failures in a row, about a second of them, after which a partition's trouble is worth a line: roles do not change
everywhere at the same moment."""
PIPELINED = 2
"""Requests on their way at most: the one that waits at the leader, and the one that ends its wait."""
_MAX_INT = 2**31 - 1

Key = tuple[bytes, int]


class _Followed:
    """One partition of the loop."""

    __slots__ = ("failures", "is_busy", "key", "leader_epoch", "partition", "question", "rest", "told")

    def __init__(self, partition: Partition, key: Key) -> None:
        self.partition = partition
        self.key = key
        self.leader_epoch = partition.leader_epoch
        self.question: Question | None = None
        self.failures = 0
        self.is_busy = False
        """Records are being written or flushed; asking goes on after that."""
        self.rest: Any = None
        """The timer that ends its rest."""
        self.told = ""
        """The last trouble that was logged: the same one is logged once."""


class Fetcher:
    """What this broker follows of one leader in one loop. It runs as long as there is something to follow."""

    def __init__(
        self,
        reactor: Any,
        broker: Broker,
        leader_id: int,
        address: tuple[str, int],
        *,
        waits_for_flush: bool,
        replica_epoch: Callable[[], int],
        took: Callable[[int], None] = lambda size: None,
        uniform: Callable[[float, float], float] = random.uniform,
        peer: Any = None,
    ) -> None:
        self.leader_id = leader_id
        self.address = address
        self.waits_for_flush = waits_for_flush
        self._reactor = reactor
        self._broker = broker
        self._replica_epoch = replica_epoch
        self._took = took
        self._uniform = uniform
        timeout = broker.config.replica_socket_timeout_ms / 1000
        client_id = f"broker-{broker.config.broker_id}-follows-{leader_id}"
        self._peer: Peer = peer or Peer(reactor, *address, client_id, timeout=timeout)
        self._followed: dict[Key, _Followed] = {}
        self._to_name: dict[_Followed, None] = {}
        self._to_forget: dict[Key, None] = {}
        self._in_session: set[Key] = set()
        self._session_id = 0
        self._session_epoch = 0
        self._sent = 0
        self._busy = 0
        self._round = 0
        """Counts the beginnings: an answer to a request of an earlier one is dropped."""
        self._failures = 0
        self._told = ""
        self._retry: Any = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._followed)

    # ---- what is followed

    def add(self, partition: Partition) -> None:
        """Follows a partition from where its log ends, at its present leader epoch."""
        assert partition.log.topic_id is not None
        key = partition.log.topic_id, partition.tp.partition
        self._drop(self._followed.get(key))
        followed = self._followed[key] = _Followed(partition, key)
        self._secure(followed)
        self._send_soon()

    def remove(self, partition: Partition) -> None:
        """Follows it no more; an answer that is on its way will be dropped."""
        assert partition.log.topic_id is not None
        followed = self._followed.get((partition.log.topic_id, partition.tp.partition))
        if followed is not None and followed.partition is partition:
            self._drop(followed)
            del self._followed[followed.key]
            if followed.key in self._in_session:
                self._to_forget[followed.key] = None
            self._send_soon()  # the others may have waited for this one's disk

    def follows(self, partition: Partition) -> bool:
        """Whether it does, at the partition's present epoch."""
        assert partition.log.topic_id is not None
        followed = self._followed.get((partition.log.topic_id, partition.tp.partition))
        return (
            followed is not None and followed.partition is partition and followed.leader_epoch == partition.leader_epoch
        )

    def stop(self) -> None:
        """Hangs up; for good."""
        self._stopped = True
        for followed in self._followed.values():
            self._drop(followed)
        self._followed.clear()
        _cancel(self._retry)
        self._peer.close()

    def _drop(self, followed: _Followed | None) -> None:
        if followed is None:
            return
        _cancel(followed.rest)
        self._to_name.pop(followed, None)
        if followed.is_busy:
            followed.is_busy = False
            self._busy -= 1

    def _is_current(self, followed: _Followed) -> bool:
        return self._followed.get(followed.key) is followed

    # ---- asking

    def _send_soon(self) -> None:
        """At the end of this turn, so that a thousand new partitions make one request."""
        if self._retry is None and not self._stopped:
            self._retry = self._reactor.callLater(0, self._send_news)

    def _send_news(self) -> None:
        self._retry = None
        news = self._to_name or self._to_forget
        if news and (not self._sent or (self._session_epoch and self._sent < PIPELINED)):
            self._send()
        else:
            self._send_next()

    def _send_next(self) -> None:
        """Asks on, if nothing is under way and nothing is waited for."""
        if not self._sent and not self._busy and self._retry is None and not self._stopped:
            self._send()

    def _send(self) -> None:
        opening = not self._session_epoch
        if opening:
            self._in_session.clear()
            self._to_forget.clear()
            asking = [one for one in self._followed.values() if one.rest is None and not one.is_busy]
            self._to_name.clear()
        else:
            asking, self._to_name = list(self._to_name), {}
        if not asking and not self._to_forget and not self._in_session:
            return
        body = self._request(asking)
        self._sent += 1
        if not opening:
            self._session_epoch = self._session_epoch + 1 if self._session_epoch < _MAX_INT else 1
        answer = self._peer.request(Api.FETCH, body)
        answer.addCallbacks(self._answered, self._failed, callbackArgs=(self._round,), errbackArgs=(self._round,))
        answer.addErrback(lambda failure: log.failure("following broker {id} failed", failure, id=self.leader_id))

    def _request(self, asking: list[_Followed]) -> FetchRequest:
        config = self._broker.config
        topics: dict[bytes, list[FetchPartition]] = {}
        for followed in asking:
            topic_id, index = followed.key
            question = followed.question = followed.partition.question()
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    index,
                    question.leader_epoch,
                    question.offset,
                    question.last_epoch,
                    question.log_start,
                    config.replica_fetch_max_bytes,
                )
            )
            self._in_session.add(followed.key)
            self._to_forget.pop(followed.key, None)
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in self._to_forget:
            forgotten.setdefault(topic_id, []).append(index)
            self._in_session.discard((topic_id, index))
        self._to_forget = {}
        return FetchRequest(
            replica_state=ReplicaState(config.broker_id, self._replica_epoch()),
            max_wait_ms=config.replica_fetch_wait_max_ms if self._session_epoch and not self._sent else 0,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id, partitions) for topic_id, partitions in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic_id, indexes) for topic_id, indexes in forgotten.items()],
        )

    # ---- failing as a whole

    def _failed(self, failure: Failure, number: int) -> None:
        if number == self._round and not self._stopped:
            problem = failure.value
            if not isinstance(problem, errors.KafkaError):
                log.failure("a fetch from broker {id} failed unforeseen", failure, id=self.leader_id)
            self._begin_anew(str(problem) or type(problem).__name__)

    def _begin_anew(self, why: str, *, at_once: bool = False) -> None:
        """Forgets the session; the next request names everything."""
        self._round += 1
        self._sent = 0
        self._session_epoch = 0
        self._failures += 1
        if self._told != why and not at_once:
            self._told = why
            log.warn("cannot follow broker {id}: {why}", id=self.leader_id, why=why)
        _cancel(self._retry)
        first, longest = FIRST_REST_SECONDS, self._broker.config.replica_fetch_backoff_ms / 1000
        wait = 0.0 if at_once and self._failures == 1 else back_off(self._failures, first, longest, self._uniform)
        self._retry = self._reactor.callLater(wait, self._again)

    def _again(self) -> None:
        self._retry = None
        self._send_next()

    # ---- answers

    def _answered(self, response: FetchResponse, number: int) -> None:
        if number != self._round or self._stopped:
            return
        self._sent -= 1
        code = response.error_code
        if code:
            lost = code in (errors.FETCH_SESSION_ID_NOT_FOUND, errors.INVALID_FETCH_SESSION_EPOCH)
            self._begin_anew(errors.for_code(code)().message, at_once=lost)
            return
        if not self._session_epoch:
            self._session_id, self._session_epoch = response.session_id, 1 if response.session_id else 0
        self._failures, self._told = 0, ""
        for topic in response.responses:
            for answer in topic.partitions:
                followed = self._followed.get((topic.topic_id, answer.partition_index))
                if followed is not None:
                    self._take(followed, answer)
        self._send_next()
        if self._to_name or self._to_forget:
            self._send_soon()

    def _take(self, followed: _Followed, answer: PartitionData) -> None:
        """One partition's answer; whatever is wrong with it stays with it."""
        partition = followed.partition
        if followed.is_busy or followed.rest is not None or followed.question is None or partition.is_leader:
            return
        if followed.leader_epoch != partition.leader_epoch:
            return  # the role has changed; who changed it will say what is to be followed
        try:
            self._step(followed, partition, answer)
        except StorageError as problem:
            self._broker.logs.append_failed(partition.log, problem)
            self._rest(followed, Wait.LATER, str(problem))
        except errors.KafkaError as problem:
            self._rest(followed, Wait.SOON, f"{type(problem).__name__}: {problem}")
        except Exception as problem:
            log.failure("{tp} cannot be followed for now", tp=partition.tp)
            self._rest(followed, Wait.LATER, repr(problem))

    def _step(self, followed: _Followed, partition: Partition, answer: PartitionData) -> None:
        assert followed.question is not None
        step = next_step(
            followed.question,
            answer,
            log_start=partition.log.log_start,
            log_end=partition.log.log_end,
            epoch_end=partition.log.epoch_end_offset,
        )
        if isinstance(step, Wait):
            self._rest(followed, step, errors.for_code(answer.error_code)().message)
            return
        if isinstance(step, Take):
            self._copy(followed, partition, step, answer.records)
            return
        if isinstance(step, Cut):
            _tell_cut(partition, step.offset, answer)
            partition.cut(step.offset)
        elif isinstance(step, Restart):
            log.warn("{tp} begins anew at {offset}, where its leader begins", tp=partition.tp, offset=step.offset)
            partition.restart(step.offset)
        self._secure(followed)

    def _copy(self, followed: _Followed, partition: Partition, step: Take, records: Any) -> None:
        followed.failures, followed.told = 0, ""
        grew = bool(records) and partition.copy(memoryview(records))
        partition.adopt(step.high_watermark, step.log_start)
        if not records:
            return
        if grew:
            self._took(len(records))
        self._secure(followed)

    def _secure(self, followed: _Followed) -> None:
        """Names the partition in the next request, as soon as everything in its log is as safe as that will say."""
        partition = followed.partition
        log, end = partition.log, partition.log.log_end
        if (log.flushed if self.waits_for_flush else log.written_end) >= end:
            self._to_name[followed] = None
            return
        followed.is_busy = True
        self._busy += 1
        self._broker.mark_dirty(partition)

        def done(problem: errors.KafkaError | None) -> None:
            self._safe(followed, problem)

        if self.waits_for_flush:
            partition.when_flushed(end, done)
        else:
            partition.when_written(end, done)

    def _safe(self, followed: _Followed, problem: errors.KafkaError | None) -> None:
        """What was copied is as safe as the leader will believe it to be; or it is not."""
        if not followed.is_busy or not self._is_current(followed):
            return
        followed.is_busy = False
        self._busy -= 1
        if problem is not None:
            self._rest(followed, Wait.LATER, problem.message)
        else:
            self._to_name[followed] = None
        if self._sent:
            self._send_soon()
        else:
            self._send_next()

    def _rest(self, followed: _Followed, wait: Wait, why: str) -> None:
        """Leaves a partition alone for a while; the leader is told that it is not fetched meanwhile."""
        followed.failures += 1
        longest = self._broker.config.replica_fetch_backoff_ms / 1000
        first = FIRST_REST_SECONDS if wait is Wait.SOON else longest
        seconds = back_off(followed.failures, first, longest, self._uniform)
        if followed.told != why and followed.failures >= REPORTED:
            followed.told = why
            log.warn(
                "{tp} cannot be fetched from broker {id}: {why}", tp=followed.partition.tp, id=self.leader_id, why=why
            )
        self._to_name.pop(followed, None)
        if followed.key in self._in_session:
            self._to_forget[followed.key] = None

        def rested() -> None:
            followed.rest = None
            if self._is_current(followed):
                self._secure(followed)
                self._send_soon()

        followed.rest = self._reactor.callLater(seconds, rested)


def _cancel(timer: Any) -> None:
    if timer is not None and timer.active():
        timer.cancel()


def _tell_cut(partition: Partition, offset: int, answer: PartitionData) -> None:
    """R26: below the high watermark only an unclean election can bring a follower."""
    end, mark = partition.log.log_end, partition.high_watermark
    told = {"tp": partition.tp, "offset": offset, "end": end, "mark": mark, "epoch": answer.diverging_epoch.epoch}
    if offset < mark:
        log.error(
            "{tp} is cut at {offset}, below its high watermark {mark} (its end was {end}): "
            "records that were committed are lost, the leader of now does not have them",
            **told,
        )
    else:
        log.info("{tp} is cut from {end} to {offset}: the leader's epoch {epoch} ends there", **told)
