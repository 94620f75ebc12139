"""Promises of members together, rule by rule, in simulated time without faults other than the one in question."""

from __future__ import annotations

import attrs
import pytest

from consumer_group.group_session import Life
from consumer_group.membership import State
from consumer_group.test.simulation import GROUP, TOPIC, Process, Simulation
from kafka_wire.ids import TopicPartition
from zk_schema import paths
from zk_schema.consumer_nodes import Plan, Registration
from zk_schema.nodes import TopicAssignment
from zk_schema.operations import Delete, Set


def plan_of(world: Simulation) -> Plan:
    """The plan of now."""
    return Plan.decode(GROUP, world.server.nodes[paths.group_plan(GROUP)].data)


def life_of(process: Process) -> Life:
    """A registered member's life."""
    life = process.engine.rebalancer.session.life
    assert life is not None
    return life


def owned(process: Process) -> set[int]:
    """Partitions of a member."""
    return {partition.partition for partition in process.engine.rebalancer.member.owned}


def settled(count: int, **options: str) -> tuple[Simulation, list[Process]]:
    """A group at rest, in the order of its members' ids."""
    world = Simulation(7, **options)  # type: ignore[arg-type]
    for _ in range(count):
        world.join()
    world.run(4.0)
    world.check_rest()
    return world, sorted(world.processes, key=lambda process: life_of(process).consumer_id)


def test_B2_members_that_start_together_make_one_plan() -> None:
    """The first plan waits for a second of quiet."""
    world, members = settled(5)
    assert plan_of(world).generation == 1
    assert [one.consumer_id for one in plan_of(world).members] == [life_of(one).consumer_id for one in members]


def test_paper_each_member_has_its_range() -> None:
    """Algorithm 1 in the order of the ids, the remainder to the first."""
    _, members = settled(4)
    assert [owned(one) for one in members] == [{0, 1}, {2, 3}, {4}, {5}]


def test_B2_member_joins_the_others_keep_what_they_keep() -> None:
    """Sticky: only the newcomer's share moves, and only it is stopped."""
    world, members = settled(2, strategy="sticky")
    before = [owned(one) for one in members]
    new = world.join()
    world.run(3.0)
    world.check_rest()
    assert len(owned(new)) == 2
    assert all(owned(one) <= had and len(owned(one)) == 2 for one, had in zip(members, before, strict=True))


def test_B3_scribe_does_nothing_a_deputy_writes_the_plan() -> None:
    """A plan that stays wrong is written by the next in rank."""
    world, members = settled(3)
    members[0].engine.rebalancer.scribe.observed = lambda ids, plan: None  # type: ignore[method-assign]
    new = world.join()
    world.run(3.0)
    assert not owned(new)
    world.run(4.0)
    assert len(plan_of(world).members) == 4
    assert owned(new)


def test_B3_member_that_subscribes_to_something_else_writes_the_plan_itself() -> None:
    """At once, though it is not the scribe."""
    world, members = settled(2)
    last = members[-1]
    last.engine.resubscribe(Registration((), None, "range", 1, 5))
    world.run(1.0)
    assert (owned(members[0]), owned(last)) == ({0, 1, 2, 3, 4, 5}, set())


def test_B4_members_disagree_they_share_by_range() -> None:
    """The paper's way is everybody's."""
    world, members = settled(2, strategy="sticky")
    members[0].engine.resubscribe(attrs.evolve(members[0].engine.registration, strategy="roundrobin"))
    world.run(2.0)
    assert plan_of(world).strategy == "range"
    assert [owned(one) for one in members] == [{0, 1, 2}, {3, 4, 5}]


def test_topic_grows_the_scribe_sees_it() -> None:
    """W11: the data of the topic's node is watched."""
    world, members = settled(3)
    world.logs.ends += [0] * 3
    world.delivered += [set(), set(), set()]
    world.committed += [-1] * 3
    grown = TopicAssignment(TOPIC, b"i" * 16, dict.fromkeys(range(9), (0,)))
    world.server.multi(0, [Set(grown.path, grown.encode(), -1)])
    world.run(3.0)
    assert sum(len(owned(one)) for one in members) == 9


def test_B22_owner_node_deleted_by_somebody_is_claimed_again() -> None:
    """The audit finds it within a minute and a half."""
    world, members = settled(2)
    path = paths.group_owner(GROUP, TOPIC, 0)
    world.server.multi(0, [Delete(path)])
    for process in members:  # what is delivered until the audit is not judged: nobody can know
        process.idle = True
    world.run(80.0)
    assert path in world.server.nodes
    assert sum(one.engine.rebalancer.audits_healed for one in members) == 1


def test_B18_evicted_member_is_fenced_and_comes_back_under_another_id() -> None:
    """Its partitions are released, not left behind."""
    world, members = settled(2)
    before = life_of(members[0]).consumer_id
    world.evict(members[0])
    world.run(6.0)
    world.check_rest()
    assert life_of(members[0]).consumer_id != before


def test_B7_application_does_not_poll_its_partitions_are_taken() -> None:
    """A rebalance waits no longer than max.poll.interval.ms (3 s here)."""
    world, members = settled(1)
    members[0].idle = True
    new = world.join()
    world.run(2.5)
    assert owned(new) == set()
    world.run(4.0)
    assert len(owned(new)) == 3
    assert owned(members[0]) != owned(new)


def test_B23_last_member_leaves_nothing_behind() -> None:
    """Offsets and the plan stay, registrations and owners go."""
    world, members = settled(1)
    world.leave(members[0])
    world.run(2.0)
    assert members[0].engine.rebalancer.member.state is State.CLOSED
    assert world.server.children(paths.group_ids(GROUP)) == []
    assert world.server.children(paths.group_owners(GROUP, TOPIC)) == []
    assert world.server.children(paths.group_offsets(GROUP, TOPIC)) == list("012345")


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
def test_owner_nodes_name_the_stream_that_reads(strategy: str) -> None:
    """`C-0`, as Kafka 0.8 wrote it."""
    world, members = settled(2, strategy=strategy)
    for process in members:
        for partition in process.engine.rebalancer.member.owned:
            node = world.server.nodes[paths.group_owner(GROUP, *_plain(partition))]
            assert node.data.decode() == f"{life_of(process).consumer_id}-0"


def _plain(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition
