"""FindCoordinator."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from brokerd.groups.placement import OFFSETS_TOPIC, slot_of
from brokerd.groups.test.hosts import Host
from brokerd.handlers import find_coordinator
from brokerd.handlers.test.fakes import request, result_of, topic
from brokerd.metadata import BrokerInfo
from kafka_wire import errors
from kafka_wire.schema.find_coordinator import FindCoordinatorRequest


class _Client:
    host = "h"
    listener = "INSIDE"


def _ask(host: Host, version: int = 6, **fields: Any) -> Any:
    asked = request(FindCoordinatorRequest(**fields), version)
    asked.connection = _Client()
    return find_coordinator.handle(host, asked)


def test_several_groups_are_found_at_once() -> None:
    """Since version 4; each with the leader of its own slot."""
    host = Host(slots=2)
    info = host.view.topics[OFFSETS_TOPIC]
    host.learn(attrs.evolve(info, partitions=(info.partitions[0], attrs.evolve(info.partitions[1], leader=2))))

    answer = result_of(_ask(host, coordinator_keys=("a", "b", "")))

    leaders = {0: (1, "one", 9092), 1: (2, "two", 9093)}
    found = [(one.key, one.error_code, (one.node_id, one.host, one.port)) for one in answer.coordinators]
    assert found == [
        ("a", 0, leaders[slot_of("a", 2)]),
        ("b", 0, leaders[slot_of("b", 2)]),
        ("", errors.INVALID_GROUP_ID, (-1, "", -1)),
    ]


def test_one_group_is_found_in_old_versions() -> None:
    """The answer has its own place there."""
    answer = result_of(_ask(Host(), 2, key="g"))

    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "one", 9092)


def test_address_is_that_of_the_clients_listener() -> None:
    """A client inside the network is not sent around it."""
    host = Host()
    inside = BrokerInfo(1, "one", 9092, None, {"INSIDE": ("10.0.0.1", 9192)})
    host.view = attrs.evolve(host.view, brokers={**host.view.brokers, 1: inside})

    answer = result_of(_ask(host, 2, key="g"))

    assert (answer.host, answer.port) == ("10.0.0.1", 9192)


def test_topic_is_made_when_it_is_asked_for_first() -> None:
    """Once, however many ask; with as many replicas as the default says, at most three."""
    host = Host(default_replication_factor="5")
    host.view = host.view.without_topic(OFFSETS_TOPIC)
    waiting: Deferred[Any] = Deferred()
    host.fake_topics.waiting = waiting
    first, second = _ask(host, 2, key="g"), _ask(host, 2, key="h")
    assert [call[:4] for call in host.fake_topics.calls] == [("create", OFFSETS_TOPIC, 50, 2)]
    made = topic(OFFSETS_TOPIC, 9, 50)
    host.view = host.view.with_topic(made)
    waiting.callback(made)

    assert result_of(first).node_id == result_of(second).node_id == 1


def test_topic_that_cannot_be_made_is_worth_another_try() -> None:
    """15."""
    host = Host()
    host.view = host.view.without_topic(OFFSETS_TOPIC)
    host.fake_topics.problem = errors.InvalidReplicationFactor("too few")

    assert result_of(_ask(host, 2, key="g")).error_code == errors.COORDINATOR_NOT_AVAILABLE


def test_coordinator_that_is_being_elected_is_worth_another_try() -> None:
    """15."""
    host = Host()
    host.elect(leader=-1, epoch=4)

    assert result_of(_ask(host, 2, key="g")).error_code == errors.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("key_type", "code"), [(1, errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, errors.INVALID_REQUEST)]
)
def test_other_coordinators_are_not_served(key_type: int, code: int) -> None:
    """Transactions, and what does not exist."""
    assert result_of(_ask(Host(), 2, key="t", key_type=key_type)).error_code == code
