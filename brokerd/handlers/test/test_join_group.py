"""JoinGroup."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.groups.test.hosts import Host
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import join
from kafka_wire import errors
from kafka_wire.messages import encode_response


def test_new_member_comes_twice() -> None:
    """Since version 4: first for its id, which begins with the client's."""
    host = Host()
    first = result_of(join(host))
    assert (first.error_code, first.member_id[:5]) == (errors.MEMBER_ID_REQUIRED, "test-")

    second = result_of(join(host, member_id=first.member_id))

    assert (second.error_code, second.generation_id, second.leader) == (0, 1, first.member_id)
    assert (second.protocol_type, second.protocol_name) == ("consumer", "range")
    assert [one.member_id for one in second.members] == [first.member_id]


def test_old_member_comes_once() -> None:
    """Before version 4."""
    answer = result_of(join(Host(), 3))

    assert (answer.error_code, answer.generation_id) == (0, 1)


def test_static_member_is_named_after_its_instance() -> None:
    """And needs no second round."""
    answer = result_of(join(Host(), group_instance_id="one"))

    assert (answer.error_code, answer.member_id[:4]) == (0, "one-")


def test_member_is_known_with_its_client_and_host() -> None:
    """For tools; the rebalance timeout of version 0 is the session timeout."""
    host = Host()
    result_of(join(host, 0, rebalance_timeout_ms=-1))

    (found,) = host.groups.coordinator.hosted["g"].group.members.values()
    assert (found.client_id, found.client_host, found.rebalance_timeout_ms) == ("test", "/10.0.0.7", 10_000)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_timeout_ms": 5_999}, errors.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, errors.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"group_instance_id": ""}, errors.INVALID_REQUEST),
        ({"member_id": "stranger"}, errors.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, errors.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], code: int) -> None:
    """In every version."""
    for version in range(10):
        answer = result_of(join(Host(), version, **fields))
        assert answer.error_code == code
        assert encode_response(11, version, 1, answer)


def test_broker_that_does_not_coordinate_says_so() -> None:
    """16."""
    host = Host()
    host.elect(leader=2, epoch=4)

    assert result_of(join(host)).error_code == errors.NOT_COORDINATOR
