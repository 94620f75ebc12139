"""What `barnabas produce` does when brokers refuse, forget, move or fall silent: every message stored, none twice."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from barnabas.delivery import Delivery, Terms
from barnabas.errors import UserError
from barnabas.sending import Outbox
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.batches import read_header
from kafka_wire.blocking import BlockingCluster
from kafka_wire.records import Record, decode_batch
from kafka_wire.schema.init_producer_id import InitProducerIdResponse
from kafka_wire.schema.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kafka_wire.test.fake_network import FakeNetwork, metadata

Behaviour = Callable[[list[Record]], int | None]
"""Error code for a batch (0: store it), or None to store it and say nothing."""


def stores(_records: list[Record]) -> int:
    return 0


@attrs.define
class Script:
    """Two brokers of one log, both leading partition 0: `behaviours` for the first batches, then all is stored."""

    behaviours: list[Behaviour]
    log: list[tuple[int, int, bytes | None]] = attrs.field(factory=list)
    next_id: int = 70
    tries: int = 0

    def answer(self, header: Any, body: Any) -> Any:
        """A broker, as far as producers need it."""
        if header.api_key == Api.METADATA:
            return metadata()(header, body)
        if header.api_key == Api.INIT_PRODUCER_ID:
            self.next_id += 1
            return InitProducerIdResponse(producer_id=self.next_id, producer_epoch=0)
        [topic] = body.topic_data
        [data] = topic.partition_data
        code = self._store(bytes(data.records))
        if code is None:
            return None
        result = PartitionProduceResponse(index=data.index, error_code=code)
        return ProduceResponse(responses=(TopicProduceResponse(name=topic.name, partition_responses=(result,)),))

    def _store(self, batch: bytes) -> int | None:
        self.tries += 1
        header, records = read_header(batch), decode_batch(batch)
        code = self.behaviours.pop(0)(records) if self.behaviours else 0
        known = {entry[:2] for entry in self.log}
        rows = [(header.producer_id, header.base_sequence + i, record.value) for i, record in enumerate(records)]
        if code is None or code == 0:
            if header.producer_id >= 0 and rows[0][:2] in known:
                return errors.DUPLICATE_SEQUENCE_NUMBER
            self.log += rows
        return code


def deliver(script: Script, values: list[bytes], *, acks: int = -1, timeout: float = 30.0) -> Delivery:
    """Send values as one batch; time passes only when the delivery sleeps."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    network = FakeNetwork(one=script.answer, two=script.answer)
    cluster = BlockingCluster("one:9092", connect=network.connect)
    delivery = Delivery(cluster, Terms("t", acks, 0, timeout), sleep=sleep, clock=lambda: now[0])
    outbox = Outbox(delivery.partition_count())
    for value in values:
        outbox.add(Record(0, 1, None, value))
    delivery.send(outbox)
    assert outbox.messages == 0
    return delivery


def values(script: Script) -> list[bytes | None]:
    return [value for _, _, value in script.log]


def test_messages_are_stored_with_sequences_of_one_producer() -> None:
    """acks=all makes the producer idempotent."""
    script = Script([])
    delivery = deliver(script, [b"a", b"b"])
    assert script.log == [(71, 0, b"a"), (71, 1, b"b")]
    assert (delivery.sent.messages, delivery.sent.bytes) == (2, 2)


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_need_no_producer_id(acks: int) -> None:
    """They promise less and ask for less."""
    script = Script([(lambda _: None) if acks == 0 else stores])
    deliver(script, [b"a"], acks=acks)
    assert script.log == [(-1, -1, b"a")]


def test_leader_that_moved_is_looked_up_and_asked_again() -> None:
    """Retriable errors cost time, not messages."""
    script = Script([lambda _: errors.NOT_LEADER_OR_FOLLOWER, lambda _: errors.NOT_ENOUGH_REPLICAS])
    deliver(script, [b"a"])
    assert (values(script), script.tries) == ([b"a"], 3)


def test_lost_answer_does_not_store_twice() -> None:
    """The broker stored it and fell silent: the same sequence is sent again and known as a duplicate."""
    script = Script([lambda _: None])
    deliver(script, [b"a"])
    assert (values(script), script.tries) == ([b"a"], 2)


def test_batch_that_is_too_large_goes_in_halves() -> None:
    """Order and sequences stay; a message that is too large alone is named."""
    script = Script([lambda _: errors.MESSAGE_TOO_LARGE])
    deliver(script, [b"a", b"b", b"c"])
    assert script.log == [(71, 0, b"a"), (71, 1, b"b"), (71, 2, b"c")]
    with pytest.raises(UserError, match="of 5 bytes as too large"):
        deliver(Script([lambda _: errors.MESSAGE_TOO_LARGE]), [b"large"])


def test_producer_that_was_forgotten_gets_a_new_id() -> None:
    """Certainly not stored: safe under a new id, which counts from 0."""
    script = Script([lambda _: errors.UNKNOWN_PRODUCER_ID])
    deliver(script, [b"a"])
    assert script.log == [(72, 0, b"a")]


def test_unknown_fate_is_not_guessed() -> None:
    """After a lost answer a broker that does not know the producer leaves us with no safe way."""
    script = Script([lambda _: None, lambda _: errors.UNKNOWN_PRODUCER_ID])
    with pytest.raises(UserError, match="not known"):
        deliver(script, [b"a"])
    assert values(script) == [b"a"]


def test_refusal_says_why() -> None:
    """What will not get better is not tried again."""
    script = Script([lambda _: errors.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(UserError, match="TOPIC_AUTHORIZATION_FAILED"):
        deliver(script, [b"a"])
    assert script.tries == 1


def test_time_is_up_at_last() -> None:
    """A problem that stays is given up after the timeout, with its name."""
    script = Script([lambda _: errors.NOT_ENOUGH_REPLICAS] * 1000)
    with pytest.raises(UserError, match=r"gave up.*NOT_ENOUGH_REPLICAS"):
        deliver(script, [b"a"], timeout=5.0)
    assert 5 < script.tries < 20
