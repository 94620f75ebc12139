"""Hundreds of seeded histories of a group with faults, and the same with one rule switched off: then it must go wrong.

BARNABAS_SIMULATED_HISTORIES=5000 runs more.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from consumer_group.group_session import Life
from consumer_group.ownership import Ownership
from consumer_group.test.model_zookeeper import ModelSession
from consumer_group.test.simulation import Violation, history

HISTORIES = int(os.environ.get("BARNABAS_SIMULATED_HISTORIES", "60"))
CONTROL_HISTORIES = 60


@pytest.mark.timeout(60 + HISTORIES * 2)
def test_any_history_keeps_G1_to_G6() -> None:
    """Pauses, lost answers, sessions that end, kills, joins, leaves: nothing is lost, nobody reads another's."""
    for seed in range(HISTORIES):
        try:
            history(seed, strategy=("range", "roundrobin", "sticky")[seed % 3])
        except Violation as problem:
            pytest.fail(f"seed {seed}: {problem}")


def first_violation(**options: Any) -> str:
    """What goes wrong first."""
    for seed in range(CONTROL_HISTORIES):
        try:
            history(seed, **options)
        except Violation as problem:
            return str(problem)
    return ""


@pytest.mark.timeout(300)
def test_control_without_the_check_of_ids_a_zombie_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """B14: the fence is needed."""
    monkeypatch.setattr(Life, "fence", property(lambda self: []))
    assert first_violation(hostile=1.0, slow=True)[:2] in ("G3", "G4")


@pytest.mark.timeout(300)
def test_control_without_the_lease_two_members_deliver(monkeypatch: pytest.MonkeyPatch) -> None:
    """B19: the lease is needed."""
    monkeypatch.setattr(ModelSession, "lease_valid", lambda self: True)
    assert first_violation().startswith("G2")


@pytest.mark.timeout(300)
def test_control_release_before_commit_reads_again_or_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """B7: commit and release must be one multi."""
    monkeypatch.setattr(
        Ownership,
        "release_multis",
        lambda self, life, written, deletes: [[*life.fence, *deletes], [*life.fence, *written]],
    )
    assert first_violation()[:2] in ("G3", "G4", "G5")
