"""What ZooKeeper is known to hold, node by node, and the snapshot for handlers that is made of it. Pure.

Every `set_` keeps the newest: a state or assignment with a version that is not higher than the known one is dropped,
so that late reads, repeated changes and our own writes may arrive in any order (A9). A topic is known by its id: the
same name with another id is another topic, and nothing of the old one is carried over.

One topic's change costs no more than that topic: its row of partitions is kept and only the changed places are
replaced; the snapshot shares everything else with the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from brokerd.metadata import NO_LEADER, BrokerInfo, ClusterView, PartitionInfo, TopicInfo
from zk_schema.nodes import BrokerRegistration, Incarnation, TopicAssignment, VersionedState, uuid_text

NO_STATE_EPOCH = -1


@attrs.define(eq=False)
class KnownTopic:
    """One topic as far as it is known. `version` is that of the topic node."""

    assignment: TopicAssignment
    version: int
    states: dict[int, VersionedState] = attrs.field(factory=dict)
    overrides: Mapping[str, str] = attrs.field(factory=dict)
    has_config: bool = False
    has_partitions_node: bool = True
    bare: set[int] = attrs.field(factory=set)
    """Partitions whose node exists without a state (some other tool was interrupted)."""
    _row: list[PartitionInfo] | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.assignment.name

    @property
    def topic_id(self) -> bytes:
        """Its id."""
        return self.assignment.topic_id

    def info(self) -> TopicInfo:
        """The topic as handlers see it: all partitions, those without a state as leaderless."""
        if self._row is None:
            self._row = [self._partition(index) for index in sorted(self.assignment.partitions)]
        return TopicInfo(self.name, self.topic_id, tuple(self._row), self.overrides)

    def put(self, index: int, state: VersionedState) -> bool:
        """Takes a state if it is newer; says whether it was."""
        known = self.states.get(index)
        if known is not None and state.version <= known.version:
            return False
        self.states[index] = state
        self.bare.discard(index)
        self._redo(index)
        return True

    def drop(self, index: int) -> None:
        """The state's node is gone, and its parent too."""
        self.states.pop(index, None)
        self.bare.discard(index)
        self._redo(index)

    def assign(self, assignment: TopicAssignment, version: int) -> bool:
        """Takes an assignment of the same topic if it is newer."""
        if version <= self.version:
            return False
        self.assignment, self.version, self._row = assignment, version, None
        return True

    def _redo(self, index: int) -> None:
        if self._row is None:
            return
        if 0 <= index < len(self._row) and self._row[index].index == index:
            self._row[index] = self._partition(index)
        else:
            self._row = None

    def _partition(self, index: int) -> PartitionInfo:
        replicas = self.assignment.partitions.get(index, ())
        known = self.states.get(index)
        if known is None:
            return PartitionInfo(index, NO_LEADER, NO_STATE_EPOCH, replicas, (), -1)
        state = known.state
        return PartitionInfo(index, state.leader, state.leader_epoch, replicas, state.isr, known.version)


@attrs.frozen
class LiveBroker:
    """A registered broker; a new `czxid` is a new life of it (Z8)."""

    registration: BrokerRegistration
    czxid: int


class ClusterState:
    """All that is known; changed only by the learner and, with what ZooKeeper has confirmed, by the controller."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.controller_id = -1
        self.brokers: dict[int, LiveBroker] = {}
        self.incarnations: dict[int, tuple[Incarnation, int]] = {}
        self._suspects: dict[int, frozenset[tuple[str, int]]] = {}
        self.broker_changes = 0
        """Counts changes of registrations and incarnations: each may move leaders of any topic."""
        self.topics: dict[str, KnownTopic] = {}
        self.tombstones: set[bytes] = set()
        self.wishes: set[str] = set()
        """Names under /admin/delete_topics; only the controller reads them."""
        self.resignations: dict[tuple[str, int], int] = {}
        """Leaders that asked to be replaced, and the epoch in which they did (A25)."""
        self.frozen: dict[str, str] = {}
        """Topics with an unreadable node, and what is wrong (A31)."""
        self.broker_settings: dict[str, Mapping[str, str]] = {}
        """Settings of brokers made while they run, by id and as `<default>`."""
        self._view = ClusterView("")
        self._stale: set[str] = set()
        self._stale_brokers = True

    # ---- reading

    def is_dead(self, topic: KnownTopic) -> bool:
        """Whether there is a tombstone of this topic's id."""
        return topic.topic_id in self.tombstones

    def is_draining(self, broker_id: int) -> bool:
        """Whether the broker is about to leave."""
        known = self.incarnations.get(broker_id)
        return known is not None and known[0].draining

    def suspects(self, broker_id: int) -> frozenset[tuple[str, int]]:
        """The partitions whose log the broker itself does not trust (A10)."""
        return self._suspects.get(broker_id, frozenset())

    def view(self) -> tuple[ClusterView, set[str]]:
        """The snapshot of now, and the names of the topics that differ from the snapshot before."""
        changed, self._stale = self._stale, set()
        view = self._view
        if changed:
            infos = {name: self._visible(name) for name in changed}
            gone = [name for name, info in infos.items() if info is None]
            view = view.with_topics((info for info in infos.values() if info is not None), gone)
        if self._stale_brokers:
            self._stale_brokers = False
            brokers = {number: _info(one.registration) for number, one in self.brokers.items()}
            view = attrs.evolve(
                view, cluster_id=self.cluster_id, controller_id=self.controller_id, brokers=brokers
            )
        self._view = view
        return view, changed

    def _visible(self, name: str) -> TopicInfo | None:
        topic = self.topics.get(name)
        return None if topic is None or self.is_dead(topic) else topic.info()

    # ---- changing

    def set_cluster_id(self, cluster_id: str) -> None:
        """The cluster's id."""
        self.cluster_id = cluster_id
        self._stale_brokers = True

    def set_controller(self, broker_id: int) -> None:
        """Who is controller; -1: nobody."""
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            self._stale_brokers = True

    def set_brokers(self, brokers: Mapping[int, LiveBroker]) -> bool:
        """All registered brokers; says whether anything is new."""
        if brokers == self.brokers:
            return False
        self.brokers = dict(brokers)
        self.broker_changes += 1
        self._stale_brokers = True
        return True

    def set_incarnation(self, incarnation: Incarnation, version: int) -> bool:
        """A broker's incarnation node, if it is newer."""
        known = self.incarnations.get(incarnation.broker_id)
        if known is not None and known[1] >= version:
            return False
        self.incarnations[incarnation.broker_id] = (incarnation, version)
        self._suspects[incarnation.broker_id] = frozenset(incarnation.suspect)
        self.broker_changes += 1
        return True

    def set_assignment(self, assignment: TopicAssignment, version: int) -> KnownTopic:
        """A topic node."""
        known = self.topics.get(assignment.name)
        if known is None or known.topic_id != assignment.topic_id:
            known = self.topics[assignment.name] = KnownTopic(assignment, version)
            self._stale.add(assignment.name)
        elif known.assign(assignment, version):
            self._stale.add(assignment.name)
        return known

    def put_states(self, name: str, states: Iterable[tuple[int, VersionedState]]) -> None:
        """States of partitions of a known topic."""
        topic = self.topics[name]
        for index, state in states:
            if topic.put(index, state):
                self._stale.add(name)

    def drop_states(self, name: str, indexes: Iterable[int]) -> None:
        """State nodes that are gone."""
        topic = self.topics.get(name)
        if topic is not None:
            for index in indexes:
                topic.drop(index)
                self._stale.add(name)

    def set_overrides(self, name: str, overrides: Mapping[str, str] | None) -> None:
        """A topic's settings; None: there is no node for them."""
        topic = self.topics.get(name)
        if topic is None:
            return
        topic.has_config = overrides is not None
        if dict(overrides or {}) != dict(topic.overrides):
            topic.overrides = dict(overrides or {})
            self._stale.add(name)

    def set_broker_settings(self, name: str, settings: Mapping[str, str]) -> None:
        """The settings of one broker, or of all (`<default>`)."""
        self.broker_settings[name] = dict(settings)

    def bury(self, topic_id: bytes) -> None:
        """There is a tombstone of this topic."""
        self.tombstones.add(topic_id)
        name = self._view.names.get(topic_id)
        if name is not None:
            self._stale.add(name)

    def keep_tombstones(self, there: Iterable[str]) -> None:
        """All tombstones that there are, by the text of their ids: forgets those that were purged."""
        names = set(there)
        alive = {topic.topic_id for topic in self.topics.values()}
        self.tombstones = {one for one in self.tombstones if one in alive or uuid_text(one) in names}

    def forget_topic(self, name: str) -> None:
        """The topic node is gone."""
        self.frozen.pop(name, None)
        if self.topics.pop(name, None) is not None:
            self._stale.add(name)

    def freeze(self, name: str, why: str) -> bool:
        """A node of the topic cannot be read (A31); says whether that is news."""
        news = self.frozen.get(name) != why
        self.frozen[name] = why
        return news


def _info(registration: BrokerRegistration) -> BrokerInfo:
    addresses = {one.name: (one.host, one.port) for one in registration.endpoints}
    first = registration.endpoints[0] if registration.endpoints else None
    host, port = ("", -1) if first is None else (first.host, first.port)
    return BrokerInfo(registration.broker_id, host, port, registration.rack, addresses)
