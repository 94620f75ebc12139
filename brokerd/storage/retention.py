"""Which of the oldest segments may go: by age, by size, or because the log starts after them. Pure functions."""

from collections.abc import Iterable
from typing import NamedTuple

from brokerd.topic_config import TopicConfig

DELETE = "delete"


class Candidate(NamedTuple):
    """A segment as retention sees it."""

    end_offset: int
    size: int
    age_ms: int


def removable(
    segments: Iterable[Candidate], size: int, config: TopicConfig, log_start: int, high_watermark: int
) -> tuple[int, int]:
    """(how many of the oldest segments go, how many of the `size` bytes stay). Looks at no more than it must.

    A segment goes only as a whole and never beyond the high watermark. An empty one never goes. The last segment
    may go as well, if all its records are too old: the caller then begins a new one.
    """
    by_policy = DELETE in config.cleanup_policy
    count = 0
    for segment in segments:
        if segment.end_offset > high_watermark or not segment.size:
            break
        below_start = segment.end_offset <= log_start
        too_old = by_policy and config.retention_ms >= 0 and segment.age_ms > config.retention_ms
        too_much = by_policy and config.retention_bytes >= 0 and size - segment.size >= config.retention_bytes
        if not (below_start or too_old or too_much):
            break
        size -= segment.size
        count += 1
    return count, size
