"""InitProducerId for idempotent producers: a fresh id with epoch 0 from the broker's block; transactions are not
served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.handlers.settling import settled
from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.INIT_PRODUCER_ID
VERSIONS = (0, 4)

_NONE = -1


def handle(broker: Broker, request: Request) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    """A producer that asks to go on with an id it has (KIP-360) gets a new one: without a transactional id nothing
    else ties it to the old one.
    """
    body: InitProducerIdRequest = request.body
    if body.transactional_id == "" or (body.producer_id == _NONE) != (body.producer_epoch == _NONE):
        return _refused(errors.INVALID_REQUEST)
    if body.transactional_id is not None:
        return _refused(errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return settled(broker.topics.next_producer_id(), _given, _failed)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=errors.NONE, producer_id=producer_id, producer_epoch=0)


def _failed(problem: errors.KafkaError) -> InitProducerIdResponse:
    """Clients take an unknown server error for final; a block that ZooKeeper could not give just now is worth
    another try.
    """
    return _refused(errors.COORDINATOR_NOT_AVAILABLE if problem.code == errors.UNKNOWN_SERVER_ERROR else problem.code)


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
