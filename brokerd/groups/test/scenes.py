"""Groups in every state, for the tests of the machine: `Scene` plays events and keeps what came of them."""

from __future__ import annotations

from typing import Any

from brokerd.groups.machine import next_deadline, step
from brokerd.groups.values import (
    Answer,
    Event,
    Group,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Limits,
    State,
    Store,
    Sync,
    Tick,
    Unload,
    Written,
)

RANGE = (("range", b"r"),)


class Scene:
    """One group with a clock that the test moves."""

    def __init__(self, limits: Limits | None = None, group: Group | None = None) -> None:
        self.limits = limits or Limits(initial_delay_ms=0)
        self.group = group or Group("g")
        self.now = 100.0
        self.answers: dict[int, Any] = {}
        self.stores: list[Store] = []
        self._tokens = 0
        self._ids = 0

    def token(self) -> int:
        """A new token."""
        self._tokens += 1
        return self._tokens

    def play(self, event: Event) -> None:
        """One step; every answer must be the first to its token."""
        self.group, effects = step(self.group, event, self.now, self.limits)
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.body
            else:
                self.stores.append(effect)

    def pass_time(self, seconds: float) -> None:
        """Lets time pass, with the ticks that the machine asks for."""
        end = self.now + seconds
        while (deadline := next_deadline(self.group)) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.play(Tick())
        self.now = end

    def join(self, member_id: str = "", **fields: Any) -> int:
        """A join; its token."""
        self._ids += not member_id
        given: dict[str, Any] = {
            "token": self.token(),
            "member_id": member_id,
            "instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "fresh_id": f"m{self._ids}",
            "needs_id": False,
            **fields,
        }
        self.play(Join(**given))
        return int(given["token"])

    def sync(self, member_id: str, assignments: dict[str, bytes] | None = None, **fields: Any) -> int:
        """A sync in the current generation; its token."""
        token = self.token()
        self.play(
            Sync(token, member_id, **{"generation": self.group.generation, **fields}, assignments=assignments or {})
        )
        return token

    def heartbeat(self, member_id: str, **fields: Any) -> int:
        """The code that a heartbeat gets."""
        token = self.token()
        self.play(Heartbeat(token, member_id, **{"generation": self.group.generation, **fields}))
        return int(self.answers[token].code)

    def leave(self, *identities: tuple[str, str | None]) -> tuple[int, ...]:
        """The codes that a leave gets."""
        token = self.token()
        self.play(Leave(token, identities))
        codes: tuple[int, ...] = self.answers[token].codes
        return codes

    def written(self, code: int = 0) -> None:
        """The last write is done."""
        self.play(Written(self.stores[-1].number, code))

    def joined(self, token: int) -> Joined:
        """The answer to a join."""
        answer = self.answers[token]
        assert isinstance(answer, Joined)
        return answer


def empty(limits: Limits | None = None) -> Scene:
    """A group that nobody is in."""
    return Scene(limits)


def preparing() -> Scene:
    """m1 led a stable group; m2 has come, and m1 has not yet heard of it."""
    scene = stable()
    scene.join()
    assert scene.group.state is State.PREPARING
    return scene


def completing() -> Scene:
    """m1 leads a generation that has no assignment yet."""
    scene = empty()
    scene.join()
    assert scene.group.state is State.COMPLETING
    return scene


def stable(**join: Any) -> Scene:
    """m1 has all."""
    scene = empty()
    scene.join(**join)
    scene.sync("m1", {"m1": b"all"})
    scene.written()
    assert scene.group.state is State.STABLE
    return scene


def pair() -> Scene:
    """m1 leads, m2 follows, both have their assignments."""
    scene = stable()
    scene.join()
    scene.join("m1")
    assign(scene)
    return scene


def assign(scene: Scene) -> None:
    """Everybody of a fixed generation gets an assignment that bears its name."""
    leader = scene.group.leader
    assert leader is not None
    for member in scene.group.members:
        scene.sync(member, {key: key.encode() for key in scene.group.members} if member == leader else {})
    scene.written()
    assert scene.group.state is State.STABLE


def dead() -> Scene:
    """Deleted."""
    scene = empty()
    scene.play(Unload())
    assert scene.group.state is State.DEAD
    return scene
