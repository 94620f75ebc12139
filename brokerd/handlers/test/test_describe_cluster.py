"""DescribeCluster."""

from __future__ import annotations

import pytest

from brokerd.handlers import describe_cluster
from brokerd.handlers.test.fakes import FakeBroker, request
from kafka_wire import errors
from kafka_wire.schema.describe_cluster import DescribeClusterRequest


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
