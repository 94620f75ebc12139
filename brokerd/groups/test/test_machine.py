"""The group machine: every pair of state and event, and what members see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokerd.groups.machine import next_deadline, restore
from brokerd.groups.test.scenes import Scene, assign, completing, dead, empty, pair, preparing, stable
from brokerd.groups.values import (
    Commit,
    Delete,
    Heartbeat,
    Join,
    Leave,
    Limits,
    Resume,
    State,
    Sync,
    Synced,
    Tick,
    Unload,
    Written,
)
from brokerd.groups.work import TRANSITIONS, IllegalTransition, Work
from kafka_wire import errors

SCENES: dict[State, Callable[[], Scene]] = {
    State.EMPTY: empty,
    State.PREPARING: preparing,
    State.COMPLETING: completing,
    State.STABLE: stable,
    State.DEAD: dead,
}
WAITS = None

E, P, C, S, D = State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE, State.DEAD


def _join(scene: Scene, member_id: str, **fields: Any) -> Join:
    given: dict[str, Any] = {"protocols": (("range", b"r"),), "needs_id": False, "instance_id": None, **fields}
    return Join(
        token=scene.token(),
        member_id=member_id,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        fresh_id="new",
        **given,
    )


EVENTS: dict[str, Callable[[Scene], Any]] = {
    "join of a new member": lambda scene: _join(scene, ""),
    "join of a new member that must come again": lambda scene: _join(scene, "", needs_id=True),
    "join of the leader": lambda scene: _join(scene, "m1"),
    "join of a stranger": lambda scene: _join(scene, "stranger"),
    "sync of the leader": lambda scene: Sync(scene.token(), "m1", scene.group.generation, {"m1": b"a"}),
    "sync of an old generation": lambda scene: Sync(scene.token(), "m1", scene.group.generation - 1),
    "sync of a stranger": lambda scene: Sync(scene.token(), "stranger", scene.group.generation),
    "heartbeat": lambda scene: Heartbeat(scene.token(), "m1", scene.group.generation),
    "heartbeat of an old generation": lambda scene: Heartbeat(scene.token(), "m1", scene.group.generation - 1),
    "heartbeat of a stranger": lambda scene: Heartbeat(scene.token(), "stranger", scene.group.generation),
    "leave": lambda scene: Leave(scene.token(), (("m1", None),)),
    "leave of a stranger": lambda scene: Leave(scene.token(), (("stranger", None),)),
    "commit": lambda scene: Commit(scene.token(), "m1", scene.group.generation),
    "commit without a group": lambda scene: Commit(scene.token(), "", -1),
    "delete": lambda scene: Delete(scene.token()),
    "tick": lambda scene: Tick(),
    "resume": lambda scene: Resume(),
    "written": lambda scene: Written(scene.group.writes),
    "unload": lambda scene: Unload(),
}

NONE, UNKNOWN, ILLEGAL = errors.NONE, errors.UNKNOWN_MEMBER_ID, errors.ILLEGAL_GENERATION
REBALANCE, AWAY, ID = errors.REBALANCE_IN_PROGRESS, errors.COORDINATOR_NOT_AVAILABLE, errors.MEMBER_ID_REQUIRED
FULL, GONE = errors.NON_EMPTY_GROUP, errors.GROUP_ID_NOT_FOUND

# event -> for each state: (code of the answer, WAITS or "-" where nobody asked; the state after it).
TABLE: dict[str, tuple[tuple[Any, State], ...]] = {
    # EMPTY, PREPARING, COMPLETING, STABLE, DEAD
    "join of a new member": ((NONE, C), (WAITS, P), (WAITS, P), (WAITS, P), (AWAY, D)),
    "join of a new member that must come again": ((ID, E), (ID, P), (ID, C), (ID, S), (AWAY, D)),
    "join of the leader": ((UNKNOWN, E), (NONE, C), (NONE, C), (NONE, C), (AWAY, D)),
    "join of a stranger": ((UNKNOWN, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S), (AWAY, D)),
    "sync of the leader": ((UNKNOWN, E), (REBALANCE, P), (WAITS, C), (NONE, S), (AWAY, D)),
    "sync of an old generation": ((UNKNOWN, E), (ILLEGAL, P), (ILLEGAL, C), (ILLEGAL, S), (AWAY, D)),
    "sync of a stranger": ((UNKNOWN, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S), (AWAY, D)),
    "heartbeat": ((UNKNOWN, E), (REBALANCE, P), (NONE, C), (NONE, S), (AWAY, D)),
    "heartbeat of an old generation": ((UNKNOWN, E), (ILLEGAL, P), (ILLEGAL, C), (ILLEGAL, S), (AWAY, D)),
    "heartbeat of a stranger": ((UNKNOWN, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S), (AWAY, D)),
    "leave": ((UNKNOWN, E), (NONE, C), (NONE, E), (NONE, E), (AWAY, D)),
    "leave of a stranger": ((UNKNOWN, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S), (AWAY, D)),
    "commit": ((UNKNOWN, E), (NONE, P), (REBALANCE, C), (NONE, S), (AWAY, D)),
    "commit without a group": ((NONE, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S), (AWAY, D)),
    "delete": ((NONE, D), (FULL, P), (FULL, C), (FULL, S), (GONE, D)),
    "tick": (("-", E), ("-", P), ("-", C), ("-", S), ("-", D)),
    "resume": (("-", E), ("-", P), ("-", C), ("-", S), ("-", D)),
    "written": (("-", E), ("-", P), ("-", C), ("-", S), ("-", D)),
    "unload": (("-", D), ("-", D), ("-", D), ("-", D), ("-", D)),
}  # fmt: skip


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", list(EVENTS))
def test_every_event_in_every_state_does_what_the_table_says(name: str, state: State) -> None:
    """The answer, and the state after it."""
    scene = SCENES[state]()
    event = EVENTS[name](scene)

    scene.play(event)

    code, after = TABLE[name][list(State).index(state)]
    answer = scene.answers.get(getattr(event, "token", 0), WAITS)
    seen = "-" if not hasattr(event, "token") else WAITS if answer is WAITS else getattr(answer, "code", None)
    if name.startswith("leave"):
        assert answer is not WAITS
        seen = answer.codes[0]
    assert (seen, scene.group.state) == (code, after)


@pytest.mark.parametrize("start", list(State))
@pytest.mark.parametrize("end", list(State))
def test_transition_that_is_not_in_the_table_raises_and_changes_nothing(start: State, end: State) -> None:
    """A mistake of the machine must not become a broken group."""
    scene = SCENES[start]()
    work = Work(scene.group, 0.0, Limits())

    if end in TRANSITIONS[start]:
        work.to(end)
        assert work.group.state is end
    else:
        with pytest.raises(IllegalTransition):
            work.to(end)
        assert work.group is scene.group


# ---- beginning


def test_first_member_waits_for_the_initial_delay() -> None:
    """So that a deploy of many members is one rebalance."""
    scene = empty(Limits(initial_delay_ms=3000))
    first = scene.join()
    scene.pass_time(2.9)
    assert first not in scene.answers

    scene.pass_time(0.2)

    assert scene.joined(first).code == errors.NONE


def test_initial_delay_is_extended_by_joins_up_to_the_rebalance_timeout() -> None:
    """One every two seconds, for ever: the first generation begins all the same."""
    scene = empty(Limits(initial_delay_ms=3000))
    first = scene.join(rebalance_timeout_ms=10_000)
    for _ in range(4):
        scene.pass_time(2.0)
        scene.join(rebalance_timeout_ms=10_000)
        assert first not in scene.answers

    scene.pass_time(2.1)

    assert scene.joined(first).generation == 1
    assert len(scene.joined(first).members) == 5


def test_new_member_must_come_again_with_the_id_it_is_given() -> None:
    """KIP-394: a client that times out and tries again does not leave a ghost behind."""
    scene = empty()
    refused = scene.joined(scene.join(needs_id=True))
    assert (refused.code, refused.member_id, scene.group.members) == (errors.MEMBER_ID_REQUIRED, "m1", {})

    accepted = scene.joined(scene.join("m1", needs_id=True))

    assert (accepted.code, accepted.member_id, accepted.leader) == (errors.NONE, "m1", "m1")


def test_id_that_is_not_used_expires() -> None:
    """And it does not hold up the others longer than a session."""
    scene = pair()
    scene.join(needs_id=True)
    scene.join("m1")
    waiting = scene.join("m2")
    assert waiting not in scene.answers

    scene.pass_time(10.1)

    assert scene.joined(waiting).code == errors.NONE
    assert scene.group.pending == {}


# ---- generations


def test_leader_gets_the_members_and_others_do_not() -> None:
    """Metadata is the leader's business."""
    scene = stable()
    second = scene.join()
    first = scene.join("m1")

    assert scene.joined(first).members == (("m1", None, b"r"), ("m2", None, b"r"))
    assert scene.joined(second).members == ()
    assert scene.joined(first).generation == scene.joined(second).generation == 2
    assert scene.joined(second).leader == "m1"


def test_members_that_do_not_join_in_time_are_left_behind() -> None:
    """The rebalance timeout is the longest that anybody asked for."""
    scene = pair()
    new = scene.join(rebalance_timeout_ms=20_000)
    scene.join("m2")
    for _ in range(7):
        scene.pass_time(9.0)
        scene.heartbeat("m1")

    assert scene.joined(new).code == errors.NONE
    assert set(scene.group.members) == {"m2", "m3"}
    assert scene.heartbeat("m1") == errors.UNKNOWN_MEMBER_ID


def test_assignment_is_told_only_when_it_is_written() -> None:
    """K3."""
    scene = completing()
    token = scene.sync("m1", {"m1": b"all"})
    assert token not in scene.answers
    assert scene.stores[-1].group.members[0].assignment == b"all"

    scene.written()

    assert scene.answers[token] == Synced(errors.NONE, b"all", "consumer", "range")


def test_write_that_fails_sends_everybody_back_to_join() -> None:
    """ZooKeeper away, or a group above the size of a node."""
    scene = completing()
    token = scene.sync("m1", {"m1": b"all"})

    scene.written(errors.GROUP_MAX_SIZE_REACHED)

    assert scene.answers[token].code == errors.GROUP_MAX_SIZE_REACHED
    assert scene.group.state is State.PREPARING
    assert scene.heartbeat("m1") == errors.REBALANCE_IN_PROGRESS


def test_write_of_a_generation_that_is_over_changes_nothing() -> None:
    """The answer of ZooKeeper comes when the group has moved on."""
    scene = completing()
    token = scene.sync("m1", {"m1": b"all"})
    scene.join()
    assert scene.answers[token].code == errors.REBALANCE_IN_PROGRESS

    scene.written()

    assert scene.group.state is State.PREPARING


def test_follower_may_sync_before_the_leader() -> None:
    """And gets its assignment with the leader's write."""
    scene = stable()
    scene.join()
    scene.join("m1")
    follower = scene.sync("m2")
    assert follower not in scene.answers
    scene.sync("m1", {"m2": b"half"})
    scene.written()

    assert scene.answers[follower].assignment == b"half"
    late = scene.sync("m2")
    assert scene.answers[late].assignment == b"half"


def test_member_that_never_syncs_is_removed() -> None:
    """It heartbeats, but does not ask for its assignment: others must not wait for ever."""
    scene = stable()
    scene.join()
    scene.join("m1")
    scene.sync("m1", {"m1": b"x"})
    scene.written()
    for _ in range(7):
        scene.pass_time(9.0)
        scene.heartbeat("m1")
        scene.heartbeat("m2")

    assert set(scene.group.members) == {"m1"}


def test_sync_with_another_protocol_is_refused() -> None:
    """KIP-559."""
    scene = completing()

    wrong_name = scene.sync("m1", protocol="roundrobin")
    wrong_type = scene.sync("m1", protocol_type="connect")

    assert scene.answers[wrong_name].code == scene.answers[wrong_type].code == errors.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        ([("a", "b"), ("a", "b")], "a"),
        ([("a", "b"), ("b", "a"), ("b",)], "b"),
        ([("a", "b"), ("b", "a")], "a"),
        ([("x", "b"), ("y", "b")], "b"),
        ([("cooperative-sticky", "range"), ("range",)], "range"),
    ],
)
def test_protocol_with_most_votes_among_the_common_ones_is_chosen(
    preferences: list[tuple[str, ...]], chosen: str
) -> None:
    """Of equals the eldest member's favourite, so that two coordinators would choose alike."""
    scene = empty(Limits(initial_delay_ms=100))
    for names in preferences:
        scene.join(protocols=tuple((name, b"") for name in names))
    scene.pass_time(1)

    assert scene.group.protocol == chosen


def test_member_without_a_common_protocol_is_refused() -> None:
    """Also one of another protocol type."""
    scene = stable()

    other = scene.joined(scene.join(protocols=(("sticky", b""),)))
    connect = scene.joined(scene.join(protocol_type="connect"))
    nothing = scene.joined(scene.join(protocols=()))

    assert other.code == connect.code == nothing.code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert scene.group.state is State.STABLE


def test_lone_member_may_change_its_protocol() -> None:
    """Nobody else has to speak it."""
    scene = stable()

    again = scene.joined(scene.join("m1", protocols=(("sticky", b"s"),)))

    assert (again.code, again.protocol) == (errors.NONE, "sticky")


def test_follower_that_asks_again_gets_what_it_has() -> None:
    """A lost answer is no reason to disturb the others; new metadata is."""
    scene = pair()

    same = scene.joined(scene.join("m2"))
    assert (same.code, same.generation, scene.group.state) == (errors.NONE, 2, State.STABLE)

    changed = scene.join("m2", protocols=(("range", b"other"),))
    assert changed not in scene.answers
    assert scene.group.state is State.PREPARING


def test_join_that_is_repeated_answers_the_first_one_too() -> None:
    """Answers leave in the order of requests: one without an answer would block its connection."""
    scene = preparing()
    again = scene.join("m2")

    first = next(token for token, body in scene.answers.items() if getattr(body, "member_id", "") == "m2")
    assert scene.answers[first].code == errors.REBALANCE_IN_PROGRESS
    assert again not in scene.answers


# ---- silence


def test_silent_member_is_removed_after_its_session() -> None:
    """And the others rebalance."""
    scene = pair()
    scene.pass_time(9.0)
    assert scene.heartbeat("m1") == errors.NONE
    scene.pass_time(1.5)

    assert set(scene.group.members) == {"m1"}
    assert scene.heartbeat("m1") == errors.REBALANCE_IN_PROGRESS


def test_waiting_members_are_not_silent() -> None:
    """Who waits for a slow one to join is not expired meanwhile."""
    scene = pair()
    new = scene.join()
    waiting = scene.join("m2")
    for _ in range(5):
        scene.pass_time(9.0)
        scene.heartbeat("m1")
    assert waiting not in scene.answers
    scene.join("m1")

    assert scene.joined(waiting).code == scene.joined(new).code == errors.NONE


def test_silence_while_the_coordinator_was_away_does_not_count() -> None:
    """K7: a broker that slept gives its members a new session."""
    scene = pair()
    scene.now += 60
    scene.play(Resume())
    scene.play(Tick())
    assert set(scene.group.members) == {"m1", "m2"}

    scene.pass_time(10.1)

    assert scene.group.state is State.EMPTY


def test_group_becomes_empty_with_a_written_generation() -> None:
    """Its successor must not wake up with ghosts."""
    scene = pair()

    assert scene.leave(("m1", None), ("m2", None), ("m2", None), ("x", None)) == (0, 0, UNKNOWN, UNKNOWN)

    assert (scene.group.state, scene.group.generation) == (State.EMPTY, 3)
    assert scene.stores[-1].group.members == ()
    assert next_deadline(scene.group) is None


def test_leader_that_leaves_is_replaced() -> None:
    """By a member that joined."""
    scene = pair()
    scene.leave(("m1", None))

    answer = scene.joined(scene.join("m2"))

    assert (answer.leader, answer.members) == ("m2", (("m2", None, b"r"),))


def test_who_leaves_while_waiting_is_answered() -> None:
    """Both a join and a sync."""
    scene = preparing()
    waiting = max(token for token in range(1, scene._tokens + 1) if token not in scene.answers)
    scene.leave(("m2", None))
    assert scene.joined(waiting).code == UNKNOWN

    scene = completing()
    waiting = scene.sync("m1")
    scene.leave(("m1", None))
    assert scene.answers[waiting].code in (UNKNOWN, REBALANCE)


# ---- size


def test_full_group_refuses_new_members_and_keeps_old_ones() -> None:
    """group.max.size."""
    scene = Scene(Limits(initial_delay_ms=0, max_size=2))
    scene.join()
    scene.join()
    scene.join("m1")
    assign(scene)

    assert scene.joined(scene.join()).code == errors.GROUP_MAX_SIZE_REACHED
    assert scene.group.state is State.STABLE
    again = scene.join("m1")
    scene.join("m2")
    assert scene.joined(again).code == errors.NONE


# ---- static members


def _static(scene: Scene, name: str, member_id: str = "", **fields: Any) -> int:
    return scene.join(member_id, instance_id=name, needs_id=True, **fields)


def _static_pair() -> Scene:
    scene = empty()
    _static(scene, "a")
    _static(scene, "b")
    _static(scene, "a", "m1")
    assign(scene)
    return scene


def test_static_member_needs_no_id_first() -> None:
    """Its name is its own."""
    scene = empty()

    assert scene.joined(_static(scene, "a")).code == errors.NONE


def test_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    """KIP-345; the new id is written before it is told."""
    scene = _static_pair()
    back = _static(scene, "b")
    assert back not in scene.answers
    scene.written()

    answer = scene.joined(back)
    assert (answer.code, answer.generation, scene.group.state) == (errors.NONE, 2, State.STABLE)
    assert answer.member_id not in ("m1", "m2")
    token = scene.sync(answer.member_id, instance_id="b")
    assert scene.answers[token].assignment == b"m2"


def test_former_id_of_a_static_member_is_fenced() -> None:
    """Two processes with one name: the older one must stop."""
    scene = _static_pair()
    _static(scene, "b")
    scene.written()

    assert scene.heartbeat("m2", instance_id="b") == errors.FENCED_INSTANCE_ID
    assert scene.joined(_static(scene, "b", "m2")).code == errors.FENCED_INSTANCE_ID
    token = scene.sync("m2", instance_id="b")
    assert scene.answers[token].code == errors.FENCED_INSTANCE_ID
    assert scene.leave(("m2", "b")) == (errors.FENCED_INSTANCE_ID,)


def test_static_leader_that_restarts_is_told_to_skip_the_assignment() -> None:
    """KIP-814: it leads, it sees the members, and leaves the assignment alone."""
    scene = _static_pair()
    back = _static(scene, "a")
    scene.written()

    answer = scene.joined(back)
    assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, answer.member_id, 2)


def test_static_leader_with_an_old_client_does_not_take_itself_for_the_leader() -> None:
    """JoinGroup below version 9 cannot say `skip`."""
    scene = _static_pair()
    back = _static(scene, "a", takes_skip=False)
    scene.written()

    answer = scene.joined(back)
    assert (answer.skip_assignment, answer.leader, answer.members) == (False, "m1", ())


def test_static_member_that_is_away_keeps_its_place_for_its_session() -> None:
    """A rebalance meanwhile does not throw it out; its silence does."""
    scene = _static_pair()
    new = scene.join()
    _static(scene, "a", "m1")
    for _ in range(7):
        if new in scene.answers:
            break
        scene.heartbeat("m2", instance_id="b")
        scene.pass_time(9.0)
    assert scene.joined(new).code == errors.NONE
    assert "m2" in scene.group.members

    scene.pass_time(10.1)
    assert "m2" not in scene.group.members


def test_static_member_that_restarts_in_a_rebalance_joins_it() -> None:
    """And its former self is told."""
    scene = _static_pair()
    scene.join()
    former = _static(scene, "b", "m2")
    back = _static(scene, "b")
    assert scene.joined(former).code == errors.FENCED_INSTANCE_ID
    _static(scene, "a", "m1")

    assert scene.joined(back).code == errors.NONE


def test_tool_removes_a_static_member_by_its_name() -> None:
    """KIP-345's admin call has no member id."""
    scene = _static_pair()

    assert scene.leave(("", "b"), ("", "nobody")) == (errors.NONE, UNKNOWN)
    assert set(scene.group.members) == {"m1"}


def test_write_of_a_static_members_new_id_that_fails_is_told() -> None:
    """It tries again."""
    scene = _static_pair()
    back = _static(scene, "b")

    scene.written(errors.COORDINATOR_NOT_AVAILABLE)

    assert scene.joined(back).code == errors.COORDINATOR_NOT_AVAILABLE
    again = _static(scene, "b")
    scene.written()
    assert scene.joined(again).code == errors.NONE


# ---- another coordinator


def test_K4_restored_group_goes_on_without_a_rebalance() -> None:
    """The successor of a dead broker reads the node; members keep generation and assignment."""
    scene = pair()
    group = restore(scene.stores[-1].group, now=500.0)
    heir = Scene(group=group)
    heir.now = 500.0

    assert (heir.group.state, heir.group.generation) == (State.STABLE, 2)
    assert heir.heartbeat("m1") == heir.heartbeat("m2") == errors.NONE
    token = heir.sync("m2")
    assert heir.answers[token].assignment == b"m2"
    heir.pass_time(10.1)
    assert heir.group.state is State.EMPTY


def test_unload_answers_everybody_who_waits() -> None:
    """With where to go."""
    scene = preparing()
    waiting = max(token for token in range(1, scene._tokens + 1) if token not in scene.answers)

    scene.play(Unload(errors.NOT_COORDINATOR))

    assert scene.joined(waiting).code == errors.NOT_COORDINATOR
