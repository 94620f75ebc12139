"""DescribeCluster: brokers, controller and cluster id from the view of the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.metadata import BrokerInfo

API = Api.DESCRIBE_CLUSTER
VERSIONS = (0, 1)

_BROKERS = 1
_CONTROLLERS = 2


def handle(broker: Broker, request: Request) -> DescribeClusterResponse:
    """Answers at once."""
    body: DescribeClusterRequest = request.body
    if body.endpoint_type == _CONTROLLERS:
        return _refused(
            body, errors.MISMATCHED_ENDPOINT_TYPE, "This is a broker's endpoint; there are no controller endpoints."
        )
    if body.endpoint_type != _BROKERS:
        return _refused(body, errors.UNSUPPORTED_ENDPOINT_TYPE, f"There is no endpoint type {body.endpoint_type}.")
    view = broker.view
    return DescribeClusterResponse(
        error_code=errors.NONE,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        brokers=tuple(_broker(one, request.connection.listener) for _, one in sorted(view.brokers.items())),
    )


def _broker(one: BrokerInfo, listener: str) -> DescribeClusterBroker:
    host, port = one.address(listener)
    return DescribeClusterBroker(broker_id=one.broker_id, host=host, port=port, rack=one.rack)


def _refused(body: DescribeClusterRequest, code: int, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=body.endpoint_type, cluster_id="", brokers=()
    )
