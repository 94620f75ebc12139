"""Many durations in little memory: counts in buckets of a quarter octave, for quantiles of the recent past.

A bucket is at most a quarter wider than its lower bound, so a quantile is right to an eighth. Two windows of a minute
take turns when somebody reads: whoever reads every minute or more often, alone or not, gets the last one to two
minutes; whoever reads seldom gets the time since the reading before the last.
"""

from __future__ import annotations

from collections.abc import Sequence

WINDOW_SECONDS = 60.0
_BUCKETS = 4 * 40
"""Up to 2^40 microseconds, twelve days; longer ones count as that."""


def bucket_of(microseconds: int) -> int:
    """The octave in steps of four, and the two bits after the highest one."""
    if microseconds < 4:
        return max(microseconds, 0)  # a wall clock may have been set back meanwhile
    bits = microseconds.bit_length()
    return min((bits - 2 << 2) | (microseconds >> bits - 3) & 3, _BUCKETS - 1)


def bucket_middle(bucket: int) -> float:
    """The middle of a bucket, in microseconds."""
    if bucket < 4:
        return float(bucket)
    octave, step = bucket >> 2, bucket & 3
    width = 1 << octave - 1
    return (4 + step) * width + (width - 1) / 2


class Durations:
    """Count and sum since the start, and quantiles of the recent past."""

    __slots__ = ("_before", "_now", "_since", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self._now = [0] * _BUCKETS
        self._before = [0] * _BUCKETS
        self._since = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.seconds += seconds
        self._now[bucket_of(int(seconds * 1e6))] += 1

    def turn_window(self, now: float) -> None:
        """Lets the older window go once the newer one is a minute old. Called by whoever reads, before `quantiles`."""
        if now - self._since >= WINDOW_SECONDS:
            self._since = now
            self._before, self._now = self._now, [0] * _BUCKETS

    def quantiles(self, wanted: Sequence[float]) -> list[float]:
        """Seconds for each of `wanted` (ascending, 0 to 1); nan for each if there was nothing."""
        counts = [now + before for now, before in zip(self._now, self._before, strict=True)]
        total = sum(counts)
        if not total:
            return [float("nan")] * len(wanted)
        found: list[float] = []
        seen, bucket = counts[0], 0
        for share in wanted:
            while seen < share * total:
                bucket += 1
                seen += counts[bucket]
            found.append(bucket_middle(bucket) / 1e6)
        return found
