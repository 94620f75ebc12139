"""DescribeCluster."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from brokerd.handlers import describe_cluster, metadata
from brokerd.handlers.test.fakes import FakeBroker, request
from brokerd.metadata import BrokerInfo
from kafka_wire import errors
from kafka_wire.schema.describe_cluster import DescribeClusterRequest
from kafka_wire.schema.metadata import MetadataRequest


def test_brokers_and_controller_are_listed() -> None:
    """In order of their ids."""
    answer = describe_cluster.handle(FakeBroker(), request(DescribeClusterRequest()))

    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster", 1)
    assert [tuple(one)[:4] for one in answer.brokers] == [(1, "one", 9092, "rack"), (2, "two", 9093, None)]
    assert answer.cluster_authorized_operations == -2147483648


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, errors.MISMATCHED_ENDPOINT_TYPE), (3, errors.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_other_endpoints_are_refused(endpoint: int, code: int) -> None:
    """There are only brokers here."""
    answer = describe_cluster.handle(FakeBroker(), request(DescribeClusterRequest(endpoint_type=endpoint)))

    assert answer.error_code == code


def test_addresses_are_those_of_the_clients_listener() -> None:
    """A broker without that listener is found at its first one."""
    broker = FakeBroker()
    outside = BrokerInfo(1, "one", 9092, None, {"PLAINTEXT": ("one", 9092), "OUTSIDE": ("far", 19092)})
    broker.view = attrs.evolve(broker.view, brokers={**broker.view.brokers, 1: outside})

    described = describe_cluster.handle(broker, request(DescribeClusterRequest(), listener="OUTSIDE"))
    listed: Any = metadata.handle(broker, request(MetadataRequest(topics=()), listener="OUTSIDE"))

    for answer in (described, listed):
        assert [(one.host, one.port) for one in answer.brokers] == [("far", 19092), ("two", 9093)]
