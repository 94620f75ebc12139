"""Settings of brokers, changed through ZooKeeper while they run.

A change is worked out from what the node holds, and written at the version that was read: two clients that change
different settings of one broker at the same time both succeed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import spawn
from brokerd.cluster.writing import Again, Alteration, Writer
from zk_schema import paths
from zk_schema.nodes import ConfigChange
from zk_schema.operations import BadVersion, Create, NodeExists, NoNode

if TYPE_CHECKING:
    from brokerd.cluster.cluster_state import ClusterState
    from zk_schema.session import Session


class BrokerSettings:
    """What handlers ask for. `published` makes what was learned hold, `settled` says whether it does everywhere."""

    def __init__(
        self,
        session: Session,
        known: ClusterState,
        writer: Writer,
        *,
        published: Callable[[], None],
        settled: Callable[[], bool],
    ) -> None:
        self._session = session
        self._known = known
        self._writer = writer
        self._published = published
        self._settled = settled

    def alter(self, name: str, change: Alteration) -> Deferred[None]:
        """Changes the settings of one broker, or of all (`<default>`); fires when this broker has taken them.
        RequestTimedOut, and what `change` raises.
        """
        return spawn(self._alter(name, change))

    async def _alter(self, name: str, change: Alteration) -> None:
        await self._writer.registered()
        notice = ConfigChange(f"brokers/{name}")

        async def write() -> dict[str, str]:
            wanted, settings = await self._writer.altering(paths.broker_config(name), change)
            if settings is not None:
                tell = Create(notice.prefix, notice.encode(), sequence=True)
                try:
                    await self._session.multi([self._writer.fence(), settings, tell])
                except (BadVersion, NodeExists, NoNode) as problem:
                    raise Again from problem
            return wanted

        self._known.set_broker_settings(name, await self._writer.attempt(write))
        self._published()
        await self._writer.until(self._settled)
