"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from integration.clients.base import CODECS, Received, Record

READ_SECONDS = 15.0


class AioKafka:
    """Each call runs a loop of its own."""

    name: ClassVar[str] = "aiokafka"
    writes: ClassVar[Sequence[str]] = CODECS
    sets_timestamps: ClassVar[bool] = True
    line_bound: ClassVar[bool] = False

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """See base.Client."""
        return asyncio.run(_write(bootstrap, topic, records, codec))

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """See base.Client."""
        return asyncio.run(_read(bootstrap, topic, count))


async def _write(bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int]:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=0,
                headers=list(record.headers),
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        return [(await asyncio.wait_for(future, 30)).offset for future in futures]
    finally:
        await producer.stop()


async def _read(bootstrap: str, topic: str, count: int) -> list[Received]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.start()
    try:
        received: list[Received] = []
        async with asyncio.timeout(READ_SECONDS):
            while len(received) < count:
                for messages in (await consumer.getmany(timeout_ms=1000)).values():
                    received += [
                        Received(message.offset, message.key, message.value, tuple(message.headers), message.timestamp)
                        for message in messages
                    ]
        return received
    finally:
        await consumer.stop()
