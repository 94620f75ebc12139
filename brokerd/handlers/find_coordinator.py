"""FindCoordinator: the leader of the group's slot of `__consumer_offsets` (K1), which is made if it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.groups.placement import slot_of
from brokerd.handlers.settling import gathered, settled, within
from brokerd.handlers.types import Request
from brokerd.metadata import TopicInfo
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.FIND_COORDINATOR
VERSIONS = (0, 6)

GROUP = 0
TRANSACTION = 1
CREATE_MS = 10_000
"""How long a client waits for the topic to be made; later it is told to ask again."""

_SEVERAL_FROM = 4


def handle(broker: Broker, request: Request) -> FindCoordinatorResponse | Deferred[FindCoordinatorResponse]:
    """Answers at once, unless the topic has to be made first."""
    body: FindCoordinatorRequest = request.body
    several = request.header.api_version >= _SEVERAL_FROM
    keys = body.coordinator_keys if several else (body.key,)
    pieces = [_find(broker, request, body.key_type, key) for key in keys]

    def build(found: list[Coordinator]) -> FindCoordinatorResponse:
        if several:
            return FindCoordinatorResponse(coordinators=tuple(found))
        one = found[0]
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    return gathered(pieces, build)


def _find(broker: Broker, request: Request, key_type: int, key: str) -> Coordinator | Deferred[Coordinator]:
    if key_type == TRANSACTION:
        return _refused(key, errors.TransactionalIdAuthorizationFailed("Transactions are not served."))
    if key_type != GROUP:
        return _refused(key, errors.InvalidRequest(f"There is no coordinator of type {key_type}."))
    if not key:
        return _refused(key, errors.InvalidGroupId("The group's name is empty."))
    asked = within(broker.reactor, CREATE_MS, broker.groups.topic.get())
    return settled(asked, lambda topic: _leader(broker, request, topic, key), lambda problem: _away(key, problem))


def _leader(broker: Broker, request: Request, topic: TopicInfo, key: str) -> Coordinator:
    current = broker.view.topics.get(topic.name, topic)
    slot = current.partitions[slot_of(key, len(current.partitions))]
    leader = broker.view.brokers.get(slot.leader)
    if leader is None:
        return _away(key, errors.CoordinatorNotAvailable("The coordinator is being elected."))
    host, port = leader.addresses.get(request.connection.listener, (leader.host, leader.port))
    return Coordinator(key=key, node_id=leader.broker_id, host=host, port=port, error_code=errors.NONE)


def _away(key: str, problem: errors.KafkaError) -> Coordinator:
    """Whatever the reason: it is worth another try."""
    return _refused(key, errors.CoordinatorNotAvailable(problem.message))


def _refused(key: str, problem: errors.KafkaError) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=problem.code, error_message=problem.message)
