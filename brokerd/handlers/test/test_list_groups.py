"""ListGroups."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.groups.test.hosts import Host
from brokerd.handlers import list_groups
from brokerd.handlers.test.fakes import result_of
from brokerd.handlers.test.members import asked, member
from kafka_wire import errors
from kafka_wire.schema.list_groups import ListGroupsRequest


def _list(host: Host, **filters: Any) -> list[tuple[str, str, str, str]]:
    answer = result_of(list_groups.handle(host, asked(ListGroupsRequest(**filters), 5)))
    assert answer.error_code == errors.NONE
    return [tuple(one) for one in answer.groups]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["g", "old"]),
        ({"states_filter": ("stable",)}, ["g"]),
        ({"states_filter": ("Empty", "Dead")}, ["old"]),
        ({"types_filter": ("Classic",)}, ["g", "old"]),
        ({"types_filter": ("consumer",)}, []),
    ],
)
def test_groups_are_listed_by_state_and_type(filters: dict[str, Any], found: list[str]) -> None:
    """Without regard to case."""
    host = Host()
    member(host)
    host.zookeeper.put("/consumers/old/offsets/logs/0", b"1")

    assert [one[0] for one in _list(host, **filters)] == found


def test_group_is_listed_with_its_kind_and_state() -> None:
    """As Kafka names them."""
    host = Host()
    member(host)

    assert _list(host) == [("g", "consumer", "Stable", "classic")]


def test_broker_without_slots_lists_nothing() -> None:
    """Others have them."""
    host = Host()
    member(host)
    host.elect(leader=2, epoch=4)

    assert _list(host) == []
