"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from integration.clients.base import CODECS, Received, Record

READ_SECONDS = 15.0


class KafkaPython:
    """Its producer with its defaults but for the codec."""

    name: ClassVar[str] = "kafka-python"
    writes: ClassVar[Sequence[str]] = CODECS
    sets_timestamps: ClassVar[bool] = True
    line_bound: ClassVar[bool] = False

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """See base.Client."""
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=0,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            return [future.get(30).offset for future in futures]
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """See base.Client."""
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
        try:
            consumer.assign([TopicPartition(topic, 0)])
            received: list[Received] = []
            deadline = time.monotonic() + READ_SECONDS
            while len(received) < count and time.monotonic() < deadline:
                for messages in consumer.poll(timeout_ms=1000).values():
                    received += [
                        Received(message.offset, message.key, message.value, tuple(message.headers), message.timestamp)
                        for message in messages
                    ]
            return received
        finally:
            consumer.close()
