"""What a broker keeps on its disk of its life in ZooKeeper: its last session and the highest transaction that it saw.

The directory is locked, so whoever reads this is the same broker in a later life: an ephemeral node of that session is
its own and may be deleted at once instead of waited out (A8). A ZooKeeper that is behind the transaction was restored
from an older time (F8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

SESSION = "zookeeper.session"
ZXID = "zookeeper.zxid"


class Notes(Protocol):
    """Where it is kept: a log directory."""

    def recall(self, name: str) -> str | None:
        """A text that was stored, or None."""

    def remember(self, notes: Mapping[str, str]) -> None:
        """Stores texts durably."""


@attrs.frozen
class LastSession:
    """The defaults are for a broker that never had a session."""

    session_id: int = 0
    zxid: int = 0


def read(notes: Notes) -> LastSession:
    """The stored session. What cannot be understood counts as none: then a node of it is waited out."""
    try:
        return LastSession(int(notes.recall(SESSION) or "0", 16), int(notes.recall(ZXID) or "0", 16))
    except ValueError:
        return LastSession()


def write(notes: Notes, last: LastSession) -> None:
    """Stores it durably."""
    notes.remember({SESSION: f"{last.session_id:x}", ZXID: f"{last.zxid:x}"})
