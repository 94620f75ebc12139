"""The parts of the session that need no ZooKeeper: the lease's arithmetic and the translation of kazoo's answers."""

import pytest
from kazoo import exceptions as kazoo_errors

from zk_schema.operations import (
    BadVersion,
    Check,
    ConnectionLost,
    CoordinationError,
    Create,
    NoNode,
    Operation,
    SessionExpired,
)
from zk_schema.session import lease_end, multi_outcome, translate

OPERATIONS: list[Operation] = [Check("/fence", 3), Create("/made")]


@pytest.mark.parametrize(("timeout_ms", "lease"), [(18_000, 16.2), (4_000, 3.5), (1_000, 0.5)])
def test_lease_ends_a_margin_before_the_session_could(timeout_ms: int, lease: float) -> None:
    """A tenth of the timeout, at least half a second, counted from the sending (A14)."""
    assert lease_end(100.0, timeout_ms) == pytest.approx(100.0 + lease)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kazoo_errors.NoNodeError(), NoNode),
        (kazoo_errors.BadVersionError(), BadVersion),
        (kazoo_errors.ConnectionLoss(), ConnectionLost),
        (kazoo_errors.OperationTimeoutError(), ConnectionLost),
        (kazoo_errors.SessionExpiredError(), SessionExpired),
        (kazoo_errors.ConnectionClosedError(), SessionExpired),
        (kazoo_errors.NoAuthError(), CoordinationError),
    ],
)
def test_kazoos_errors_become_ours(theirs: Exception, ours: type[Exception]) -> None:
    """No caller needs to know kazoo."""
    found = translate(theirs, "/where")

    assert type(found) is ours
    assert "/where" in str(found)


def test_failed_multi_raises_the_cause_and_not_its_bystanders() -> None:
    """kazoo raises nothing for a failed multi; the operation that failed is found among those rolled back."""
    results = [kazoo_errors.BadVersionError(), kazoo_errors.RuntimeInconsistency()]

    with pytest.raises(BadVersion) as caught:
        multi_outcome(OPERATIONS, results)
    assert (caught.value.index, caught.value.operation) == (0, OPERATIONS[0])


def test_multi_that_failed_without_a_cause_is_still_an_error() -> None:
    """Nothing that was rolled back counts as done."""
    with pytest.raises(CoordinationError):
        multi_outcome(OPERATIONS, [kazoo_errors.RolledBackError(), kazoo_errors.RuntimeInconsistency()])


def test_successful_multi_answers_per_operation() -> None:
    """The results come in order."""
    assert multi_outcome(OPERATIONS, [True, "/made"]) == [True, "/made"]
