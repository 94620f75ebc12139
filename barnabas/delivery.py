"""An Outbox to the brokers: one request at a time to each leader, again until it is stored or time is up.

With acks=all the producer is idempotent: a batch whose fate is not known is sent again with the same sequence number,
and a broker that has it already says so. With other acks it may then be stored twice, as with any Kafka client.
"""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from barnabas.errors import UserError
from barnabas.sending import Batch, Outbox
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import (
    BrokerNotAvailable,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownProducerId,
    UnknownServerError,
)
from kafka_wire.exchange import back_off
from kafka_wire.ids import TopicPartition
from kafka_wire.records import encode_batch
from kafka_wire.schema.init_producer_id import InitProducerIdRequest
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_TOO_LARGE = (MessageTooLarge, RecordListTooLarge)
_FORGOTTEN = (UnknownProducerId, OutOfOrderSequenceNumber, InvalidProducerEpoch)
_UNREACHED = (NetworkException, RequestTimedOut)


@attrs.frozen
class Terms:
    """What was asked for: acks as on the wire (-1 all), the codec's number, seconds until a batch is given up."""

    topic: str
    acks: int
    codec: int
    timeout: float


@attrs.define
class Sent:
    """What was stored so far."""

    messages: int = 0
    bytes: int = 0


class Delivery:
    """Sends what an Outbox holds; counts what was stored in `sent`."""

    def __init__(
        self,
        cluster: BlockingCluster,
        terms: Terms,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sent = Sent()
        self._cluster = cluster
        self._terms = terms
        self._sleep = sleep
        self._clock = clock
        self._producer = (-1, -1)  # id and epoch; none yet
        self._unknown_fate: set[int] = set()  # partitions whose first batch was sent and not answered

    def partition_count(self) -> int:
        """How many partitions the topic has; asks the broker to create it if there is none.

        A topic that was just created has no leaders for a moment: waits for them.
        """
        deadline = self._clock() + min(self._terms.timeout, 10.0)
        failures = 0
        while True:
            view = self._cluster.metadata([self._terms.topic], refresh=True, create=True)
            try:
                found = view.partitions(self._terms.topic)
                for tp in found:
                    view.leader(tp)
                return len(found)
            except KafkaError as error:
                if not error.retriable or self._clock() > deadline:
                    raise UserError(f"cannot send to {self._terms.topic}: {error.message}") from error
            failures += 1
            self._sleep(back_off(failures, 0.05, 0.5, random.uniform))

    def send(self, outbox: Outbox) -> None:
        """Send everything; returns when all is stored. UserError says which message could not be."""
        deadline, failures = self._clock() + self._terms.timeout, 0
        while due := outbox.due():
            before = self.sent.messages
            problem = self._round(outbox, due)
            if self.sent.messages > before:
                deadline, failures = self._clock() + self._terms.timeout, 0
            if problem is not None:
                failures += 1
                wait = back_off(failures, 0.1, 1.0, random.uniform)
                if self._clock() + wait > deadline:
                    raise UserError(f"gave up sending to {self._terms.topic}: {problem.message}") from problem
                self._sleep(wait)
                self._refresh()

    def _round(self, outbox: Outbox, due: Mapping[int, Batch]) -> KafkaError | None:
        """Try the first batch of each partition once; what stood in the way of one of them, if it may pass."""
        try:
            self._be_known(outbox)
            by_leader: dict[int, list[int]] = {}
            for partition in due:
                leader = self._cluster.leader(TopicPartition(self._terms.topic, partition))
                by_leader.setdefault(leader, []).append(partition)
        except KafkaError as error:
            if not error.retriable:
                raise
            return error
        problem: KafkaError | None = None
        for leader, partitions in by_leader.items():
            problem = self._ask(leader, outbox, {partition: due[partition] for partition in partitions}) or problem
        return problem

    def _ask(self, leader: int, outbox: Outbox, due: Mapping[int, Batch]) -> KafkaError | None:
        data = tuple(PartitionProduceData(p, self._encoded(outbox, p, batch)) for p, batch in due.items())
        timeout_ms = int(self._terms.timeout * 1000)
        body = ProduceRequest(None, self._terms.acks, timeout_ms, (TopicProduceData(self._terms.topic, data),))
        for batch in due.values():
            batch.tries += 1
        try:
            response = self._cluster.request(Api.PRODUCE, body, leader)
        except BrokerNotAvailable as error:
            return error
        except _UNREACHED as error:
            self._unknown_fate.update(due)
            return error
        if response is None:  # acks=0
            for partition in due:
                self._stored(outbox, partition)
            return None
        problem: KafkaError | None = None
        results = {result.index: result for topic in response.responses for result in topic.partition_responses}
        for partition in due:
            if partition in results:
                problem = self._settle(outbox, results[partition]) or problem
            else:
                self._unknown_fate.add(partition)
                problem = UnknownServerError(f"the broker's answer leaves out {self._terms.topic}-{partition}")
        return problem

    def _encoded(self, outbox: Outbox, partition: int, batch: Batch) -> bytes:
        producer_id, epoch = self._producer
        sequence = outbox.sequence(partition) if producer_id >= 0 else -1
        return encode_batch(
            batch.records,
            codec=self._terms.codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    def _settle(self, outbox: Outbox, result: Any) -> KafkaError | None:
        """Act on the answer for one partition: stored, to be tried again (the error is returned), or UserError."""
        if not result.error_code:
            self._stored(outbox, result.index)
            return None
        kind = errors.for_code(result.error_code)
        error = kind(result.error_message or f"{self._terms.topic}-{result.index}: {kind.name}")
        if isinstance(error, DuplicateSequenceNumber):
            self._stored(outbox, result.index)
            return None
        if isinstance(error, _TOO_LARGE) and outbox.split(result.index):
            return None
        if isinstance(error, _FORGOTTEN) and result.index not in self._unknown_fate:
            # The broker has certainly not stored this batch: it may go under a new id, once that holds for all others.
            if not self._unknown_fate:
                self._producer = (-1, -1)
            return error
        if not error.retriable:
            raise UserError(self._refusal(outbox, result.index, error)) from error
        if isinstance(error, RequestTimedOut):
            self._unknown_fate.add(result.index)
        return error

    def _refusal(self, outbox: Outbox, partition: int, error: KafkaError) -> str:
        first = outbox.due()[partition].records[0]
        where = f"{self._terms.topic}-{partition}"
        if isinstance(error, _TOO_LARGE):
            return f"the broker refuses a message of {len(first.value or b'')} bytes as too large for {where}"
        if isinstance(error, _FORGOTTEN):
            return f"{where}: whether a batch was stored is not known ({error.name}): {error.message}"
        return f"the broker refuses messages for {where}: {error.message}"

    def _stored(self, outbox: Outbox, partition: int) -> None:
        batch = outbox.done(partition)
        self._unknown_fate.discard(partition)
        self.sent.messages += len(batch.records)
        self.sent.bytes += sum(len(record.value or b"") for record in batch.records)

    def _be_known(self, outbox: Outbox) -> None:
        """Get a producer id, if acks=all makes us idempotent and we have none."""
        if self._terms.acks != -1 or self._producer[0] >= 0:
            return
        response = self._cluster.request(Api.INIT_PRODUCER_ID, InitProducerIdRequest(transaction_timeout_ms=60_000))
        if response.error_code:
            raise errors.for_code(response.error_code)("the broker gave no producer id")
        self._producer = (response.producer_id, response.producer_epoch)
        outbox.restart_sequences()

    def _refresh(self) -> None:
        """New metadata, or none if nobody can be reached: then the next round says so."""
        try:
            self._cluster.metadata([self._terms.topic], refresh=True)
        except _UNREACHED:
            return
