"""Settings of brokers, changed through ZooKeeper while they run.

A change is worked out from what the node holds, and written at the version that was read: two clients that change
different settings of one broker at the same time both succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import spawn
from brokerd.cluster.writing import Again, Writer
from zk_schema import paths
from zk_schema.nodes import BadNode, ConfigChange, EntityConfig
from zk_schema.operations import ANY_VERSION, BadVersion, Create, NodeExists, NoNode, Operation, Set

if TYPE_CHECKING:
    from brokerd.cluster.cluster_state import ClusterState
    from zk_schema.session import Session

Change = Callable[[Mapping[str, str]], dict[str, str]]
"""The settings wanted, of the settings now; raises KafkaError for what is not possible."""


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

    def alter(self, name: str, change: Change) -> Deferred[None]:
        """Changes the settings of one broker, or of all (`<default>`); fires when this broker has taken them.
        RequestTimedOut, and what `change` raises.
        """
        return spawn(self._alter(name, change))

    async def _alter(self, name: str, change: Change) -> None:
        await self._writer.registered()

        async def write() -> dict[str, str]:
            now, version = await self._read(name)
            wanted = change(now)
            if wanted != now:
                await self._write(EntityConfig(paths.broker_config(name), wanted), version)
            return wanted

        self._known.set_broker_settings(name, await self._writer.attempt(write))
        self._published()
        await self._writer.until(self._settled)

    async def _read(self, name: str) -> tuple[dict[str, str], int | None]:
        """What the node holds and its version; None: there is no node. One that cannot be read is replaced."""
        path = paths.broker_config(name)
        try:
            data, stat = await self._session.get(path)
        except NoNode:
            return {}, None
        try:
            return dict(EntityConfig.decode(path, data).overrides), stat.version
        except BadNode:
            return {}, stat.version

    async def _write(self, config: EntityConfig, version: int | None) -> None:
        notice = ConfigChange(config.path.removeprefix("/config/"))
        settings: Operation = Set(config.path, config.encode(), ANY_VERSION if version is None else version)
        if version is None:
            settings = Create(config.path, config.encode())
        try:
            await self._session.multi(
                [self._writer.fence(), settings, Create(notice.prefix, notice.encode(), sequence=True)]
            )
        except (BadVersion, NodeExists, NoNode) as problem:
            raise Again from problem
