"""What a client knows of the cluster: brokers, topics, who leads which partition. Made from Metadata answers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from kafka_wire import errors
from kafka_wire.errors import BrokerNotAvailable, LeaderNotAvailable, UnknownTopicId, UnknownTopicOrPartition
from kafka_wire.ids import TopicPartition

NO_TOPIC_ID = bytes(16)


class BrokerAddress(NamedTuple):
    """Where a broker listens for us."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionView(NamedTuple):
    """One partition as the answering broker saw it; `leader` -1 is none, `leader_epoch` -1 unknown."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error_code: int


@attrs.frozen(slots=True)
class TopicView:
    """One topic: its id (zeros if the broker did not say), and its partitions by number."""

    name: str
    topic_id: bytes
    internal: bool
    error_code: int
    partitions: Mapping[int, PartitionView]


@attrs.frozen(slots=True)
class MetadataView:
    """A snapshot. Look-ups raise the KafkaError that a broker would answer with: callers have one kind to handle."""

    brokers: Mapping[int, BrokerAddress] = attrs.field(factory=dict)
    topics: Mapping[str, TopicView] = attrs.field(factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    complete: bool = False  # whether all topics were asked for: only then does absence mean "there is none"

    @classmethod
    def of(cls, response: Any, *, complete: bool) -> "MetadataView":
        """From a MetadataResponse; `complete` if the request asked for all topics."""
        brokers = {b.node_id: BrokerAddress(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        topics = {t.name: _topic(t) for t in response.topics if t.name is not None}
        return cls(brokers, topics, response.controller_id, response.cluster_id, complete)

    def topic(self, name: str) -> TopicView:
        """The topic, or UnknownTopicOrPartition, or the error that the broker gave for it."""
        topic = self.topics.get(name)
        if topic is None or topic.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicOrPartition(f"there is no topic {name}")
        if topic.error_code:
            kind = errors.for_code(topic.error_code)
            raise kind(f"topic {name}: {kind.name}")
        return topic

    def topic_name(self, topic_id: bytes) -> str:
        """The name of a topic id, or UnknownTopicId."""
        for topic in self.topics.values():
            if topic.topic_id == topic_id != NO_TOPIC_ID:
                return topic.name
        raise UnknownTopicId(f"topic id {topic_id.hex()} is not known")

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic in order, with or without a leader."""
        return [TopicPartition(topic, number) for number in sorted(self.topic(topic).partitions)]

    def partition(self, tp: TopicPartition) -> PartitionView:
        """What is known of one partition, or UnknownTopicOrPartition."""
        found = self.topic(tp.topic).partitions.get(tp.partition)
        if found is None:
            raise UnknownTopicOrPartition(f"{tp.topic} has no partition {tp.partition}")
        return found

    def leader(self, tp: TopicPartition) -> int:
        """The broker that leads, or LeaderNotAvailable. Replicas that are away (error 9) are no obstacle."""
        leader = self.partition(tp).leader
        if leader < 0:
            raise LeaderNotAvailable(f"{tp.topic} {tp.partition} has no leader")
        return leader

    def address(self, broker_id: int) -> BrokerAddress:
        """Where a broker listens, or BrokerNotAvailable."""
        found = self.brokers.get(broker_id)
        if found is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not known")
        return found

    def merged(self, newer: "MetadataView") -> "MetadataView":
        """This view brought up to date by a later answer, which may have been about some topics only.

        A broker that is behind may name an older leader: a partition's lower leader epoch does not replace a higher
        one of the same topic id (KIP-320).
        """
        topics = {} if newer.complete else dict(self.topics)
        for name, topic in newer.topics.items():
            old = self.topics.get(name)
            topics[name] = topic if old is None or old.topic_id != topic.topic_id else _newest(old, topic)
        cluster_id = newer.cluster_id if newer.cluster_id is not None else self.cluster_id
        return MetadataView(newer.brokers, topics, newer.controller_id, cluster_id, self.complete or newer.complete)


def _topic(topic: Any) -> TopicView:
    partitions = {
        p.partition_index: PartitionView(
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
            p.error_code,
        )
        for p in topic.partitions
    }
    return TopicView(topic.name, topic.topic_id, topic.is_internal, topic.error_code, partitions)


def _newest(old: TopicView, new: TopicView) -> TopicView:
    if new.error_code:
        return new
    partitions = {
        number: old.partitions[number] if _is_older(partition, old.partitions.get(number)) else partition
        for number, partition in new.partitions.items()
    }
    return attrs.evolve(new, partitions=partitions)


def _is_older(partition: PartitionView, known: PartitionView | None) -> bool:
    return known is not None and -1 < partition.leader_epoch < known.leader_epoch
