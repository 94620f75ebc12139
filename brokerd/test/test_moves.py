"""Reassignments and elections over a model of ZooKeeper: asked for at any broker, finished by the controller, with lost
answers and controllers that die.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from twisted.python.failure import Failure

from brokerd.cluster.preferred import resignation
from brokerd.cluster.reassignment import Replicas
from brokerd.cluster.test.ensemble import World
from brokerd.cluster.test.test_control_plane import agreed, cluster, made, result, state
from kafka_wire import errors
from zk_schema import paths
from zk_schema.nodes import Change, PartitionState, TopicAssignment, VersionedState
from zk_schema.operations import Create, Operation, Set


def assigned(world: World, name: str = "logs") -> list[tuple[int, ...]]:
    """The replicas as ZooKeeper has them."""
    return list(TopicAssignment.decode(name, world.ensemble.nodes[paths.topic(name)][0]).partitions.values())


def catch_up(world: World, name: str = "logs", *brokers: int) -> None:
    """The leaders find the registered replicas (or only these brokers) in sync and write that."""
    for index, replicas in enumerate(assigned(world, name)):
        now = state(world, name, index)
        there = [one for one in replicas if world.nodes[one].life.is_registered and (not brokers or one in brokers)]
        isr = (*now.isr, *(one for one in there if one not in now.isr))
        write(world, name, index, attrs.evolve(now, isr=isr))
    world.run(1)


def write(world: World, name: str, index: int, wanted: PartitionState) -> None:
    """A leader's multi."""
    path = paths.partition_state(name, index)
    version = world.ensemble.nodes[path][1]
    topic_id = TopicAssignment.decode(name, world.ensemble.nodes[paths.topic(name)][0]).topic_id
    change = Change("states", name, topic_id, {index: VersionedState(wanted, version + 1)})
    world.ensemble.write(
        [Set(path, wanted.encode(), version), Create(change.prefix, change.encode(), sequence=True)], 0
    )


def topic(world: World, *replicas: Sequence[int]) -> None:
    """A topic `logs` with these replicas."""
    waiting = world.nodes[0].topics.create("logs", len(replicas), 1, dict(enumerate(map(tuple, replicas))), {})
    world.run(2)
    result(waiting)


def asked(world: World, broker: int, wanted: dict[int, Sequence[int] | None]) -> Any:
    """The answer of a broker."""
    waiting = world.nodes[broker].moves.reassign("logs", wanted)
    world.run(2)
    return result(waiting)


def test_A27_reassignment_asked_for_at_any_broker_is_finished_by_the_controller() -> None:
    """Both partitions; it is listed everywhere until the new replicas are in sync."""
    world = cluster(0, 1, 2)
    topic(world, (0, 1), (1, 0))

    assert asked(world, 2, {0: (2, 1), 1: (2, 0)}) == {0: None, 1: None}
    assert world.nodes[1].moves.ongoing() == {
        "logs": {0: Replicas((2, 1, 0), (2,), (0,)), 1: Replicas((2, 0, 1), (2,), (1,))}
    }
    catch_up(world)

    assert assigned(world) == [(2, 1), (2, 0)]
    assert (state(world, "logs", 0).leader, sorted(state(world, "logs", 0).isr)) == (2, [1, 2])
    assert [node.moves.ongoing() for node in world.nodes.values()] == [{}, {}, {}]
    agreed(world)


def test_A27_next_controller_goes_on() -> None:
    """The nodes alone say what is left to do (A30)."""
    world = cluster(0, 1, 2)
    topic(world, (1,))
    asked(world, 1, {0: (2,)})

    world.nodes[0].kill()
    world.run(3)
    catch_up(world)

    assert assigned(world) == [(2,)]
    assert state(world, "logs").leader == 2


def test_A27_cancel_brings_the_former_replicas_back() -> None:
    """Also when the new one was in sync already, and asked at another broker than the one that began."""
    world = cluster(0, 1, 2)
    topic(world, (0, 1), (1, 0))
    asked(world, 1, {0: (2, 1), 1: (2,)})
    write(world, "logs", 0, attrs.evolve(state(world, "logs", 0), isr=(0, 1)))

    assert asked(world, 2, {0: None}) == {0: None}

    assert sorted(assigned(world)[0]) == [0, 1]
    assert sorted(state(world, "logs", 0).isr) == [0, 1]
    assert set(world.nodes[0].moves.ongoing()["logs"]) == {1}
    agreed(world)


@pytest.mark.parametrize("wanted", [(2, 1), None])
def test_A27_lost_answer_does_not_begin_twice(wanted: Sequence[int] | None) -> None:
    """The epoch rises once, and the client is told that it worked."""
    world = cluster(0, 1, 2)
    topic(world, (0, 1))
    if wanted is None:
        asked(world, 1, {0: (2, 1)})
    before = state(world, "logs").leader_epoch
    lost: list[Sequence[Operation]] = []

    def lose(operations: Sequence[Operation]) -> bool:
        if not lost and any(isinstance(one, Set) and one.path == paths.topic("logs") for one in operations):
            lost.append(operations)
            return True
        return False

    world.nodes[1].session.lose_reply = lose
    assert asked(world, 1, {0: wanted}) == {0: None}

    assert lost
    assert state(world, "logs").leader_epoch == before + 1
    agreed(world)


def test_refusals_are_told_partition_by_partition() -> None:
    """One that is refused does not stop the others."""
    world = cluster(0, 1)
    topic(world, (0,), (0,), (0,))

    results = asked(world, 1, {0: (9,), 1: (1,), 2: None, 7: (1,)})

    assert {index: type(one) for index, one in results.items()} == {
        0: errors.InvalidReplicaAssignment,
        1: type(None),
        2: errors.NoReassignmentInProgress,
        7: errors.UnknownTopicOrPartition,
    }


# ---- elections


def elected(world: World, broker: int, places: list[tuple[str, int]] | None, *, unclean: bool = False) -> Any:
    """The answer of a broker."""
    waiting = world.nodes[broker].moves.elect(places, unclean=unclean)
    world.run(2)
    return result(waiting)


def test_preferred_leaders_are_elected_at_any_broker() -> None:
    """Of all partitions only those are told that needed it."""
    world = cluster(0, 1, 2)
    topic(world, (0, 1, 2), (1, 0, 2))
    asked(world, 2, {0: (2, 0, 1)})

    assert elected(world, 1, None) == {("logs", 0): None}

    assert state(world, "logs", 0).leader == 2
    assert isinstance(elected(world, 1, [("logs", 0)])["logs", 0], errors.ElectionNotNeeded)
    agreed(world)


def test_election_whose_answer_was_lost_is_told_as_done() -> None:
    """And not as unneeded."""
    world = cluster(0, 1)
    topic(world, (0, 1))
    asked(world, 1, {0: (1, 0)})
    lost: list[bool] = []

    def lose(operations: Sequence[Operation]) -> bool:
        if not lost and any(one.path.endswith("/state") for one in operations):
            lost.append(True)
            return True
        return False

    world.nodes[1].session.lose_reply = lose

    assert elected(world, 1, [("logs", 0)]) == {("logs", 0): None}
    assert lost
    assert state(world, "logs").leader == 1


def test_A24_unclean_election_on_demand() -> None:
    """The only in-sync replica is gone; somebody decides that the rest is better than nothing."""
    world = cluster(0, 1, 2)
    topic(world, (1, 2))
    write(world, "logs", 0, attrs.evolve(state(world, "logs"), isr=(1,)))
    world.run(1)
    world.nodes[1].kill()
    world.run(2)
    assert state(world, "logs").leader == -1

    assert elected(world, 0, [("logs", 0)], unclean=True) == {("logs", 0): None}

    assert state(world, "logs") == PartitionState(2, state(world, "logs").leader_epoch, (2,), 1, recovering=True)


# ---- by the controller itself


def test_A32_preferred_leader_leads_again_when_it_has_proved_to_stay() -> None:
    """After the check interval, and not within its first minute."""
    world = cluster(0, 1, 2)
    topic(world, (1, 2))
    world.nodes[1].kill()
    world.run(2)
    assert state(world, "logs").leader == 2
    world.run(270)
    world.start(1)
    world.run(2)
    catch_up(world)

    world.run(30)
    assert state(world, "logs").leader == 2
    world.run(330)
    assert state(world, "logs").leader == 1


def test_A25_leader_without_a_quorum_is_replaced() -> None:
    """By a change that it writes; the ISR stays."""
    world = cluster(0, 1, 2)
    topic(world, (1, 2))
    change = resignation(world.nodes[1].known.topics["logs"], 0)

    world.ensemble.write([Create(change.prefix, change.encode(), sequence=True)], 0)
    world.run(2)

    assert (state(world, "logs").leader, state(world, "logs").isr) == (2, (1, 2))
    agreed(world)


def test_new_topic_is_unharmed_by_moves_of_another() -> None:
    """Changes of kind "assignment" tell nothing about other topics."""
    world = cluster(0, 1)
    topic(world, (0,))
    asked(world, 0, {0: (1,)})

    made(world, 1, "other")
    agreed(world)


@pytest.mark.parametrize("seed", range(30))
def test_random_histories_end_in_order(seed: int) -> None:
    """Wishes at any broker, brokers that die and come back, lost answers: no ISR is ever empty or outside of the
    assignment, and once all are there and caught up nothing is under way and all agree.
    """
    chance = random.Random(seed)
    world = cluster(0, 1, 2, 3)
    topic(world, (0, 1), (1, 2), (2, 3))
    for node in world.nodes.values():
        node.session.lose_reply = lambda _: chance.random() < 0.1
    for _ in range(25):
        alive = [one for one, node in world.nodes.items() if node.life.is_registered]
        step = chance.choice(["move", "move", "cancel", "elect", "kill", "start", "catch up"])
        if step == "kill" and len(alive) > 2:
            world.nodes[chance.choice(alive)].kill()
        elif step == "start":
            for one in set(world.nodes) - set(alive):
                world.start(one)
        elif step == "catch up":
            catch_up(world)
        elif step == "elect":
            world.nodes[chance.choice(alive)].moves.elect(None, unclean=False).addErrback(_refused)
        elif step in ("move", "cancel"):
            target = tuple(chance.sample(range(4), chance.randint(1, 3))) if step == "move" else None
            moves = world.nodes[chance.choice(alive)].moves
            moves.reassign("logs", {chance.randrange(3): target}).addErrback(_refused)
        world.run(chance.choice([0.2, 1, 3]))
        for index, replicas in enumerate(assigned(world)):
            isr = state(world, "logs", index).isr
            assert isr
            assert set(isr) <= set(replicas)
    for one, node in list(world.nodes.items()):
        node.session.lose_reply = lambda _: False
        if not node.life.is_registered:
            world.start(one)
    world.run(70)
    catch_up(world)
    world.run(2)
    assert world.nodes[0].moves.ongoing() == {}
    assert all(state(world, "logs", index).leader >= 0 for index in range(3))
    agreed(world)


def _refused(failure: Failure) -> None:
    """A call may fail in a history, but only with an answer for a client."""
    failure.trap(errors.KafkaError)  # type: ignore[no-untyped-call]
