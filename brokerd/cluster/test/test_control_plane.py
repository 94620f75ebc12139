"""Learner, life, controller and topics together, over a model of ZooKeeper: deterministic, with lost answers and
sessions that end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from brokerd.cluster import controller, decisions, purging
from brokerd.cluster.life import CannotJoin, IdInUse
from brokerd.cluster.test.ensemble import Notes, World
from kafka_wire import errors
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.nodes import BrokerRegistration, ControllerEpoch, PartitionState, Tombstone, uuid_text
from zk_schema.operations import Create, Delete, Operation, Set


def cluster(*brokers: int) -> World:
    """Brokers that are registered."""
    world = World()
    for broker in brokers:
        world.start(broker)
        world.run(1)
    return world


def result(deferred: Deferred[Any]) -> Any:
    """What it fired with; raises its failure."""
    found: list[Any] = []
    deferred.addBoth(found.append)
    assert found, "it has not fired"
    if isinstance(found[0], Failure):
        found[0].raiseException()
    return found[0]


def _refused(failure: Failure) -> None:
    """A call may fail in a history, but only with an answer for a client."""
    failure.trap(errors.KafkaError)  # type: ignore[no-untyped-call]


def made(world: World, broker: int, name: str, partitions: int = 3, factor: int = 1) -> Any:
    """A topic, created through one broker."""
    waiting = world.nodes[broker].topics.create(name, partitions, factor, None, {})
    world.run(3)
    return result(waiting)


def state(world: World, name: str, index: int = 0) -> PartitionState:
    """As ZooKeeper has it."""
    return PartitionState.decode(name, index, world.ensemble.nodes[paths.partition_state(name, index)][0])


def agreed(world: World) -> None:
    """Every registered broker knows what ZooKeeper has."""
    truth: Any = None
    for node in world.nodes.values():
        if node.life.is_registered:
            view = (dict(node.view.topics), dict(node.view.names), sorted(node.view.brokers), node.view.controller_id)
            truth = truth or view
            assert view == truth


# ---- joining


def test_brokers_register_and_one_is_controller() -> None:
    """All know all, and agree on the controller."""
    world = cluster(0, 1, 2)

    assert [node.view.controller_id for node in world.nodes.values()] == [0, 0, 0]
    assert sorted(world.nodes[2].view.brokers) == [0, 1, 2]
    assert world.nodes[0].controller.authority is not None
    agreed(world)


def test_A8_second_broker_with_one_id_is_refused_and_the_first_is_not_fenced() -> None:
    """The impostor leaves the incarnation alone: the first one can still write."""
    world = cluster(0)
    first = world.nodes[0]

    impostor = world.start(0, Notes())
    world.run(3)

    (problem,) = impostor.fatal
    assert isinstance(problem, IdInUse)
    assert "in use by host:9092" in str(problem)
    waiting = first.topics.create("logs", 1, 1, None, {})
    world.run(3)
    assert result(waiting).partitions[0].leader == 0


def test_A8_own_registration_of_a_former_life_is_not_waited_out() -> None:
    """The stored session id says whose it is; the controller's node too."""
    world = cluster(0)
    former = world.nodes[0]
    former.session.listeners.clear()
    former.learner.stop()

    again = world.start(0)
    world.run(0.5)

    assert again.life.is_registered
    assert again.controller.authority is not None
    assert again.life.epoch > former.life.epoch


def test_A8_other_cluster_is_refused() -> None:
    """Nothing is written before the cluster is known to be ours."""
    world = cluster(0)
    stranger = Notes()
    stranger.cluster_id = "another"
    before = dict(world.ensemble.nodes)

    node = world.start(1, stranger)
    world.run(1)

    assert isinstance(node.fatal[0], CannotJoin)
    assert world.ensemble.nodes == before


def test_A8_zookeeper_from_an_earlier_time_is_refused() -> None:
    """F8: a restored backup may lack what this broker has acted on."""
    world = cluster(0)
    world.nodes[0].kill()
    disk = world.nodes[0].disk
    disk.remember({"zookeeper.zxid": f"{world.ensemble.zxid + 1000:x}"})

    node = world.start(0)
    world.run(1)

    assert "is older" in str(node.fatal[0])


def test_A10_returning_leader_first_writes_itself_out() -> None:
    """No state names a broker leader from before its registration; the epoch shows both steps."""
    world = cluster(0)
    made(world, 0, "logs", 1)

    world.nodes[0].session.expire()
    world.run(2)

    assert state(world, "logs") == PartitionState(0, 2, (0,), 2)
    assert world.nodes[0].view.topics["logs"].partitions[0].leader == 0


def test_A10_suspect_log_leaves_an_isr_with_others() -> None:
    """It joins again by fetching, not by its word."""
    world = cluster(0, 1)
    made(world, 0, "logs", 1, 2)
    follower = 1 - state(world, "logs").leader
    world.nodes[follower].kill()
    world.nodes[follower].disk.suspects.add(TopicPartition("logs", 0))

    world.start(follower)
    world.run(2)

    assert state(world, "logs").isr == (1 - follower,)


def test_A10_suspect_log_alone_in_its_isr_is_on_the_incarnations_list() -> None:
    """With one replica it leads again, and the report says so."""
    world = cluster(0)
    made(world, 0, "logs", 1)
    world.nodes[0].kill()
    world.nodes[0].disk.logs.clear()

    node = world.start(0)
    world.run(2)

    assert node.known.suspects(0) == {("logs", 0)}
    assert state(world, "logs").leader == 0


def test_A12_lost_session_drops_the_controller_and_the_next_one_takes_over() -> None:
    """The epoch goes up with each."""
    world = cluster(0, 1)

    world.nodes[0].session.expire()
    world.run(3)

    controllers = [node for node in world.nodes.values() if node.controller.authority is not None]
    assert len(controllers) == 1
    assert ControllerEpoch.decode(world.ensemble.nodes[paths.CONTROLLER_EPOCH][0]).epoch == 2
    agreed(world)


def test_A13_draining_broker_leads_nothing_that_another_could() -> None:
    """The controller moves its leaderships, though it may be the one that leaves."""
    world = cluster(0, 1)
    made(world, 0, "logs", 4, 2)

    draining = world.nodes[0].life.drain()
    Deferred.fromCoroutine(draining)
    world.run(0.1)
    world.nodes[0].publish()
    world.run(2)

    assert world.nodes[0].life.leadership_to_move() == 0
    assert {state(world, "logs", index).leader for index in range(4)} == {1}


# ---- learning


def test_A19_gap_in_the_changes_means_everything_is_read_again() -> None:
    """Whoever slept while changes were purged is up to date afterwards."""
    world = cluster(0, 1)
    sleeper = world.nodes[1]
    sleeper.learner._live = False
    made(world, 0, "logs")
    first = sorted(world.ensemble.children(paths.CHANGES))
    world.ensemble.write([Delete(f"{paths.CHANGES}/{name}") for name in first[:-1]], 0)

    sleeper.learner._live = True
    sleeper.learner._tick()
    world.run(1)

    agreed(world)


def test_A20_change_of_an_unknown_kind_means_that_the_topic_is_read() -> None:
    """A newer broker's change stops nobody."""
    world = cluster(0)
    made(world, 0, "logs")

    data = b'{"version":1,"kind":"novelty","topic":"logs"}'
    world.ensemble.write([Create(paths.CHANGE_PREFIX, data, sequence=True)], 0)
    world.run(1)

    assert "logs" in world.nodes[0].view.topics
    made(world, 0, "more")


def test_A20_old_changes_are_purged_and_the_newest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who were up to date notice nothing."""
    monkeypatch.setattr(purging, "CHANGES_KEPT", 3)
    world = cluster(0, 1)
    made(world, 0, "logs")
    newest = sorted(world.ensemble.children(paths.CHANGES))[-3:]

    world.run(controller.PURGE_EVERY_SECONDS + controller.RECHECK_SECONDS + 1)

    assert sorted(world.ensemble.children(paths.CHANGES)) == newest
    made(world, 1, "more")
    agreed(world)


def test_A29_tombstones_are_purged_when_nobody_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old ones whose topic is gone; one whose topic is still there stays, whatever its age."""
    world = cluster(0)
    node = world.nodes[0]
    dead, dying = b"d" * 16, made(world, 0, "logs").topic_id
    monkeypatch.setattr(decisions, "decide", lambda *arguments, **named: [])  # the controller takes no topic away
    tombstones = [Tombstone(one, "logs", 0) for one in (dead, dying)]
    world.ensemble.write([Create(one.path, one.encode()) for one in tombstones], 0)
    node.known.bury(dead)
    monkeypatch.setattr(purging, "TOMBSTONES_KEPT_MS", 10**15)
    world.run(controller.PURGE_EVERY_SECONDS + controller.RECHECK_SECONDS + 1)
    assert len(world.ensemble.children(paths.DELETED)) == 2

    monkeypatch.setattr(purging, "TOMBSTONES_KEPT_MS", 0)
    world.run(controller.PURGE_EVERY_SECONDS + controller.RECHECK_SECONDS + 1)

    assert list(world.ensemble.children(paths.DELETED)) == [uuid_text(dying)]
    assert dead not in node.known.tombstones


def test_A31_unreadable_topic_is_frozen_and_others_go_on() -> None:
    """And it is thawed when it can be read."""
    world = cluster(0)
    world.ensemble.write([Create(paths.topic("bad"), b"{")], 0)
    world.run(1)

    made(world, 0, "good")
    node = world.nodes[0]
    assert "bad" in node.known.frozen
    fixed = b'{"version":1,"partitions":{"0":[0]}}'
    world.ensemble.write([Set(paths.topic("bad"), fixed, 0)], 0)
    node.learner.read_topic("bad")
    world.run(2)

    assert node.view.topics["bad"].partitions[0].leader == 0


# ---- topics


def test_topic_created_through_any_broker_is_known_to_all() -> None:
    """Spread over all brokers, with leaders."""
    world = cluster(0, 1, 2)

    topic = made(world, 2, "logs", 6, 2)

    assert sorted(one.leader for one in topic.partitions) == [0, 0, 1, 1, 2, 2]
    agreed(world)


def test_topic_that_exists_is_refused() -> None:
    """By name, as Kafka says it."""
    world = cluster(0)
    made(world, 0, "logs")

    with pytest.raises(errors.TopicAlreadyExists):
        made(world, 0, "logs")


def test_deleted_topic_is_gone_everywhere_and_its_name_is_free() -> None:
    """The second topic of the name has another id."""
    world = cluster(0, 1)
    first = made(world, 1, "logs")

    waiting = world.nodes[1].topics.delete("logs")
    world.run(3)
    result(waiting)

    agreed(world)
    assert "logs" not in world.nodes[0].view.topics
    assert not world.ensemble.children(paths.TOPICS)
    assert made(world, 1, "logs").topic_id != first.topic_id


def test_grown_topic_has_its_new_partitions_led() -> None:
    """As many as asked for; fewer are refused."""
    world = cluster(0, 1)
    made(world, 0, "logs", 2)

    waiting = world.nodes[1].topics.add_partitions("logs", 5)
    world.run(3)

    assert len(result(waiting).partitions) == 5
    agreed(world)
    waiting = world.nodes[1].topics.add_partitions("logs", 3)
    world.run(1)
    with pytest.raises(errors.InvalidPartitions):
        result(waiting)


def test_settings_reach_every_broker() -> None:
    """Through Kafka's notification."""
    world = cluster(0, 1)
    made(world, 0, "logs")

    waiting = world.nodes[0].topics.alter_overrides("logs", lambda now: {**now, "retention.ms": "5"})
    world.run(2)

    assert result(waiting) is None
    assert world.nodes[1].view.topics["logs"].overrides == {"retention.ms": "5"}


def test_settings_changed_by_two_brokers_at_the_same_time_are_both_kept() -> None:
    """Each change is worked out from what the other one left."""
    world = cluster(0, 1)
    made(world, 0, "logs")

    waiting = [
        world.nodes[0].topics.alter_overrides("logs", lambda now: {**now, "retention.ms": "5"}),
        world.nodes[1].topics.alter_overrides("logs", lambda now: {**now, "segment.ms": "5"}),
    ]
    world.run(2)

    assert [result(one) for one in waiting] == [None, None]
    for node in world.nodes.values():
        assert node.view.topics["logs"].overrides == {"retention.ms": "5", "segment.ms": "5"}


def test_producer_ids_of_two_brokers_never_meet() -> None:
    """Blocks by version; many callers share one block."""
    world = cluster(0, 1)
    waiting = [world.nodes[number % 2].topics.next_producer_id() for number in range(10)]
    world.run(1)

    given = [result(one) for one in waiting]

    assert len(set(given)) == 10
    assert {one // 1000 for one in given} == {0, 1}


@pytest.mark.parametrize("lost", range(8))
def test_any_lost_answer_changes_nothing_but_time(lost: int) -> None:
    """A5, Z1: the n-th write of a whole life is applied but not answered; the end is the same."""
    world = World()
    seen = 0

    def lose(operations: Sequence[Operation]) -> bool:
        nonlocal seen
        seen += 1
        return seen % 9 == lost

    node = world.start(0)
    node.session.lose_reply = lose
    world.run(10)
    assert node.life.is_registered

    waiting = [node.topics.create("logs", 3, 1, None, {"retention.ms": "5"})]
    world.run(5)
    waiting.append(node.topics.add_partitions("logs", 4))
    world.run(5)
    topic = result(waiting[-1])

    assert [one.leader for one in topic.partitions] == [0, 0, 0, 0]
    assert len(world.ensemble.children(paths.TOPICS)) == 1
    deleting = node.topics.delete("logs")
    world.run(8)
    assert result(deleting) is None
    assert world.ensemble.children(paths.TOPICS) == []


@pytest.mark.parametrize("seed", range(12))
def test_any_history_ends_in_agreement(seed: int) -> None:
    """Sessions end, brokers die and return, topics come and go, answers are lost. When it is quiet: everybody knows the
    same, every partition with a living in-sync replica has a living leader, and no epoch ever went back.
    """
    chance = random.Random(seed)
    world = cluster(0, 1, 2)
    epochs: dict[tuple[bytes, int], int] = {}
    waiting: list[Deferred[Any]] = []

    def check() -> None:
        for node in world.nodes.values():
            for topic in node.known.topics.values():
                for index, found in topic.states.items():
                    assert found.state.isr
                    assert set(found.state.isr) <= set(topic.assignment.partitions[index])
        for topic in world.nodes[0].known.topics.values():
            for index, found in topic.states.items():
                key = (topic.topic_id, index)
                assert found.state.leader_epoch >= epochs.get(key, 0) or not world.nodes[0].life.is_registered
                epochs[key] = max(epochs.get(key, 0), found.state.leader_epoch)

    for number in range(25):
        node = world.nodes[chance.randrange(3)]
        node.session.lose_reply = lambda _: chance.random() < 0.1
        what = chance.choice(("expire", "kill", "start", "create", "delete", "grow", "wait"))
        if what == "expire" and node.session.session_id is not None:
            node.session.expire()
        elif what == "kill":
            node.kill()
        elif what == "start" and node.session.session_id is None:
            world.start(node.broker_id)
        elif what == "create":
            waiting.append(node.topics.create(f"t{number}", chance.randint(1, 3), chance.randint(1, 2), None, {}))
        elif what == "delete" and node.view.topics:
            waiting.append(node.topics.delete(chance.choice(sorted(node.view.topics))))
        elif what == "grow" and node.view.topics:
            name = chance.choice(sorted(node.view.topics))
            waiting.append(node.topics.add_partitions(name, len(node.view.topics[name].partitions) + 1))
        world.run(chance.random())
        check()
    for one in waiting:
        one.addErrback(_refused)
    for broker, node in list(world.nodes.items()):
        node.session.lose_reply = lambda _: False
        if node.session.session_id is None:
            world.start(broker)
    world.run(90)
    check()
    agreed(world)
    known = world.nodes[0].known
    assert sorted(known.brokers) == [0, 1, 2]
    for topic in known.topics.values():
        assert not known.is_dead(topic)
        for index in topic.assignment.partitions:
            assert state(world, topic.name, index).leader in (0, 1, 2)
    for broker in range(3):
        data = world.ensemble.nodes[paths.broker(broker)][0]
        assert BrokerRegistration.decode(broker, data).epoch == world.nodes[broker].life.epoch
