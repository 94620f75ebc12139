"""Partitions of a cluster read without a group: `Reader.poll` gives what has arrived.

Every leader has one Fetch under way on a connection of its own, so that a quiet broker delays nobody. Leaders that
move, brokers that go away and offsets that are deleted are handled here; `tell` says to the user what matters.
"""

import difflib
import random
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from barnabas.errors import UserError
from barnabas.message_format import Message
from barnabas.start_offset import Bounds, Kind, Start, resolve, timestamps_to_ask
from barnabas.tailing import Tail, Taken
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster, BlockingPeer, wait_for_any
from kafka_wire.errors import BrokerNotAvailable, KafkaError, NetworkException, OffsetOutOfRange, RequestTimedOut
from kafka_wire.exchange import back_off
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import NO_TOPIC_ID, MetadataView
from kafka_wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

MAX_WAIT_MS = 500
NEW_PARTITIONS_EVERY = 60.0
GONE_AFTER = 10.0  # seconds after which a topic that no broker knows any more is taken to be deleted
LAST_VERSION_BY_NAME = 12  # of Fetch: later ones name topics by id, which not every broker has

_UNREACHED = (NetworkException, RequestTimedOut, BrokerNotAvailable)


class Reader:
    """Reads from `start` in the given partition, or in all partitions, of some topics."""

    def __init__(
        self,
        cluster: BlockingCluster,
        topics: Sequence[str],
        start: Start,
        *,
        partitions: Collection[int] = (),
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._topics = list(dict.fromkeys(topics))
        self._partitions = partitions
        self._tell = tell
        self._clock = clock
        self._peers: dict[int, BlockingPeer] = {}
        self._under_way: dict[int, list[TopicPartition]] = {}
        self._resting: dict[int, float] = {}  # brokers that failed, and when they are tried again
        self._at_end: set[TopicPartition] = set()
        self._failures = 0
        self._refresh_at = clock() + NEW_PARTITIONS_EVERY
        self._known_at = clock()
        wanted = self._wanted(self._existing_topics())
        self._tail = Tail({tp: self._first_position(tp, start, bounds) for tp, bounds in self._bounds(wanted, start)})

    @property
    def is_at_end(self) -> bool:
        """Whether everything that there was has been read, in every partition."""
        return self._at_end.issuperset(self._tail.positions)

    def poll(self, timeout: float) -> list[Message]:
        """Messages of the first answers to arrive; none after `timeout` seconds, perhaps sooner."""
        deadline = self._clock() + timeout
        if self._clock() >= self._refresh_at:
            self._refresh()
        self._ask()
        left = max(0.0, deadline - self._clock())
        if not self._under_way:
            time.sleep(min(left, max(0.0, self._refresh_at - self._clock())))
            return []
        peers = {self._peers[broker]: broker for broker in self._under_way}
        messages: list[Message] = []
        for peer in wait_for_any(peers, left):
            for taken in self._receive(peers[peer], peer):
                messages += taken.messages
        return messages

    def close(self) -> None:
        """End the connections."""
        for peer in self._peers.values():
            peer.close()

    # --- asking ---

    def _ask(self) -> None:
        now = self._clock()
        self._resting = {broker: until for broker, until in self._resting.items() if until > now}
        busy = {**dict.fromkeys(self._resting, ()), **self._under_way}
        plan = self._tail.plan(self._cluster.view, busy, MAX_WAIT_MS)
        if plan.homeless:
            self._refresh_soon()
        for broker, request in plan.fetches.items():
            has_ids = all(topic.topic_id != NO_TOPIC_ID for topic in request.topics)
            try:
                peer = self._peers.get(broker)
                if peer is None or not peer.is_usable():
                    peer = self._peers[broker] = self._cluster.connect(broker)
                peer.send(Api.FETCH, request, max_version=None if has_ids else LAST_VERSION_BY_NAME)
            except _UNREACHED as error:
                self._lost(broker, error)
                continue
            self._under_way[broker] = [
                TopicPartition(topic.topic, wanted.partition) for topic in request.topics for wanted in topic.partitions
            ]

    def _receive(self, broker: int, peer: BlockingPeer) -> list[Taken]:
        try:
            response = peer.receive().body
        except _UNREACHED as error:
            self._lost(broker, error)
            return []
        del self._under_way[broker]
        if response.error_code:
            raise errors.for_code(response.error_code)(f"broker {broker} refuses to be read")
        try:
            answers = list(self._tail.take(self._cluster.view, broker, response))
        except errors.UnknownTopicId:  # a topic that was made anew while the answer was under way
            self._refresh_soon()
            return []
        for taken in answers:
            self._note(taken)
        return answers

    def _note(self, taken: Taken) -> None:
        """Keep what an answer says about one partition."""
        if taken.problem is None:
            self._failures = 0
            (self._at_end.add if taken.is_at_end else self._at_end.discard)(taken.tp)
        elif isinstance(taken.problem, OffsetOutOfRange):
            self._move(taken.tp)
        elif taken.problem.retriable:
            self._refresh_soon()
        else:
            raise taken.problem

    def _lost(self, broker: int, error: KafkaError) -> None:
        self._under_way.pop(broker, None)
        peer = self._peers.pop(broker, None)
        if peer is not None:
            peer.close()
        if not self._failures:
            self._tell(f"{error.message}; trying again")
        self._refresh_soon()
        self._resting[broker] = self._clock() + back_off(self._failures, 0.1, 1.0, random.uniform)

    # --- metadata ---

    def _refresh_soon(self) -> None:
        """After a problem: not at once, and later each time that it does not help."""
        if self._refresh_at > self._clock() + 1.5:
            self._failures += 1
            self._refresh_at = self._clock() + back_off(self._failures, 0.1, 1.0, random.uniform)

    def _refresh(self) -> None:
        self._refresh_at = self._clock() + NEW_PARTITIONS_EVERY
        try:
            view = self._cluster.metadata(self._topics, refresh=True)
        except _UNREACHED:
            self._refresh_soon()
            return
        try:
            wanted = self._wanted(view)
        except KafkaError as error:
            if not error.retriable or self._clock() - self._known_at > GONE_AFTER:
                raise
            self._refresh_soon()
            return
        self._known_at = self._clock()
        self._at_end.intersection_update(wanted)
        for tp in wanted:
            if tp not in self._tail.positions:  # made since we started: read from its first message
                self._tail.positions[tp] = 0

    def _existing_topics(self) -> MetadataView:
        """The metadata, after making sure that there are such topics."""
        view = self._cluster.metadata(self._topics, refresh=True)
        for name in self._topics:
            try:
                view.topic(name)
            except errors.UnknownTopicOrPartition:
                there = [topic for topic in self._cluster.metadata().topics if topic not in self._topics]
                nearest = difflib.get_close_matches(name, there, n=1)
                hint = f"did you mean {nearest[0]}?" if nearest else "`barnabas topics list` shows those that there are"
                raise UserError(f"there is no topic {name}; {hint}") from None
        return view

    def _wanted(self, view: MetadataView) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for name in self._topics:
            there = view.partitions(name)
            for number in self._partitions:
                if TopicPartition(name, number) not in there:
                    raise UserError(f"{name} has no partition {number}: its partitions are 0 to {len(there) - 1}")
            found += [tp for tp in there if not self._partitions or tp.partition in self._partitions]
        return found

    # --- offsets ---

    def _first_position(self, tp: TopicPartition, start: Start, bounds: Bounds) -> int:
        try:
            position = resolve(start, bounds)
        except ValueError as error:
            raise UserError(f"{tp}: {error}") from None
        if position >= bounds.end:
            self._at_end.add(tp)
        return position

    def _move(self, tp: TopicPartition) -> None:
        [(_, bounds)] = self._bounds([tp], Start(Kind.END))
        self._tell(self._tail.move(tp, bounds.first, bounds.end))

    def _bounds(self, tps: Sequence[TopicPartition], start: Start) -> list[tuple[TopicPartition, Bounds]]:
        first, end, *times = [self._offsets(tps, timestamp) for timestamp in timestamps_to_ask(start)]
        at_time = times[0] if times else {}
        return [(tp, Bounds(first[tp], end[tp], at_time[tp] if at_time.get(tp, -1) >= 0 else None)) for tp in tps]

    def _offsets(self, tps: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """What ListOffsets says, -1 for none; leaders that have just moved are asked again for a while."""
        found: dict[TopicPartition, int] = {}
        deadline, failures = self._clock() + self._cluster.timeout, 0
        while True:
            problem = self._ask_offsets([tp for tp in tps if tp not in found], timestamp, found)
            if problem is None:
                return found
            failures += 1
            wait = back_off(failures, 0.1, 1.0, random.uniform)
            if not problem.retriable or self._clock() + wait > deadline:
                raise problem
            time.sleep(wait)
            self._cluster.metadata(self._topics, refresh=True)

    def _ask_offsets(
        self, tps: Sequence[TopicPartition], timestamp: int, found: dict[TopicPartition, int]
    ) -> KafkaError | None:
        """Ask each leader once; `found` gets the answers, the result is what went wrong, if anything did."""
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        problem: KafkaError | None = None
        for tp in tps:
            try:
                leader, epoch = self._cluster.leader(tp), self._cluster.view.partition(tp).leader_epoch
            except KafkaError as error:
                problem = error
                continue
            asked = by_leader.setdefault(leader, {}).setdefault(tp.topic, [])
            asked.append(ListOffsetsPartition(tp.partition, epoch, timestamp))
        for leader, topics in by_leader.items():
            body = ListOffsetsRequest(topics=[ListOffsetsTopic(name, asked) for name, asked in topics.items()])
            try:
                response = self._cluster.request(Api.LIST_OFFSETS, body, leader)
            except KafkaError as error:
                problem = error
                continue
            problem = _read_offsets(response, found) or problem
        return problem


def _read_offsets(response: Any, found: dict[TopicPartition, int]) -> KafkaError | None:
    problem: KafkaError | None = None
    for topic in response.topics:
        for answer in topic.partitions:
            tp = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code:
                kind = errors.for_code(answer.error_code)
                problem = kind(f"{tp}: {kind.name}")
            else:
                offsets = answer.old_style_offsets or (answer.offset,)
                found[tp] = offsets[0]
    return problem
