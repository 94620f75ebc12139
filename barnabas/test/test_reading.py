"""A reader without group among brokers that move, fall silent and delete: it goes on, and says what matters."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from barnabas.errors import UserError
from barnabas.reading import Reader
from barnabas.start_offset import Kind, Start
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from kafka_wire.records import Record, encode_batch
from kafka_wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_wire.schema.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_wire.test.fake_network import FakeNetwork, metadata

BEGINNING = Start(Kind.BEGINNING)


@attrs.define
class Log:
    """Partition 0 of topic t, led by broker `leader`; `silent` answers to Fetch are left out first."""

    first: int = 0
    end: int = 3
    leader: int = 1
    silent: int = 0
    refusal: int = 0
    gone: bool = False
    fetches: list[int] = attrs.field(factory=list)

    def broker(self, broker_id: int) -> Callable[[Any, Any], Any]:
        """How one broker answers."""

        def answer(header: Any, body: Any) -> Any:
            if header.api_key == Api.METADATA:
                response = metadata(self.leader)(header, body)
                return self._without_topic(response) if self.gone else response
            if header.api_key == Api.LIST_OFFSETS:
                return self._offsets(body)
            return self._fetch(broker_id, body)

        return answer

    def _without_topic(self, response: Any) -> Any:
        code = errors.UNKNOWN_TOPIC_OR_PARTITION
        topics = tuple(topic._replace(error_code=code, partitions=()) for topic in response.topics)
        return response._replace(topics=topics)

    def _offsets(self, body: Any) -> ListOffsetsResponse:
        timestamp = body.topics[0].partitions[0].timestamp
        answer = ListOffsetsPartitionResponse(0, 0, -1, {-2: self.first, -1: self.end}.get(timestamp, -1))
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", (answer,)),))

    def _fetch(self, broker_id: int, body: Any) -> FetchResponse | None:
        self.fetches.append(broker_id)
        if self.silent:
            self.silent -= 1
            return None
        offset = body.topics[0].partitions[0].fetch_offset
        code = self.refusal or (0 if broker_id == self.leader else errors.NOT_LEADER_OR_FOLLOWER)
        if not code and not self.first <= offset <= self.end:
            code = errors.OFFSET_OUT_OF_RANGE
        data = PartitionData(0, code, self.end, records=b"" if code else self._records(offset))
        return FetchResponse(responses=(FetchableTopicResponse(b"t" * 16, (data,)),))

    def _records(self, offset: int) -> bytes:
        values = [Record(0, 1, None, b"%d" % number) for number in range(offset, self.end)]
        return encode_batch(values, base_offset=offset) if values else b""


class Scene:
    """A reader of that log; time passes by one second with every look at the clock."""

    def __init__(self, log: Log, start: Start = BEGINNING, topic: str = "t") -> None:
        self.said: list[str] = []
        self.now = 0.0
        network = FakeNetwork(one=log.broker(1), two=log.broker(2))
        cluster = BlockingCluster("one:9092", connect=network.connect)
        self.reader = Reader(cluster, [topic], start, tell=self.said.append, clock=self._clock)

    def read(self, polls: int = 1) -> list[bytes | None]:
        """What so many polls give."""
        return [message.record.value for _ in range(polls) for message in self.reader.poll(0.0)]

    def _clock(self) -> float:
        self.now += 1.0
        return self.now


def test_messages_are_read_from_the_start_to_the_end() -> None:
    """Everything that there is, and then it is known to be the end."""
    scene = Scene(Log())
    assert not scene.reader.is_at_end
    assert scene.read() == [b"0", b"1", b"2"]
    assert scene.reader.is_at_end


def test_start_at_the_end_is_at_the_end() -> None:
    """Nothing has to be fetched to know it; new messages are then read."""
    log = Log()
    scene = Scene(log, Start(Kind.END))
    assert scene.reader.is_at_end
    log.end = 4
    assert scene.read() == [b"3"]


def test_leader_that_moved_is_found() -> None:
    """The old leader refuses, the metadata names the new one, nothing is lost or read twice."""
    log = Log()
    scene = Scene(log)
    assert scene.read() == [b"0", b"1", b"2"]
    log.leader, log.end = 2, 5
    assert scene.read(5) == [b"3", b"4"]
    assert log.fetches[:2] == [1, 1]
    assert log.fetches[-1] == 2


def test_broker_that_falls_silent_is_left_and_asked_again() -> None:
    """The connection is made anew, and the user hears of it once."""
    scene = Scene(Log(silent=2))
    assert scene.read(6) == [b"0", b"1", b"2"]
    assert len(scene.said) == 1
    assert "trying again" in scene.said[0]


def test_deleted_messages_are_skipped_and_told() -> None:
    """Retention was faster than the reader."""
    log = Log()
    scene = Scene(log)
    scene.read()
    log.first, log.end = 10, 12
    assert scene.read(3) == [b"10", b"11"]
    assert scene.said == ["t-0: messages 3 to 9 are deleted, going on at 10"]


def test_offset_that_there_is_not_is_refused_at_the_start() -> None:
    """An explicit offset is taken exactly or not at all."""
    with pytest.raises(UserError, match=r"t-0: offset 9 is out of range, it has 0 to 3"):
        Scene(Log(), Start(Kind.OFFSET, 9))


def test_unknown_topic_is_refused_with_the_nearest() -> None:
    """A typing error is answered with what was meant."""
    with pytest.raises(UserError, match="did you mean t"):
        Scene(Log(), topic="tt")


def test_topic_that_was_deleted_ends_the_reading() -> None:
    """Not at once, a broker may be behind; but not never."""
    log = Log()
    scene = Scene(log)
    scene.read()
    log.gone, log.refusal = True, errors.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic t"):
        scene.read(100)


def test_refusal_that_stays_ends_the_reading() -> None:
    """What will not get better is raised."""
    log = Log(refusal=errors.TOPIC_AUTHORIZATION_FAILED)
    scene = Scene(log)
    with pytest.raises(TopicAuthorizationFailed):
        scene.read(3)
