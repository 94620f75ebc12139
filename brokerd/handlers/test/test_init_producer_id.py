"""InitProducerId."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.handlers import init_producer_id
from brokerd.handlers.test.fakes import FakeBroker, request, result_of
from kafka_wire import errors
from kafka_wire.schema.init_producer_id import InitProducerIdRequest


def _ask(broker: FakeBroker, **fields: Any) -> Any:
    body = InitProducerIdRequest(**{"transactional_id": None, **fields})
    return result_of(init_producer_id.handle(broker, request(body)))


@pytest.mark.parametrize("fields", [{}, {"producer_id": 7, "producer_epoch": 2}])
def test_idempotent_producer_gets_a_fresh_id(fields: dict[str, int]) -> None:
    """Also one that has an id already."""
    answer = _ask(FakeBroker(), **fields)

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 4000, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": "t"}, errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"transactional_id": ""}, errors.INVALID_REQUEST),
        ({"producer_id": 7}, errors.INVALID_REQUEST),
    ],
)
def test_what_is_not_served_is_refused(fields: dict[str, Any], code: int) -> None:
    """Transactions, an empty transactional id, half an identity."""
    broker = FakeBroker()

    assert (_ask(broker, **fields).error_code, broker.fake_topics.calls) == (code, [])


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (OSError("gone"), errors.COORDINATOR_NOT_AVAILABLE),
        (errors.CoordinatorLoadInProgress("soon"), errors.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_missing_block_is_retriable(problem: Exception, code: int) -> None:
    """A producer must not die because ZooKeeper was away for a moment."""
    broker = FakeBroker()
    broker.fake_topics.problem = problem

    assert _ask(broker).error_code == code
