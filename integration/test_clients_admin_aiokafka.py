"""The admin client of aiokafka, which speaks old versions of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

from integration.admin import create_topic
from integration.clients.aio import AioKafka
from integration.clients.base import Record
from integration.conftest import fresh_name
from integration.processes import AnyBroker

MOMENT = 1_700_000_000_000


def with_admin(broker: AnyBroker, act: Callable[[Any], Awaitable[Any]]) -> Any:
    """Runs `act` with a started admin client."""

    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            return await act(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def filled_topic(broker: AnyBroker) -> str:
    """A topic with ten records."""
    name = fresh_name("admin")
    create_topic(broker.bootstrap, name, 1, {"retention.ms": "-1"})
    records = [Record(None, b"x", (), MOMENT + 10 * number) for number in range(10)]
    AioKafka().write(broker.bootstrap, name, records, "none")
    return name


def test_topic_is_created_grown_listed_and_deleted(broker: AnyBroker) -> None:
    """Errors are fields of the answers here, so they are looked at."""
    name = fresh_name("life")

    async def act(admin: Any) -> None:
        created = await admin.create_topics([NewTopic(name, 2, 1)])
        assert [entry[1] for entry in created.topic_errors] == [0]
        assert name in await admin.list_topics()

        grown = await admin.create_partitions({name: NewPartitions(total_count=4)})
        assert [entry[1] for entry in grown.topic_errors] == [0]
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 4

        deleted = await admin.delete_topics([name])
        assert [entry[1] for entry in deleted.topic_error_codes] == [0]
        assert name not in await admin.list_topics()

    with_admin(broker, act)


def test_settings_are_altered_and_described(broker: AnyBroker) -> None:
    """AlterConfigs and DescribeConfigs."""
    name = filled_topic(broker)

    async def act(admin: Any) -> list[Any]:
        altered = await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "86400001"})]
        )
        assert [entry[0] for answer in altered for entry in answer.resources] == [0]
        described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return [entry for answer in described for resource in answer.resources for entry in resource[4]]

    entries = {entry[0]: entry[1] for entry in with_admin(broker, act)}

    assert entries["retention.ms"] == "86400001"
    assert entries["cleanup.policy"] == "delete"


def test_records_are_deleted(broker: AnyBroker) -> None:
    """The answer is the new start of the log."""
    name = filled_topic(broker)
    partition = TopicPartition(name, 0)

    async def act(admin: Any) -> Any:
        return await admin.delete_records({partition: RecordsToDelete(before_offset=3)})

    assert with_admin(broker, act)[partition] == 3


def test_cluster_is_described(broker: AnyBroker) -> None:
    """From the metadata, in its version."""

    async def act(admin: Any) -> Any:
        return await admin.describe_cluster()

    described = with_admin(broker, act)
    assert described["cluster_id"]
    assert described["controller_id"] in {entry["node_id"] for entry in described["brokers"]}


def test_consumer_looks_up_offsets(broker: AnyBroker) -> None:
    """Beginning, end, and by time."""
    name = filled_topic(broker)
    partition = TopicPartition(name, 0)

    async def act() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
        await consumer.start()
        try:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            found = await consumer.offsets_for_times({partition: MOMENT + 35})
            assert (found[partition].offset, found[partition].timestamp) == (4, MOMENT + 40)
        finally:
            await consumer.stop()

    asyncio.run(act())
