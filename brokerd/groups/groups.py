"""All that a broker does for consumer groups, put together; handlers reach it as `broker.groups`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brokerd.groups.catalogue import Catalogue
from brokerd.groups.committed import CommittedOffsets
from brokerd.groups.coordinator import Coordinator
from brokerd.groups.offsets_topic import OffsetsTopic
from brokerd.groups.removal import Removal

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from zk_schema.session import Session


class Groups:
    """Made once per broker. `registered` says whether this broker has roles now; `look` is to be called when that or
    the view of the cluster has changed, `stop` before the ports are closed.
    """

    def __init__(self, reactor: Any, broker: Broker, session: Session, *, registered: Callable[[], bool]) -> None:
        self.topic = OffsetsTopic(broker)
        self.coordinator = Coordinator(reactor, broker, session, registered=registered)
        self.committed = CommittedOffsets(self.coordinator, broker, session)
        self.catalogue = Catalogue(self.coordinator, session)
        retention_ms = broker.config.offsets_retention_minutes * 60_000
        self.removal = Removal(reactor, self.coordinator, self.committed, retention_ms, broker.now_ms)

    def start(self) -> None:
        """Expiry begins."""
        self.removal.start()

    def look(self) -> None:
        """The view or our registration may have changed."""
        self.coordinator.look()

    def stop(self) -> None:
        """Everybody who waits is sent to another broker."""
        self.removal.stop()
        self.coordinator.stop()
