"""`__consumer_offsets`: made when a coordinator is asked for first. It holds no records: its leaders are the
coordinators (K1), and the offsets are in ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from brokerd.groups.placement import MAX_REPLICATION_FACTOR, OFFSETS_TOPIC
from brokerd.metadata import TopicInfo
from kafka_wire import errors

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from brokerd.broker import Broker

log = Logger()

_SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
"""Kafka's, which its tools expect to see."""


class OffsetsTopic:
    """Makes the topic once, however many ask."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[Deferred[TopicInfo]] = []

    def get(self) -> Deferred[TopicInfo]:
        """The topic; CoordinatorNotAvailable if it cannot be made now."""
        known = self._broker.view.topics.get(OFFSETS_TOPIC)
        if known is not None:
            return succeed(known)
        asked: Deferred[TopicInfo] = Deferred()
        self._waiting.append(asked)
        if len(self._waiting) == 1:
            self._create()
        return asked

    def _create(self) -> None:
        config, brokers = self._broker.config, self._broker.view.brokers
        factor = max(1, min(config.default_replication_factor, MAX_REPLICATION_FACTOR, len(brokers)))
        made = self._broker.topics.create(OFFSETS_TOPIC, config.offsets_topic_num_partitions, factor, None, _SETTINGS)
        made.addErrback(self._failed).addBoth(self._tell)

    def _failed(self, failure: Failure) -> TopicInfo:
        """Another broker may have been faster."""
        known = self._broker.view.topics.get(OFFSETS_TOPIC)
        if known is not None:
            return known
        log.warn("{topic} could not be made: {why}", topic=OFFSETS_TOPIC, why=failure.getErrorMessage())
        raise errors.CoordinatorNotAvailable(f"{OFFSETS_TOPIC} could not be made: {failure.getErrorMessage()}")

    def _tell(self, result: TopicInfo | Failure) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(result)  # a Failure makes it an errback
