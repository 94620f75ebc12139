"""The controller's decisions, rule by rule, and driven through random histories over a model of ZooKeeper."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.cluster.cluster_state import ClusterState, KnownTopic, LiveBroker
from brokerd.cluster.decisions import PIECES_PER_MULTI, Authority, Multi, bury, decide, grant_wishes
from brokerd.cluster.test.store import Store
from zk_schema import paths
from zk_schema.nodes import (
    NO_LEADER,
    BrokerRegistration,
    ControllerEpoch,
    Incarnation,
    PartitionState,
    Tombstone,
    TopicAssignment,
    VersionedState,
)
from zk_schema.operations import BadVersion, Create, Delete, Set

ME = Authority(epoch=5, version=4)
TOPIC_ID = b"\1" * 16


def known(*brokers: int) -> ClusterState:
    """A cluster of these registered brokers."""
    state = ClusterState()
    state.set_brokers({one: LiveBroker(BrokerRegistration(one, (), 0), one) for one in brokers})
    return state


def add(
    state: ClusterState, replicas: dict[int, tuple[int, ...]], states: dict[int, PartitionState] | None = None
) -> KnownTopic:
    """The topic `logs`."""
    topic = state.set_assignment(TopicAssignment("logs", TOPIC_ID, replicas), 0)
    state.put_states("logs", [(index, VersionedState(one, 7)) for index, one in (states or {}).items()])
    return topic


def decided(state: ClusterState, *, unclean: bool = False) -> list[Multi]:
    """What is to be written for `logs`."""
    return decide(state, ["logs"], ME, unclean=lambda _: unclean, new_id=lambda: b"\2" * 16)


def written(multis: list[Multi]) -> dict[str, PartitionState]:
    """The states in the multis, by path."""
    return {
        one.path: PartitionState.decode("logs", 0, one.data)
        for multi in multis
        for one in multi.operations
        if isinstance(one, Set | Create) and one.path.endswith("/state")
    }


def only(multis: list[Multi]) -> PartitionState:
    """The one state that is written."""
    (found,) = written(multis).values()
    return found


def drain(state: ClusterState, broker: int) -> None:
    """The broker is about to leave."""
    state.set_incarnation(Incarnation(broker, draining=True), 9)


# ---- A26


def test_A26_partition_without_a_state_gets_one_from_its_registered_replicas() -> None:
    """Epoch 0, the first registered replica leads, all registered ones are in sync."""
    state = known(1, 2)
    add(state, {0: (3, 2, 1)})

    assert only(decided(state)) == PartitionState(2, 0, (2, 1), ME.epoch)


def test_A26_without_a_registered_replica_nothing_is_created() -> None:
    """An ISR is never empty (A6); the partition waits for a replica."""
    state = known(1)
    add(state, {0: (3,)})

    assert decided(state) == []


def test_A26_partition_node_that_exists_is_not_created_again() -> None:
    """What an interrupted tool left is taken over, and a missing parent is made once."""
    state = known(1)
    topic = add(state, {0: (1,), 1: (1,)})
    topic.bare, topic.has_partitions_node = {1}, False

    (multi,) = decided(state)

    made = [one.path for one in multi.operations if isinstance(one, Create)]
    assert made == [
        paths.partitions("logs"),
        paths.partition("logs", 0),
        paths.partition_state("logs", 0),
        paths.partition_state("logs", 1),
    ]


def test_A2_every_multi_is_fenced_and_tells_of_itself() -> None:
    """A thousand partitions are made one multi's worth at a time, each with the controller's check and its change."""
    state = known(1)
    add(state, dict.fromkeys(range(1000), (1,)))

    rounds = 0
    while multis := decided(state):
        rounds += 1
        for multi in multis:
            assert multi.operations[0] == ME.check()
            assert [change.kind for change in multi.changes] == ["topic"]
            state.put_states("logs", multi.changes[0].states.items())

    assert rounds == 1000 // PIECES_PER_MULTI
    assert len(state.topics["logs"].states) == 1000


# ---- A23, A24


def test_A23_first_in_sync_replica_of_the_assignment_takes_over() -> None:
    """The dead leader leaves the ISR, the epoch goes up by one, and the version of the node is demanded."""
    state = known(2, 3)
    add(state, {0: (1, 3, 2)}, {0: PartitionState(1, 4, (1, 2, 3), 2)})

    (multi,) = decided(state)

    assert only([multi]) == PartitionState(3, 5, (2, 3), ME.epoch)
    assert multi.changes[0].states[0].version == 8


def test_A23_replica_outside_the_isr_is_never_elected() -> None:
    """Without a candidate there is no leader, and the ISR is kept."""
    state = known(2)
    add(state, {0: (1, 2)}, {0: PartitionState(1, 4, (1,), 2)})

    assert only(decided(state)) == PartitionState(NO_LEADER, 5, (1,), ME.epoch)


def test_A23_living_leader_is_left_alone() -> None:
    """The ISR belongs to the leader (A4): a dead follower is not the controller's business."""
    state = known(1)
    add(state, {0: (1, 2)}, {0: PartitionState(1, 4, (1, 2), 2)})

    assert decided(state) == []


def test_A23_leaderless_partition_without_candidates_is_not_written_again() -> None:
    """The state is as good as it can be."""
    state = known(2)
    add(state, {0: (1, 2)}, {0: PartitionState(NO_LEADER, 4, (1,), 2)})

    assert decided(state) == []


def test_A23_draining_leader_hands_over() -> None:
    """It is alive, so it stays in the ISR until the new leader takes it out."""
    state = known(1, 2)
    drain(state, 1)
    add(state, {0: (1, 2)}, {0: PartitionState(1, 4, (1, 2), 2)})

    assert only(decided(state)) == PartitionState(2, 5, (1, 2), ME.epoch)


@pytest.mark.parametrize("unclean", [False, True])
def test_A23_draining_leader_without_a_successor_leads_to_its_end(unclean: bool) -> None:
    """A partition with one replica is served until its broker is gone."""
    state = known(1, 2)
    drain(state, 1)
    add(state, {0: (1, 2)}, {0: PartitionState(1, 4, (1,), 2)})

    assert decided(state, unclean=unclean) == []


def test_A24_suspect_last_member_is_not_elected_where_others_may_have_more() -> None:
    """One machine's lost tail must not become everyone's."""
    state = known(1, 2)
    state.set_incarnation(Incarnation(1, suspect=(("logs", 0),)), 3)
    add(state, {0: (1, 2)}, {0: PartitionState(NO_LEADER, 4, (1,), 2)})

    assert decided(state) == []


def test_A24_suspect_only_replica_leads_again() -> None:
    """Nobody else could have the data; the reason says that some may be gone."""
    state = known(1)
    state.set_incarnation(Incarnation(1, suspect=(("logs", 0),)), 3)
    add(state, {0: (1,)}, {0: PartitionState(NO_LEADER, 4, (1,), 2)})

    (multi,) = decided(state)

    assert only([multi]) == PartitionState(1, 5, (1,), ME.epoch)
    assert "may be missing" in multi.reasons[0]


def test_A24_suspect_only_replica_leads_again_while_it_is_being_moved() -> None:
    """A replica that is still to come has nothing that could be better."""
    state = known(1, 2)
    state.set_incarnation(Incarnation(1, suspect=(("logs", 0),)), 3)
    state.set_assignment(TopicAssignment("logs", TOPIC_ID, {0: (2, 1)}, {0: (2,)}, {0: (1,)}), 0)
    state.put_states("logs", [(0, VersionedState(PartitionState(NO_LEADER, 4, (1,), 2), 7))])

    assert only(decided(state)) == PartitionState(1, 5, (1,), ME.epoch)


def test_A24_unclean_election_is_marked() -> None:
    """Where it is allowed a replica outside the ISR leads alone, and the state says that data may be gone."""
    state = known(2)
    add(state, {0: (1, 2)}, {0: PartitionState(NO_LEADER, 4, (1,), 2)})

    assert only(decided(state, unclean=True)) == PartitionState(2, 5, (2,), ME.epoch, recovering=True)


# ---- A28


def test_A28_dead_topic_loses_its_states_first() -> None:
    """Nobody is elected for it any more."""
    state = known(1)
    add(state, {0: (1,)}, {0: PartitionState(NO_LEADER, 4, (1,), 2)})
    state.bury(TOPIC_ID)

    (multi,) = decided(state)

    assert multi.operations[1:] == (Delete(paths.partition_state("logs", 0)), Delete(paths.partition("logs", 0)))
    assert multi.dropped == (("logs", 0),)


def test_A28_topic_without_states_loses_its_own_nodes() -> None:
    """Topic, settings and wish go in one multi; then the name is free."""
    state = known(1)
    topic = add(state, {0: (1,)})
    topic.has_config = True
    state.wishes = {"logs"}
    state.bury(TOPIC_ID)

    (multi,) = decided(state)

    assert [one.path for one in multi.operations[1:]] == [
        paths.partitions("logs"),
        paths.topic("logs"),
        paths.topic_config("logs"),
        paths.delete_topic("logs"),
    ]


def test_A28_wish_becomes_a_tombstone() -> None:
    """What a tool of the ZooKeeper age asks for is done, unless deletion is not allowed or there is no such topic."""
    state = known(1)
    add(state, {0: (1,)})
    state.wishes = {"logs", "absent"}

    absent, logs = grant_wishes(state, ME, 1000)
    assert absent.operations[1:] == (Delete(paths.delete_topic("absent")),)
    assert Create(Tombstone(TOPIC_ID, "logs", 1000).path, Tombstone(TOPIC_ID, "logs", 1000).encode()) in logs.operations
    refused = [one.operations[1] for one in grant_wishes(state, ME, 1000, allowed=False)]
    assert refused == [Delete(paths.delete_topic("absent")), Delete(paths.delete_topic("logs"))]


# ---- the rest


def test_topic_without_an_id_is_given_one_before_anything_else() -> None:
    """Topics of Kafka before 2.8."""
    state = known(1)
    state.set_assignment(TopicAssignment("logs", bytes(16), {0: (1,)}), 3)

    (multi,) = decided(state)

    written_topic = multi.operations[1]
    assert isinstance(written_topic, Set)
    assert TopicAssignment.decode("logs", written_topic.data).topic_id == b"\2" * 16
    assert written_topic.version == 3


def test_A31_topic_with_an_unreadable_node_is_left_alone() -> None:
    """A person has to look at it first."""
    state = known(1)
    add(state, {0: (1,)})
    state.freeze("logs", "bad JSON")

    assert decided(state) == []


# ---- histories


brokers_strategy = st.lists(st.integers(1, 4), unique=True, max_size=4)
step = st.one_of(
    st.tuples(st.just("brokers"), brokers_strategy),
    st.tuples(st.just("drain"), st.integers(1, 4)),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("create"), st.none()),
    st.tuples(st.just("interrupt"), st.integers(0, 3)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=12), st.integers(1, 6), st.booleans())
def test_any_history_ends_with_every_rule_kept(
    history: list[tuple[str, object]], partitions: int, unclean: bool
) -> None:
    """Whatever happens, and wherever a controller is interrupted: the ISR is never empty and within the assignment,
    epochs never go back, and in the end everything that can have a leader has one and dead topics are gone.
    """
    store, state = Store(), known(1, 2, 3, 4)
    epochs: dict[tuple[bytes, int], int] = {}
    store.nodes[paths.CONTROLLER_EPOCH] = (ControllerEpoch(5).encode(), ME.version)

    def check() -> None:
        for topic in state.topics.values():
            for index, found in topic.states.items():
                assert found.state.isr
                assert set(found.state.isr) <= set(topic.assignment.partitions[index])
                key = (topic.topic_id, index)
                assert found.state.leader_epoch >= epochs.get(key, 0)
                epochs[key] = found.state.leader_epoch

    def run(limit: int | None) -> None:
        while True:
            multis = [
                *grant_wishes(state, ME, 0),
                *decide(state, list(state.topics), ME, unclean=lambda _: unclean, new_id=lambda: b"\3" * 16),
            ]
            for multi in multis[:limit]:
                store.multi(multi.all())
                store.read(state)
                check()
            if not multis or limit is not None:
                return

    for number, (what, value) in enumerate([("create", None), *history]):
        if what == "brokers":
            assert isinstance(value, list)
            state.set_brokers({one: LiveBroker(BrokerRegistration(one, (), 0), number) for one in value})
        elif what == "drain":
            assert isinstance(value, int)
            state.set_incarnation(Incarnation(value, draining=number % 2 == 0), number)
        elif what == "create" and "logs" not in state.topics:
            replicas = {index: tuple(1 + (index + one) % 4 for one in range(3)) for index in range(partitions)}
            made = TopicAssignment("logs", bytes([number + 1]) * 16, replicas)
            store.multi([Create(made.path, made.encode()), Create(paths.partitions("logs"))])
        elif what == "delete" and "logs" in state.topics and not state.is_dead(state.topics["logs"]):
            store.multi(bury(state.topics["logs"], (), 0).all())
        store.read(state)
        run(value if what == "interrupt" and isinstance(value, int) else None)
    run(None)
    for topic in state.topics.values():
        assert not state.is_dead(topic)
        for index, found in topic.states.items():
            fit = [
                one for one in topic.assignment.partitions[index] if one in state.brokers and not state.is_draining(one)
            ]
            if (unclean and fit) or set(fit) & set(found.state.isr):
                assert found.state.leader in state.brokers


def test_deposed_controller_writes_nothing() -> None:
    """I8: its check fails, and with it everything else in its multi."""
    store, state = Store(), known(1)
    store.nodes[paths.CONTROLLER_EPOCH] = (ControllerEpoch(6).encode(), ME.version + 1)
    topic = TopicAssignment("logs", TOPIC_ID, {0: (1,)})
    store.multi([Create(topic.path, topic.encode()), Create(paths.partitions("logs"))])
    store.read(state)
    before = dict(store.nodes)

    with pytest.raises(BadVersion):
        store.multi(decided(state)[0].all())
    assert store.nodes == before
