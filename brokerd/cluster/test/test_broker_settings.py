"""Settings of brokers that are changed while they run, over a model of ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from brokerd.cluster.test.ensemble import Node, World
from kafka_wire import errors
from zk_schema.nodes import Endpoint
from zk_schema.operations import Create, Set

EVERYBODY = "<default>"


@pytest.fixture
def world() -> World:
    """Two brokers, registered."""
    made = World()
    made.start(1)
    made.start(2)
    made.run()
    return made


def _put(name: str, value: str) -> Any:
    return lambda now: {**now, name: value}


def _altered(world: World, node: Node, name: str, change: Any) -> list[Any]:
    found: list[Any] = []
    node.settings.alter(name, change).addBoth(found.append)
    world.run()
    return found


def _stored(world: World, name: str) -> Mapping[str, str]:
    return dict(json.loads(world.ensemble.nodes[f"/config/brokers/{name}"][0])["config"])


def test_change_is_stored_as_kafka_stores_it_and_learned_by_all(world: World) -> None:
    """The node of the broker or of all, and a notification that names it."""
    one, two = world.nodes[1], world.nodes[2]

    assert _altered(world, one, EVERYBODY, _put("num.partitions", "3")) == [None]
    assert _altered(world, two, "2", _put("message.max.bytes", "9")) == [None]

    assert world.ensemble.nodes["/config/brokers/<default>"][0] == b'{"version":1,"config":{"num.partitions":"3"}}'
    notices = [world.ensemble.nodes[f"/config/changes/config_change_{number:010}"][0] for number in (0, 1)]
    assert notices == [
        b'{"version":2,"entity_path":"brokers/<default>"}',
        b'{"version":2,"entity_path":"brokers/2"}',
    ]
    for node in (one, two, world.start(3)):
        world.run()
        assert node.known.broker_settings == {EVERYBODY: {"num.partitions": "3"}, "2": {"message.max.bytes": "9"}}


def test_changes_at_the_same_time_are_both_kept(world: World) -> None:
    """Each is worked out anew from what the other one left."""
    done: list[Any] = []
    for number, node in world.nodes.items():
        node.settings.alter(EVERYBODY, _put(f"key.{number}", "x")).addBoth(done.append)
    world.run()

    assert done == [None, None]
    assert _stored(world, EVERYBODY) == {"key.1": "x", "key.2": "x"}


def test_lost_answer_does_not_change_twice(world: World) -> None:
    """The second try finds the settings as they are wanted and writes nothing."""
    node = world.nodes[1]
    lost: list[Any] = []

    def lose(operations: Any) -> bool:
        if any(isinstance(one, Create | Set) and one.path.startswith("/config/brokers") for one in operations):
            lost.append(operations)
            return len(lost) == 1
        return False

    node.session.lose_reply = lose
    assert _altered(world, node, "1", _put("num.partitions", "3")) == [None]

    assert len(lost) == 1
    assert _stored(world, "1") == {"num.partitions": "3"}


def test_refusal_of_the_change_reaches_the_caller(world: World) -> None:
    """Nothing is written."""

    def refuse(_: Any) -> Any:
        raise errors.InvalidConfig("no")

    (failure,) = _altered(world, world.nodes[1], "1", refuse)

    assert isinstance(failure.value, errors.InvalidConfig)
    assert "/config/brokers/1" not in world.ensemble.nodes


def test_new_endpoints_are_registered_and_learned_by_all(world: World) -> None:
    """Without a new life: the epoch stays."""
    one, two = world.nodes[1], world.nodes[2]
    epoch = one.life.epoch
    one.endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 19092),)

    one.life.readvertise()
    world.run()

    for node in (one, two):
        assert (node.view.brokers[1].host, node.view.brokers[1].port) == ("elsewhere", 19092)
    assert (one.life.epoch, one.life.is_registered, one.fatal) == (epoch, True, [])
