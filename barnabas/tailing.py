"""Reading partitions without a group: the state of it, and what each answer of a broker means. No sockets here.

Tail.plan        positions and metadata -> one Fetch for each leader that has none under way
Tail.take        a Fetch answer -> messages, and what to tell the user
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import attrs

from barnabas.message_format import Message
from kafka_wire import batches, errors
from kafka_wire.errors import KafkaError
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import MetadataView
from kafka_wire.records import decode_batch
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic

MAX_BYTES = 50 << 20
PARTITION_MAX_BYTES = 1 << 20


class Plan(NamedTuple):
    """What to send to whom, and which partitions have no leader that could be asked."""

    fetches: dict[int, FetchRequest]
    homeless: set[TopicPartition]


@attrs.frozen
class Taken:
    """What came of one partition in an answer."""

    tp: TopicPartition
    messages: list[Message]
    is_at_end: bool = False
    problem: KafkaError | None = None


class Tail:
    """Positions in partitions. A partition is in at most one Fetch at a time."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)

    def plan(self, view: MetadataView, busy: Mapping[int, Collection[TopicPartition]], max_wait_ms: int) -> Plan:
        """Fetches for the leaders that are not busy; partitions that are still under way elsewhere wait."""
        under_way = {tp for partitions in busy.values() for tp in partitions}
        by_leader: dict[int, list[TopicPartition]] = {}
        homeless: set[TopicPartition] = set()
        for tp in self.positions:
            if tp in under_way:
                continue
            try:
                leader = view.leader(tp)
                view.address(leader)
            except KafkaError:
                homeless.add(tp)
            else:
                if leader not in busy:
                    by_leader.setdefault(leader, []).append(tp)
        return Plan({leader: self._fetch(view, tps, max_wait_ms) for leader, tps in by_leader.items()}, homeless)

    def take(self, view: MetadataView, broker: int, response: Any) -> Iterator[Taken]:
        """Each partition of an answer; positions move on as far as messages are given out."""
        for topic in response.responses:
            name = topic.topic or view.topic_name(topic.topic_id)
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                if tp in self.positions:
                    yield self._take_partition(tp, broker, data)

    def _take_partition(self, tp: TopicPartition, broker: int, data: Any) -> Taken:
        if data.error_code:
            kind = errors.for_code(data.error_code)
            return Taken(tp, [], problem=kind(f"{tp}: {kind.name}"))
        position = self.positions[tp]
        messages, following = read_messages(tp, broker, data.records or b"", position)
        self.positions[tp] = following
        return Taken(tp, messages, following >= data.high_watermark)

    def move(self, tp: TopicPartition, first: int, end: int) -> str:
        """After OFFSET_OUT_OF_RANGE: to the nearest offset that there is; the sentence tells the user."""
        position = self.positions[tp]
        if position < first:
            self.positions[tp] = first
            return f"{tp}: messages {position} to {first - 1} are deleted, going on at {first}"
        self.positions[tp] = end
        return f"{tp}: the log ends at {end}, before our position {position} (topic made anew?), going on there"

    def _fetch(self, view: MetadataView, tps: Iterable[TopicPartition], max_wait_ms: int) -> FetchRequest:
        by_topic: dict[str, list[FetchPartition]] = {}
        for tp in tps:
            epoch = view.partition(tp).leader_epoch
            wanted = FetchPartition(tp.partition, epoch, self.positions[tp], partition_max_bytes=PARTITION_MAX_BYTES)
            by_topic.setdefault(tp.topic, []).append(wanted)
        topics = [FetchTopic(view.topic(name).topic_id, wanted, name) for name, wanted in by_topic.items()]
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=MAX_BYTES, topics=topics)


def read_messages(tp: TopicPartition, broker: int, records: Any, position: int) -> tuple[list[Message], int]:
    """(messages from `position` on, where to go on); control batches count as read.

    KafkaError names the place of damage; messages before it are given out first, it is met again by the next Fetch.
    """
    messages: list[Message] = []
    try:
        for start, header in batches.walk(records, 0, len(records)):
            if header.next_offset <= position:
                continue
            if not header.is_control:
                stamped = header.uses_log_append_time
                messages += [
                    Message(tp.topic, tp.partition, broker, stamped, record)
                    for record in decode_batch(records, start)
                    if record.offset >= position
                ]
            position = header.next_offset
    except KafkaError as error:
        if messages:
            return messages, position
        raise type(error)(f"{tp} cannot be read at offset {position}: {error.message}") from error
    return messages, position
