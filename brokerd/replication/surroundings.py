"""What a partition must know of the world to play its role: time, the lease, who is fit to be in sync.

One object for all partitions of a broker, so that a change (a broker that leaves, a lease that ends) needs no walk over
them. `ALONE` is the world of a broker without a cluster, for tests and tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from brokerd.partition import Partition


def _nothing(partition: Partition) -> None:
    """Nobody cares."""


@attrs.define(eq=False)
class Surroundings:
    """`now` is on a clock that counts sleep too (A14); `propose` asks for a look at a partition's ISR, soon."""

    now: Callable[[], float]
    lease_valid: Callable[[], bool]
    lag_seconds: float
    """replica.lag.time.max.ms"""
    horizon_seconds: float
    """A16 (b): 2 x replica.fetch.wait.max.ms"""
    registered: Mapping[int, int] = attrs.field(factory=dict)
    """Epochs of the registered brokers."""
    fit: Mapping[int, int] = attrs.field(factory=dict)
    """The same without those that are draining: who may be in sync."""
    propose: Callable[[Partition], None] = _nothing
    hold: Callable[[Partition], None] = _nothing
    """The partition could commit more but for the write gate: `advance` is to be called again soon."""
    reread_brokers: Callable[[], None] = lambda: None
    """A broker is heard of that is newer than what we know: its registration is to be read again (A22)."""


ALONE = Surroundings(now=lambda: 0.0, lease_valid=lambda: True, lag_seconds=30.0, horizon_seconds=1.0)
