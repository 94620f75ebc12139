"""What the controller takes away in ZooKeeper because nobody needs it any more (A20, A29).

Changes that everybody has read long ago, and tombstones of topics that were deleted 30 days ago. A tombstone is the
only reason to delete a topic's data, so it has to outlive every absence of a broker that holds some. A broker that
comes back later keeps such logs and does not serve them; its log names them.
"""

from __future__ import annotations

import contextlib
import time

from brokerd.cluster.cluster_state import ClusterState
from zk_schema import paths
from zk_schema.nodes import uuid_bytes
from zk_schema.operations import NoNode
from zk_schema.session import Session

CHANGES_KEPT = 1000
CHANGES_KEPT_MS = 15 * 60 * 1000
TOMBSTONES_KEPT_MS = 30 * 24 * 3600 * 1000
AT_A_TIME = 200


class Purger:
    """Takes away some at a time; the rest in the next rounds."""

    def __init__(self, session: Session, known: ClusterState) -> None:
        self._session = session
        self._known = known
        self._last_tombstone = ""

    async def purge(self) -> None:
        """One round."""
        await self._changes(paths.CHANGES, CHANGES_KEPT)
        await self._changes(paths.CONFIG_CHANGES, 0)
        await self._tombstones()

    async def _changes(self, parent: str, kept: int) -> None:
        """Oldest first."""
        names = sorted(await self._session.children(parent))
        for name in names[: max(len(names) - kept, 0)][:AT_A_TIME]:
            if not await self._deleted(f"{parent}/{name}", CHANGES_KEPT_MS):
                return

    async def _tombstones(self) -> None:
        """Their names say nothing of their age, so every round looks at the ones after those of the round before."""
        names = sorted(await self._session.children(paths.DELETED))
        some = [name for name in names if name > self._last_tombstone][:AT_A_TIME]
        self._last_tombstone = some[-1] if len(some) == AT_A_TIME else ""
        alive = {topic.topic_id for topic in self._known.topics.values()}
        for name in some:
            try:
                topic_id = uuid_bytes(name)
            except ValueError:
                continue  # somebody else's
            if topic_id not in alive and await self._deleted(paths.tombstone(name), TOMBSTONES_KEPT_MS):
                self._known.tombstones.discard(topic_id)

    async def _deleted(self, path: str, kept_ms: int) -> bool:
        """Deletes a node that is old enough; False if it is not."""
        stat = await self._session.exists(path)
        if stat is not None and stat.ctime_ms > int(time.time() * 1000) - kept_ms:
            return False
        with contextlib.suppress(NoNode):
            await self._session.delete(path)
        return True
