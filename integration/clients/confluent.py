"""confluent-kafka: librdkafka of today."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from integration.clients.base import CODECS, Received, Record

READ_SECONDS = 15.0


class ConfluentKafka:
    """Producer idempotent, as most users run it."""

    name: ClassVar[str] = "confluent-kafka"
    writes: ClassVar[Sequence[str]] = CODECS
    sets_timestamps: ClassVar[bool] = True
    line_bound: ClassVar[bool] = False

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """See base.Client."""
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 20,
            }
        )
        offsets: list[int] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise AssertionError(f"confluent-kafka could not deliver: {error}")
            offsets.append(message.offset())

        for record in records:
            options: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=0,
                headers=list(record.headers),
                on_delivery=delivered,
                **options,
            )
        assert producer.flush(30) == 0, "confluent-kafka did not deliver within 30 s"
        return offsets

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """See base.Client."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            return _poll(consumer, count)
        finally:
            consumer.close()


def _poll(consumer: Any, count: int) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + READ_SECONDS
    while len(received) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            raise AssertionError(f"confluent-kafka could not consume: {message.error()}")
        headers = tuple((name, value) for name, value in message.headers() or ())
        received.append(Received(message.offset(), message.key(), message.value(), headers, message.timestamp()[1]))
    return received
