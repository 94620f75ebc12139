"""What this broker knows of the cluster: one frozen snapshot, replaced whole at every change.

Pure. Handlers read the snapshot of the moment; nobody edits it in place, so a request sees one consistent
cluster from its first field to its last. Where a leader is being elected the leader is NO_LEADER; the
partition is still listed (a partial list would make clients and Spark believe that partitions vanished).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

NO_LEADER = -1


@attrs.frozen
class BrokerInfo:
    """A registered broker; `host` and `port` are those of its first listener, `addresses` has them all by name."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    addresses: Mapping[str, tuple[str, int]] = attrs.field(factory=dict)

    def address(self, listener: str) -> tuple[str, int]:
        """Where clients of a listener find the broker: at its own of that name, at its first one if it has none."""
        return self.addresses.get(listener) or (self.host, self.port)


@attrs.frozen
class PartitionInfo:
    """State of one partition as ZooKeeper has it; `version` is that of the state node (needed to change it)."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    version: int = 0

    def offline(self, alive: Mapping[int, BrokerInfo]) -> tuple[int, ...]:
        """The replicas whose broker is not registered."""
        return tuple(replica for replica in self.replicas if replica not in alive)


@attrs.frozen
class TopicInfo:
    """A topic with its id; re-creation under the same name gives another id."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    overrides: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def internal(self) -> bool:
        """Internal topics are kept by brokers for themselves; clients do not subscribe to them by pattern."""
        return self.name in ("__consumer_offsets", "__transaction_state")


@attrs.frozen
class ClusterView:
    """The whole cluster at one moment. Topics change through `with_topics`, which keeps `names` in step."""

    cluster_id: str
    controller_id: int = -1
    brokers: Mapping[int, BrokerInfo] = attrs.field(factory=dict)
    topics: Mapping[str, TopicInfo] = attrs.field(factory=dict)
    names: Mapping[bytes, str] = attrs.field()

    @names.default
    def _names(self) -> Mapping[bytes, str]:
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    def with_topics(self, put: Iterable[TopicInfo], gone: Iterable[str] = ()) -> ClusterView:
        """This view with some topics added, replaced or gone, for the price of two copied dictionaries."""
        topics, names = dict(self.topics), dict(self.names)
        for name in gone:
            former = topics.pop(name, None)
            if former is not None:
                names.pop(former.topic_id, None)
        for topic in put:
            former = topics.get(topic.name)
            if former is not None and former.topic_id != topic.topic_id:
                names.pop(former.topic_id, None)
            topics[topic.name] = topic
            names[topic.topic_id] = topic.name
        return attrs.evolve(self, topics=topics, names=names)

    def with_topic(self, topic: TopicInfo) -> ClusterView:
        """This view with one topic added or replaced."""
        return self.with_topics((topic,))

    def without_topic(self, name: str) -> ClusterView:
        """This view without one topic."""
        return self.with_topics((), (name,))
