"""Random histories in which nothing may go wrong, and the proof that they would show it: rules switched off go red.

BARNABAS_HISTORIES=5000 runs that many for each durability; a failure names its seed, and `run(seed)` repeats it.
"""

from __future__ import annotations

import os

import pytest

from brokerd.replication.test.simulation import SESSION, Broken, Node, Rules, Sent, World, run, switched

HISTORIES = int(os.environ.get("BARNABAS_HISTORIES", "120"))
FIRST = int(os.environ.get("BARNABAS_FIRST_SEED", "0"))


@pytest.mark.timeout(60 + HISTORIES)
@pytest.mark.parametrize("durability", ["replicated", "flushed"])
def test_no_history_breaks_a_promise(durability: str) -> None:
    """S1, S2, S11, S12, I3, I6, V1 through crashes, power loss, emptied disks, pauses and lost replies."""
    acknowledged = elections = 0
    for seed in range(FIRST, FIRST + HISTORIES):
        try:
            world = run(seed, durability=durability)
        except Broken as problem:
            pytest.fail(f"seed {seed}: {problem}")
        acknowledged += len(world.all_acks)
        elections += len(world.led)
    assert acknowledged > 2 * HISTORIES, "the histories are about nothing"
    assert elections > HISTORIES


@pytest.mark.parametrize(
    ("rule", "durability", "promise"),
    [
        ("a7", "replicated", "S1"),
        ("a10", "replicated", "S1"),
        ("v2", "replicated", "S1"),
        ("r25", "replicated", "not all"),
    ],
)
def test_history_without_a_rule_goes_wrong(rule: str, durability: str, promise: str) -> None:
    """The simulation would notice: a rule that is switched off is missed within some hundred histories."""
    for seed in range(600):
        try:
            run(seed, Rules(**{rule: False}), durability=durability)
        except Broken as problem:
            if promise in str(problem):
                return
    pytest.fail(f"600 histories without {rule}, and nothing happened")


# ---- single rules, where chance would need long: each history is told step by step


def beat(world: World) -> None:
    """Everybody who lives is heard of."""
    for node in world.nodes:
        if node.up and not node.paused and node.session in world.beats:
            world.beats[node.session] = world.now
            node.lease_until = world.now + SESSION


def fetch(world: World, follower: Node, leader: Node) -> None:
    """One round."""
    asked = follower.ask()
    assert asked is not None
    leader.serve(asked, 10)
    follower.take(asked)


def produce(world: World, leader: Node, acks: int = -1) -> Sent:
    """One record."""
    world.produced += 1
    sent = Sent(f"v{world.produced}", acks)
    leader.produce(sent)
    return sent


def expire(world: World, *gone: Node) -> None:
    """Time passes; the sessions of these end, the others' do not."""
    world.now += SESSION + 1
    beat(world)
    for node in gone:
        assert node.session is not None
        world.end_session(node.session)


def elect(world: World, node: Node) -> None:
    """This broker becomes controller and decides."""
    world._control()
    for _ in range(20):
        world._control()
        node.learn()


def quiet(world: World) -> None:
    """Nothing is on its way."""
    for queue in (world.pipeline, world.replies, world.requests, world.answers):
        queue.clear()
    for node in world.nodes:
        node.fetching = False


def joining(rules: Rules) -> tuple[World, Node, Node, Node]:
    """Broker 2 was out of the ISR of leader 0, has caught up, and the change that adds it is on its way. One record is
    acknowledged by all."""
    world = World(1, rules)
    leader, other, third = world.nodes
    assert leader.partition.is_leader
    quiet(world)
    third.die("kill")
    expire(world, third)
    leader.learn()
    fetch(world, other, leader)
    leader.look_at_isr()
    settle_writes(world)
    assert leader.partition.isr == (0, 1)
    first = produce(world, leader)
    fetch(world, other, leader)
    fetch(world, other, leader)
    assert world.all_acks == {first.offset: first.value}
    third.start()
    leader.learn()
    fetch(world, third, leader)
    fetch(world, third, leader)
    leader.look_at_isr()
    assert [write.added for write in world.pipeline] == [(2,)]
    return world, leader, other, third


def settle_writes(world: World) -> None:
    """ZooKeeper answers."""
    while world.pipeline:
        world._apply()
    while world.replies:
        write, problem = world.replies.pop(0)
        write.done(problem)


@pytest.mark.parametrize("holds", [True, False], ids=["with A6", "without A6"])
def test_A6_follower_being_added_counts_before_the_leader_knows_that_it_was(holds: bool) -> None:
    """ZooKeeper has the new ISR, the reply is late: a record that only the old ISR has must not be acknowledged."""
    rules = Rules(a6=holds)
    with switched(rules):
        world, leader, other, third = joining(rules)
        world._apply()
        late = produce(world, leader)
        fetch(world, other, leader)
        fetch(world, other, leader)
        assert (late.offset in world.all_acks) is not holds
        leader.die("kill")
        other.die("kill")
        expire(world, leader, other)
        third.learn()
        if holds:
            elect(world, third)
            assert third.partition.is_leader
            return
        with pytest.raises(Broken, match="S1"):
            elect(world, third)


@pytest.mark.parametrize("holds", [True, False], ids=["with A3", "without A3"])
def test_A3_follower_that_lost_its_disk_since_it_fetched_is_not_added(holds: bool) -> None:
    """It was caught up when the change was sent; when ZooKeeper takes it, it is another life with an empty log."""
    rules = Rules(a3=holds)
    with switched(rules):
        world, leader, other, third = joining(rules)
        third.die("wipe")
        third.start()
        settle_writes(world)
        found = world.state()
        assert found is not None
        assert (2 in found.state.isr) is not holds
        leader.die("kill")
        other.die("kill")
        expire(world, leader, other)
        third.learn()
        if holds:
            elect(world, third)
            assert not third.partition.is_leader
            return
        with pytest.raises(Broken, match="S1"):
            elect(world, third)


@pytest.mark.parametrize("holds", [True, False], ids=["with A16", "without A16"])
def test_A16_leader_that_slept_past_its_session_acknowledges_nothing(holds: bool) -> None:
    """It wakes with fetches and records in its sockets, and handles them before it learns anything."""
    rules = Rules(a16=holds)
    with switched(rules):
        world = World(1, rules)
        leader, other, third = world.nodes
        quiet(world)
        fetch(world, other, leader)
        fetch(world, third, leader)
        buffered = [other.ask(), third.ask()]
        leader.paused = True
        other.fetching = third.fetching = False
        expire(world, leader)
        other.learn()
        elect(world, other)
        assert other.partition.is_leader
        third.learn()
        fetch(world, third, other)
        fetch(world, third, other)
        other.learn()
        other.look_at_isr()
        settle_writes(world)
        produce(world, other)
        fetch(world, third, other)
        fetch(world, third, other)
        assert world.all_acks
        world.now += 2
        leader.paused = False
        for request in buffered:
            assert request is not None
            leader.serve(request, 10)
        if holds:
            assert produce(world, leader, acks=1).offset == -1
            return
        with pytest.raises(Broken, match="S12"):
            produce(world, leader, acks=1)


@pytest.mark.parametrize("holds", [True, False], ids=["with V4", "without V4"])
def test_V4_follower_tells_what_is_on_its_disk(holds: bool) -> None:
    """In a `flushed` topic an acknowledged record survives the power loss of any replica, whoever is elected."""
    rules = Rules(v4=holds)
    world = World(1, rules, durability="flushed")
    leader, other, third = world.nodes
    quiet(world)
    sent = produce(world, leader)
    leader.log.flush()
    for _ in range(2):
        fetch(world, other, leader)
        other.log.flush()
    fetch(world, third, leader)
    assert third.log.log_end > third.log.flushed
    if holds:
        assert third.ask() is None, "it waits for its disk"
        assert not world.all_acks
        return
    fetch(world, third, leader)
    assert world.all_acks == {sent.offset: sent.value}
    third.die("power")
    leader.die("kill")
    other.die("kill")
    expire(world, leader, other)
    third.start()
    with pytest.raises(Broken, match="S1"):
        elect(world, third)
