"""Which brokers get the replicas of new partitions: leaders and replicas spread evenly, racks kept apart. Pure.

The brokers stand in a ring in which neighbours are of different racks where possible. Partition i has its leader at
place start + i; its followers come from the places after it, further away with every round of the ring, so that the
followers of one broker's partitions are spread over all others and a dead broker's load is too. A rack gets a second
replica of a partition only when every rack has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest


def place(
    brokers: Mapping[int, str | None], partitions: Sequence[int], factor: int, start: int
) -> dict[int, tuple[int, ...]]:
    """Replicas by partition, the preferred leader first. `brokers` are ids with their racks; at least `factor` of
    them. `start` is where the ring begins: the number of partitions placed before, so that many small topics are
    spread as evenly as one large one.
    """
    ring = _ring(brokers)
    return {
        index: _replicas(ring, brokers, factor, start + place, (start + place) // len(ring))
        for place, index in enumerate(partitions)
    }


def _ring(brokers: Mapping[int, str | None]) -> list[int]:
    """Brokers with the racks taking turns; brokers without a rack are racks of their own."""
    racks: dict[object, list[int]] = {}
    for broker in sorted(brokers):
        rack = brokers[broker]
        racks.setdefault((rack,) if rack is not None else broker, []).append(broker)
    turns = zip_longest(*sorted(racks.values()))
    return [broker for turn in turns for broker in turn if broker is not None]


def _replicas(
    ring: Sequence[int], brokers: Mapping[int, str | None], factor: int, place: int, round_: int
) -> tuple[int, ...]:
    count = len(ring)
    leader = ring[place % count]
    shift = round_ % max(count - 1, 1)
    others = [ring[(place + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    chosen = [leader]
    while len(chosen) < factor:
        used = {brokers[one] for one in chosen if brokers[one] is not None}
        left = [one for one in others if one not in chosen]
        if {brokers[one] for one in left if brokers[one] is not None} <= used:
            used = set()
        chosen.append(next(one for one in left if brokers[one] is None or brokers[one] not in used))
    return tuple(chosen)
