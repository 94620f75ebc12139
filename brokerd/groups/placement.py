"""Which broker coordinates a group: the leader of one partition of `__consumer_offsets` (K1). Pure.

So election, epochs, draining and spreading of coordinators are those of any partition, and Kafka's tools, which compute
the partition themselves, agree.
"""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
MAX_REPLICATION_FACTOR = 3

_INT_MIN = -(2**31)


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, wrapped to 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for place in range(0, len(units), 2):
        value = (31 * value + (units[place] << 8 | units[place + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def slot_of(group_id: str, slots: int) -> int:
    """The partition of `__consumer_offsets` that a group belongs to; Kafka takes the least integer for 0."""
    value = java_hash(group_id)
    return (0 if value == _INT_MIN else abs(value)) % slots
