"""A27: the steps of a reassignment, one by one and through random histories over a model of ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.cluster import reassignment
from brokerd.cluster.cluster_state import ClusterState, KnownTopic, LiveBroker
from brokerd.cluster.decisions import Authority, Multi, decide
from brokerd.cluster.reassignment import Begun, Cancel, Replicas, begin, finish, moving, replicas_of, wish
from brokerd.cluster.test.store import Store
from kafka_wire import errors
from zk_schema import paths
from zk_schema.nodes import BrokerRegistration, ControllerEpoch, PartitionState, TopicAssignment, VersionedState
from zk_schema.operations import Check, Create, Set, check_size

ME = Authority(epoch=5, version=4)
ID = b"\1" * 16
EVERY = (1, 2, 3, 4, 5, 6)


def known(replicas: Sequence[int], state: PartitionState, brokers: Sequence[int] = EVERY) -> ClusterState:
    """A topic `logs` of one partition in a cluster of these brokers."""
    made = ClusterState()
    made.set_brokers({one: LiveBroker(BrokerRegistration(one, (), 0), one) for one in brokers})
    made.set_assignment(TopicAssignment("logs", ID, {0: tuple(replicas)}), 3)
    made.put_states("logs", [(0, VersionedState(state, 7))])
    return made


def applied(made: ClusterState, multi: Multi) -> None:
    """What was written is known."""
    topic = made.topics["logs"]
    for one in multi.operations:
        if isinstance(one, Set) and one.path == paths.topic("logs"):
            assert one.version == topic.version
            made.set_assignment(TopicAssignment.decode("logs", one.data), one.version + 1)
    for change in multi.changes:
        made.put_states("logs", change.states.items())


def begun(made: ClusterState, target: Sequence[int] | Cancel) -> Begun:
    """Step 1 for the partition, applied if it was not refused."""
    found = begin(made, made.topics["logs"], {0: target}, ())
    if found.multi is not None:
        applied(made, found.multi)
    return found


def now(made: ClusterState) -> tuple[Replicas, PartitionState]:
    """The partition."""
    topic = made.topics["logs"]
    return replicas_of(topic.assignment, 0), topic.states[0].state


# ---- (1)


def test_A27_begin_writes_target_and_former_replicas_and_a_new_epoch() -> None:
    """Leader and ISR stay, and so does the controller's epoch; the target comes first."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))

    begun(made, (3, 2))

    assert now(made) == (Replicas((3, 2, 1), adding=(3,), removing=(1,)), PartitionState(1, 5, (1, 2), 9))


def test_A27_begin_is_one_multi_with_the_version_of_every_node() -> None:
    """So any broker may write it."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    fence = Check(paths.incarnation(6), 2)

    found = begin(made, made.topics["logs"], {0: (3, 2)}, (fence,))

    assert found.multi is not None
    versions = {one.path: one.version for one in found.multi.operations if isinstance(one, Set | Check)}
    assert versions == {fence.path: 2, paths.topic("logs"): 3, paths.partition_state("logs", 0): 7}
    assert [change.kind for change in found.multi.changes] == [reassignment.CHANGE]


def test_other_order_of_the_same_replicas_is_done_at_once() -> None:
    """Nothing is to be copied."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))

    begun(made, (2, 1))

    assert now(made) == (Replicas((2, 1)), PartitionState(1, 5, (1, 2), 9))


def test_same_target_again_writes_nothing() -> None:
    """A request that is repeated after a lost reply does no harm."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    begun(made, (3, 2))

    found = begun(made, (3, 2))

    assert found == Begun(None, frozenset([0]), {})


def test_new_target_replaces_the_one_under_way() -> None:
    """What the first one added and the second does not want goes, from the ISR too; the former replicas stay."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    begun(made, (3, 4))
    made.put_states("logs", [(0, VersionedState(PartitionState(1, 5, (1, 2, 3), 9), 9))])

    begun(made, (4, 5))

    assert now(made) == (Replicas((4, 5, 1, 2), (4, 5), (1, 2)), PartitionState(1, 6, (1, 2), 9))


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ((), errors.InvalidReplicaAssignment),
        ((1, 1), errors.InvalidReplicaAssignment),
        ((1, -1), errors.InvalidReplicaAssignment),
        ((1, 9), errors.InvalidReplicaAssignment),
    ],
)
def test_bad_targets_are_refused(target: tuple[int, ...], problem: type[errors.KafkaError]) -> None:
    """Empty, twice the same, no broker id, and a broker that is not registered."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))

    assert isinstance(begun(made, target).refused[0], problem)


def test_broker_that_is_away_may_stay_in_the_target() -> None:
    """Only what is added must be there."""
    made = known((1, 2), PartitionState(1, 4, (1,), 9), brokers=(1, 3))

    begun(made, (3, 2))

    assert now(made)[0].adding == (3,)


def test_number_of_replicas_may_be_kept() -> None:
    """allow_replication_factor_change of the request."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))

    with pytest.raises(errors.InvalidReplicationFactor):
        wish(made.topics["logs"], 0, (1, 2, 3), same_number=True)
    assert wish(made.topics["logs"], 0, (4, 5), same_number=True) == (4, 5)


def test_unknown_partition_is_refused() -> None:
    """As Kafka answers it."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))

    with pytest.raises(errors.UnknownTopicOrPartition):
        wish(made.topics["logs"], 7, (1, 2), same_number=False)


def test_many_partitions_are_cut_into_multis_that_fit() -> None:
    """A1; every one leaves the topic in a state from which the next goes on."""
    made = ClusterState()
    made.set_brokers({one: LiveBroker(BrokerRegistration(one, (), 0), one) for one in EVERY})
    count = 3000
    made.set_assignment(TopicAssignment("logs", ID, dict.fromkeys(range(count), (1, 2, 3))), 0)
    states = {index: VersionedState(PartitionState(1, 4, (1, 2, 3), 9), 7) for index in range(count)}
    made.put_states("logs", states.items())
    asked = dict.fromkeys(range(count), (4, 5, 6))
    number = 0
    while asked:
        found = begin(made, made.topics["logs"], asked, ())
        assert found.multi is not None
        check_size(found.multi.all())
        applied(made, found.multi)
        asked = {index: one for index, one in asked.items() if index not in found.settled}
        number += 1
    assert len(moving(made.topics["logs"].assignment)) == count
    assert 10 < number < 100


# ---- cancel


def test_cancel_restores_the_former_replicas() -> None:
    """At once, and the added ones leave the ISR."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    begun(made, (3, 2))
    made.put_states("logs", [(0, VersionedState(PartitionState(1, 5, (1, 2, 3), 9), 9))])

    begun(made, wish(made.topics["logs"], 0, None, same_number=False))

    replicas, state = now(made)
    assert (set(replicas.all), replicas.moving) == ({1, 2}, False)
    assert state == PartitionState(1, 6, (1, 2), 9)


def test_cancel_takes_the_leadership_from_an_added_replica() -> None:
    """It goes to a former one that is in sync."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    begun(made, (3, 4))
    made.put_states("logs", [(0, VersionedState(PartitionState(3, 6, (2, 3), 9), 9))])

    begun(made, Cancel((1, 2)))

    assert now(made)[1] == PartitionState(2, 7, (2,), 9)


def test_cancel_that_would_lose_the_data_is_refused() -> None:
    """Only an added replica has everything; the reassignment goes on."""
    made = known((1,), PartitionState(1, 4, (1,), 9))
    begun(made, (2,))
    made.put_states("logs", [(0, VersionedState(PartitionState(2, 6, (2,), 9), 9))])

    found = begun(made, Cancel((1,)))

    assert isinstance(found.refused[0], errors.InvalidReplicaAssignment)
    assert now(made)[0].moving


def test_cancel_of_nothing_is_refused() -> None:
    """As Kafka answers it; also when it was finished meanwhile."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))

    with pytest.raises(errors.NoReassignmentInProgress):
        wish(made.topics["logs"], 0, None, same_number=False)
    assert isinstance(begun(made, Cancel((3, 4))).refused[0], errors.NoReassignmentInProgress)
    assert begun(made, Cancel((2, 1))).refused == {}


# ---- (3)


def test_A27_finish_waits_until_all_of_the_target_is_in_sync() -> None:
    """One that is missing is enough to wait."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    begun(made, (3, 4))
    made.put_states("logs", [(0, VersionedState(PartitionState(1, 5, (1, 2, 3), 9), 9))])

    assert finish(made, ["logs"], ME) == []


def test_A27_finish_moves_leader_isr_and_replicas_in_one_multi() -> None:
    """Fenced by the controller's epoch."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9))
    begun(made, (3, 4))
    made.put_states("logs", [(0, VersionedState(PartitionState(1, 5, (1, 2, 3, 4), 9), 9))])

    (multi,) = finish(made, ["logs"], ME)
    applied(made, multi)

    assert multi.operations[0] == ME.check()
    assert now(made) == (Replicas((3, 4)), PartitionState(3, 6, (3, 4), ME.epoch))
    assert finish(made, ["logs"], ME) == []


def test_leader_within_the_target_goes_on_leading() -> None:
    """Clients are not sent away without need."""
    made = known((1, 2), PartitionState(2, 4, (1, 2), 9))
    begun(made, (3, 2))
    made.put_states("logs", [(0, VersionedState(PartitionState(2, 5, (1, 2, 3), 9), 9))])

    (multi,) = finish(made, ["logs"], ME)
    applied(made, multi)

    assert now(made)[1].leader == 2


def test_election_comes_before_the_last_step() -> None:
    """The leader is gone: A23 first."""
    made = known((1, 2), PartitionState(1, 4, (1, 2), 9), brokers=(2, 3, 4))
    begun(made, (3, 4))
    made.put_states("logs", [(0, VersionedState(PartitionState(1, 5, (1, 2, 3, 4), 9), 9))])

    assert finish(made, ["logs"], ME) == []


# ---- histories


@attrs.define
class History:
    """One partition in a model of ZooKeeper, driven by what controller, leader, operator and brokers may do."""

    store: Store = attrs.field(factory=Store)
    known: ClusterState = attrs.field(factory=ClusterState)
    alive: set[int] = attrs.field(factory=lambda: set(EVERY))

    def __attrs_post_init__(self) -> None:
        topic = TopicAssignment("logs", ID, {0: (1, 2, 3)})
        state = PartitionState(1, 0, (1, 2, 3), 5)
        self.store.multi(
            [
                Create(paths.CONTROLLER_EPOCH, ControllerEpoch(5).encode()),
                Create(topic.path, topic.encode()),
                Create(paths.partitions("logs")),
                Create(paths.partition("logs", 0)),
                Create(paths.partition_state("logs", 0), state.encode()),
            ]
        )
        self.learn()

    @property
    def topic(self) -> KnownTopic:
        return self.known.topics["logs"]

    @property
    def state(self) -> PartitionState:
        return self.topic.states[0].state

    @property
    def replicas(self) -> Replicas:
        return replicas_of(self.topic.assignment, 0)

    def learn(self) -> None:
        """Reads everything, and looks at the invariants: the ISR is never empty, and within the assignment."""
        self.store.read(self.known)
        brokers = {one: LiveBroker(BrokerRegistration(one, (), 0), one) for one in sorted(self.alive)}
        self.known.set_brokers(brokers)
        assert self.state.isr
        assert set(self.state.isr) <= set(self.replicas.all)
        assert self.state.leader == -1 or self.state.leader in self.state.isr
        assert set(self.replicas.adding) | set(self.replicas.removing) <= set(self.replicas.all)

    def write(self, multis: Sequence[Multi]) -> None:
        for multi in multis:
            before = self.state
            self.store.multi(multi.all())
            self.learn()
            assert self.state.leader_epoch > before.leader_epoch

    def control(self) -> None:
        """The controller until it has nothing to do."""
        authority = Authority(5, 0)
        for _ in range(10):
            multis = decide(self.known, ["logs"], authority, unclean=lambda _: False, new_id=lambda: ID)
            multis = multis or finish(self.known, ["logs"], authority)
            if not multis:
                return
            self.write(multis)
        raise AssertionError("the controller does not come to rest")

    def lead(self) -> None:
        """The leader adds one live replica that has caught up, or drops those that are gone."""
        if self.state.leader not in self.alive:
            return
        isr = [one for one in self.state.isr if one in self.alive]
        isr += [one for one in self.replicas.all if one not in isr and one in self.alive][:1]
        found = self.topic.states[0]
        wanted = attrs.evolve(found.state, isr=tuple(isr))
        self.store.multi([Set(paths.partition_state("logs", 0), wanted.encode(), found.version)])
        self.learn()

    def ask(self, target: Sequence[int] | None) -> None:
        try:
            one = wish(self.topic, 0, target, same_number=False)
        except errors.NoReassignmentInProgress:
            return
        former = self.replicas.former
        found = begin(self.known, self.topic, {0: one}, ())
        if found.multi is not None:
            self.write([found.multi])
            if target is None:
                assert self.replicas == Replicas(former)


_steps = st.one_of(
    st.just(("control", None)),
    st.just(("lead", None)),
    st.tuples(
        st.just("ask"),
        st.one_of(
            st.none(),
            st.permutations(EVERY).flatmap(lambda every: st.integers(1, 3).map(lambda size: tuple(every[:size]))),
        ),
    ),
    st.tuples(st.sampled_from(["kill", "start"]), st.sampled_from(EVERY)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_steps, max_size=25))
def test_every_reassignment_ends_at_its_target_and_no_isr_is_ever_empty(steps: list[tuple[str, object]]) -> None:
    """Whatever happens in between: once all brokers are there, leader and controller bring it to its end."""
    history = History()
    for what, value in steps:
        if what == "control":
            history.control()
        elif what == "lead":
            history.lead()
        elif what == "ask":
            history.ask(value)  # type: ignore[arg-type]
        elif what == "kill":
            history.alive.discard(value)
            history.learn()
        else:
            history.alive.add(value)  # type: ignore[arg-type]
            history.learn()
    history.alive = set(EVERY)
    history.learn()
    target = history.replicas.target
    for _ in range(12):
        history.control()
        history.lead()
    assert history.replicas == Replicas(target)
    assert set(history.state.isr) == set(target)
