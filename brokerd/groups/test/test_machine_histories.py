"""The group machine under any order of events: one leader, one generation, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from brokerd.groups.machine import next_deadline, restore
from brokerd.groups.test.scenes import Scene
from brokerd.groups.values import Joined, Limits, Resume, State, Synced, Unload, Written
from kafka_wire import errors

PROTOCOLS = st.lists(st.sampled_from(["range", "roundrobin", "sticky"]), min_size=1, unique=True).map(
    lambda names: tuple((name, name.encode()) for name in names)
)
TIMES = st.sampled_from([0.0, 0.5, 2.9, 5.0, 10.0, 31.0])
INSTANCES = st.sampled_from([None, None, "a", "b"])


class Histories(RuleBasedStateMachine):
    """Members that join, sync, die and come back in any order, over a ZooKeeper that may fail."""

    members = Bundle("members")

    @initialize(delay=st.sampled_from([0, 3000]), size=st.sampled_from([3, 100]))
    def begin(self, delay: int, size: int) -> None:
        """A new group."""
        self.scene = Scene(Limits(initial_delay_ms=delay, max_size=size))
        self.written = 0
        self.seen: dict[int, tuple[str | None, str]] = {}
        self.generation = 0

    @rule(target=members, instance=INSTANCES, protocols=PROTOCOLS, needs_id=st.booleans(), skip=st.booleans())
    def new(self, instance: str | None, protocols: Any, needs_id: bool, skip: bool) -> tuple[str, str | None]:
        """Somebody comes for the first time."""
        self.scene.join(instance_id=instance, protocols=protocols, needs_id=needs_id, takes_skip=skip)
        return f"m{self.scene._ids}", instance

    @rule(who=members, protocols=PROTOCOLS)
    def again(self, who: tuple[str, str | None], protocols: Any) -> None:
        """Somebody comes with an id, perhaps one that is no longer good."""
        self.scene.join(who[0], instance_id=who[1], protocols=protocols)

    @rule(who=members, age=st.sampled_from([0, 0, 0, 1]))
    def sync(self, who: tuple[str, str | None], age: int) -> None:
        """The leader assigns everybody; others only ask."""
        group = self.scene.group
        given = {key: b"%d %s" % (group.generation, key.encode()) for key in group.members}
        self.scene.sync(
            who[0],
            given if who[0] == group.leader else {},
            instance_id=who[1],
            generation=group.generation - age,
        )

    @rule(who=members)
    def heartbeat(self, who: tuple[str, str | None]) -> None:
        """A heartbeat."""
        self.scene.heartbeat(who[0], instance_id=who[1])

    @rule(some=st.lists(members, min_size=1, max_size=3))
    def leave(self, some: list[tuple[str, str | None]]) -> None:
        """Several leave."""
        self.scene.leave(*some)

    @rule(seconds=TIMES)
    def time(self, seconds: float) -> None:
        """Time passes."""
        self.scene.pass_time(seconds)

    @rule()
    def slept(self) -> None:
        """The coordinator was away."""
        self.scene.now += 100
        self.scene.play(Resume())

    @rule(code=st.sampled_from([errors.NONE, errors.NONE, errors.COORDINATOR_NOT_AVAILABLE]))
    def write(self, code: int) -> None:
        """ZooKeeper answers the oldest write."""
        if self.written < len(self.scene.stores):
            store = self.scene.stores[self.written]
            self.written += 1
            self.scene.play(Written(store.number, code))

    def waiting(self) -> set[int]:
        """Tokens that are held by the group."""
        held = [one.join_token for one in self.scene.group.members.values()]
        held += [one.sync_token for one in self.scene.group.members.values()]
        found = [token for token in held if token is not None]
        assert len(found) == len(set(found))
        return set(found)

    @invariant()
    def every_request_is_answered_or_held(self) -> None:
        """None is lost, none is held after its answer."""
        open_tokens = set(range(1, self.scene._tokens + 1)) - set(self.scene.answers)
        assert open_tokens == self.waiting()

    @invariant()
    def somebody_ends_every_waiting(self) -> None:
        """A deadline, or a write that is under way."""
        group = self.scene.group
        for member in group.members.values():
            if member.sync_token is not None:
                assert group.state is State.COMPLETING
                assert group.assigning or next_deadline(group) is not None
            if member.join_token is not None and member.prepared is None:
                assert group.state is State.PREPARING
                assert next_deadline(group) is not None
            if member.prepared is not None:
                assert member.stored_by > self.scene.stores[self.written - 1].number if self.written else True

    @invariant()
    def generation_never_goes_back(self) -> None:
        """And it has one leader, who is in it."""
        group = self.scene.group
        assert group.generation >= self.generation
        self.generation = group.generation
        assert len(group.static) == sum(one.instance_id is not None for one in group.members.values())
        if group.state in (State.COMPLETING, State.STABLE):
            assert group.leader in group.members
            assert group.protocol in {name for one in group.members.values() for name, _ in one.protocols}
        if group.state is State.EMPTY:
            assert not group.members

    @invariant()
    def one_generation_has_one_protocol_and_one_assigner(self) -> None:
        """Whoever got the members (and was not told to skip) is the only one who did."""
        assigners: dict[int, set[str]] = {}
        protocols: dict[int, set[str | None]] = {}
        for body in self.scene.answers.values():
            if isinstance(body, Joined) and body.code == errors.NONE:
                protocols.setdefault(body.generation, set()).add(body.protocol)
                if body.members and not body.skip_assignment:
                    assigners.setdefault(body.generation, set()).add(body.member_id)
            if isinstance(body, Synced) and body.code == errors.NONE and body.assignment:
                assert body.protocol is not None
        assert all(len(found) == 1 for found in assigners.values())
        assert all(len(found) == 1 for found in protocols.values())

    def teardown(self) -> None:
        """Let everything end: ZooKeeper answers, time passes, nobody says a word."""
        if not hasattr(self, "scene"):
            return
        stored = self.scene.stores[-1].group if self.scene.stores else None
        for _ in range(20):
            self.write(errors.NONE)
            self.scene.pass_time(400.0)
        assert not self.waiting()
        assert self.scene.group.state is State.EMPTY
        self.scene.play(Unload())
        if stored is not None:
            assert restore(stored, 0.0).stored() == stored


Histories.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_histories = Histories.TestCase
