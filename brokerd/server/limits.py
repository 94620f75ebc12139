"""What strangers may take from us: connections in all, connections from one address, bytes held for them."""

from __future__ import annotations


class Limits:
    """Counts of one broker over all its listeners. `max_per_ip` 0 refuses everybody, as in Kafka."""

    def __init__(self, max_connections: int, max_per_ip: int, max_buffered_bytes: int) -> None:
        self.set(max_connections, max_per_ip, max_buffered_bytes)
        self.connections = 0
        self.buffered_bytes = 0
        self.refused = 0
        self._by_host: dict[str, int] = {}

    def set(self, max_connections: int, max_per_ip: int, max_buffered_bytes: int) -> None:
        """New limits; what is admitted stays."""
        self.max_connections = max_connections
        self.max_per_ip = max_per_ip
        self.max_buffered_bytes = max_buffered_bytes

    def admit(self, host: str) -> str | None:
        """Counts a new connection, or says why it is refused. What was admitted must be released."""
        mine = self._by_host.get(host, 0)
        if self.connections >= self.max_connections:
            self.refused += 1
            return f"max.connections ({self.max_connections}) is reached"
        if mine >= self.max_per_ip:
            self.refused += 1
            return f"max.connections.per.ip ({self.max_per_ip}) is reached"
        self.connections += 1
        self._by_host[host] = mine + 1
        return None

    def release(self, host: str) -> None:
        """An admitted connection is gone."""
        self.connections -= 1
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]

    def reserve(self, count: int) -> bool:
        """Counts `count` bytes as held, unless that would be too many."""
        if self.buffered_bytes + count > self.max_buffered_bytes:
            return False
        self.buffered_bytes += count
        return True

    def free(self, count: int) -> None:
        """Reserved bytes are no longer held."""
        self.buffered_bytes -= count
