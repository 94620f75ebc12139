"""Metadata: brokers, and topics by name or by id, from one snapshot of the cluster; unknown names may create
topics.

A partition without a living leader is listed with LEADER_NOT_AVAILABLE: a partial list would make clients believe
that partitions vanished.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd import topic_rules
from brokerd.handlers.settling import gathered, settled, within
from brokerd.handlers.types import Request
from brokerd.metadata import NO_LEADER, BrokerInfo, ClusterView, PartitionInfo, TopicInfo
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.METADATA
VERSIONS = (0, 12)

AUTO_CREATE_MS = 5_000
"""How long a client waits for a topic that its request creates; later it is told to ask again."""

_NO_ID = bytes(16)
_INTERNAL = ("__consumer_offsets", "__transaction_state")


def handle(broker: Broker, request: Request) -> MetadataResponse | Deferred[MetadataResponse]:
    """Answers at once, unless topics are to be created first."""
    body: MetadataRequest = request.body
    if body.topics is None:
        return _response(broker, request, [_known(broker, topic) for _, topic in sorted(broker.view.topics.items())])
    creating = body.allow_auto_topic_creation and broker.config.auto_create_topics_enable
    pieces = [_one(broker, asked, creating) for asked in dict.fromkeys(body.topics)]
    return gathered(pieces, lambda topics: _response(broker, request, topics))


def _response(broker: Broker, request: Request, topics: Iterable[MetadataResponseTopic]) -> MetadataResponse:
    view, listener = broker.view, request.connection.listener
    return MetadataResponse(
        brokers=tuple(_broker(one, listener) for _, one in sorted(view.brokers.items())),
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        topics=tuple(topics),
    )


def _broker(one: BrokerInfo, listener: str) -> MetadataResponseBroker:
    host, port = one.address(listener)
    return MetadataResponseBroker(node_id=one.broker_id, host=host, port=port, rack=one.rack)


def _one(
    broker: Broker, asked: MetadataRequestTopic, creating: bool
) -> MetadataResponseTopic | Deferred[MetadataResponseTopic]:
    view = broker.view
    if asked.topic_id != _NO_ID:
        known = view.names.get(asked.topic_id)
        if known is None:
            return MetadataResponseTopic(
                error_code=errors.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id, partitions=()
            )
        return _known(broker, view.topics[known])
    try:
        name = topic_rules.check_name(asked.name)
    except errors.KafkaError as problem:
        return _missing(asked.name or "", problem.code)
    found = view.topics.get(name)
    if found is not None:
        return _known(broker, found)
    if (
        not creating or name in _INTERNAL
    ):  # brokers make the internal ones when they need them, with settings of their own
        return _missing(name, errors.UNKNOWN_TOPIC_OR_PARTITION)
    return _create(broker, name)


def _create(broker: Broker, name: str) -> MetadataResponseTopic | Deferred[MetadataResponseTopic]:
    """The topic with the broker's defaults, once it is there."""
    config = broker.config
    try:
        new = topic_rules.check_new_topic(
            topic_rules.NewTopic(name, topic_rules.UNSET, topic_rules.UNSET, None, {}),
            broker.view.topics,
            broker.view.brokers,
            default_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
        )
    except errors.KafkaError as problem:
        return _missing(name, problem.code)

    def failed(problem: errors.KafkaError) -> MetadataResponseTopic:
        """Another request may have been faster; whatever may pass, the client is to ask again."""
        now = broker.view.topics.get(name)
        if now is not None:
            return _topic(broker.view, now)
        again = problem.retriable or problem.code in (errors.TOPIC_ALREADY_EXISTS, errors.REQUEST_TIMED_OUT)
        return _missing(name, errors.LEADER_NOT_AVAILABLE if again else problem.code)

    work = broker.topics.create(name, new.partitions, new.replication_factor, None, {})
    return settled(within(broker.reactor, AUTO_CREATE_MS, work), lambda topic: _topic(broker.view, topic), failed)


def _missing(name: str, code: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=_NO_ID, is_internal=name in _INTERNAL, partitions=()
    )


def _known(broker: Broker, topic: TopicInfo) -> MetadataResponseTopic:
    """The topic's part of the answer, made anew only when the topic or the set of brokers has changed: views replace
    what changes and share the rest, so identity is enough."""
    brokers = broker.view.brokers
    made = broker.metadata_parts.get(topic.name)
    if made is None or made[0] is not topic or made[1] is not brokers:
        made = broker.metadata_parts[topic.name] = (topic, brokers, _topic(broker.view, topic))
    return made[2]


def _topic(view: ClusterView, topic: TopicInfo) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=errors.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=tuple(_partition(view, partition) for partition in topic.partitions),
    )


def _partition(view: ClusterView, partition: PartitionInfo) -> MetadataResponsePartition:
    led = partition.leader in view.brokers
    return MetadataResponsePartition(
        error_code=errors.NONE if led else errors.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader if led else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=partition.offline(view.brokers),
    )
