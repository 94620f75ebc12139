"""All clients."""

from __future__ import annotations

from integration.clients.aio import AioKafka
from integration.clients.base import Client
from integration.clients.confluent import ConfluentKafka
from integration.clients.java import JavaConsole
from integration.clients.kafka_python import KafkaPython
from integration.clients.kafkajs import KafkaJs
from integration.clients.kcat import Kcat

CLIENTS: tuple[Client, ...] = (ConfluentKafka(), KafkaPython(), AioKafka(), Kcat(), KafkaJs(), JavaConsole())
