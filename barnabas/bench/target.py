"""A broker under measurement: its address and, if it runs on this machine, its process and the CPU it used.

The process is the one that listens on the address's port, unless its id is given. Time of all its threads counts
(a JVM's collector, a flusher), and of its children.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import psutil

from barnabas.errors import UserError


@attrs.frozen(slots=True)
class Target:
    """`topic_config` is what the topics of a run get at this broker (ours may need `durability`)."""

    name: str
    bootstrap: str
    pid: int | None = None
    topic_config: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first bootstrap server."""
        return split_address(self.bootstrap)

    def cpu_seconds(self) -> float | None:
        """CPU time of the broker so far; None if its process is not on this machine."""
        if self.pid is None:
            return None
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.NoSuchProcess:
            raise UserError(f"the broker at {self.bootstrap} (process {self.pid}) is gone") from None
        return float(times.user + times.system + times.children_user + times.children_system)

    def resident_bytes(self) -> int | None:
        """Memory in use by the broker; None if its process is not on this machine."""
        return None if self.pid is None else int(psutil.Process(self.pid).memory_info().rss)


def split_address(bootstrap: str) -> tuple[str, int]:
    """Host and port of the first address in a list of `host:port`."""
    host, _, port = bootstrap.split(",")[0].strip().rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"{bootstrap!r} is no address: it must look like localhost:9092")
    return host.strip("[]"), int(port)


def listening_pid(bootstrap: str) -> int | None:
    """The process on this machine that listens on the address's port, if it can be seen."""
    _, port = split_address(bootstrap)
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return None
    found = {one.pid for one in connections if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid}
    return found.pop() if len(found) == 1 else None
