"""Small administrative steps that many tests need, done with confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def admin_client(bootstrap: str) -> Any:
    """An admin client of confluent-kafka."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Makes a topic with one replica and waits until it can be used."""
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    client = admin_client(bootstrap)  # kept in a name: a collected client ends its calls
    client.create_topics([new], operation_timeout=30)[name].result(30)
