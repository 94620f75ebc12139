"""What retention takes away."""

from brokerd.storage.retention import Candidate, removable
from brokerd.topic_config import TopicConfig

SEGMENTS = [Candidate(10, 100, 3000), Candidate(20, 100, 2000), Candidate(30, 100, 1000)]
KEEP = TopicConfig(retention_ms=-1, retention_bytes=-1)


def count(config: TopicConfig, *, log_start: int = 0, high_watermark: int = 30) -> int:
    """How many of SEGMENTS go."""
    return removable(SEGMENTS, 300, config, log_start, high_watermark)[0]


def test_nothing_goes_without_limits() -> None:
    """-1 is for ever."""
    assert count(KEEP) == 0


def test_age_counts_from_the_newest_record() -> None:
    """Older than the limit, not equal."""
    assert count(TopicConfig(retention_ms=2000)) == 1
    assert count(TopicConfig(retention_ms=1999)) == 2


def test_all_records_too_old_empties_the_log() -> None:
    """The last segment goes as well."""
    assert count(TopicConfig(retention_ms=0)) == 3


def test_size_keeps_at_least_the_limit() -> None:
    """A segment goes only if what stays is no less than the limit."""
    assert count(TopicConfig(retention_ms=-1, retention_bytes=200)) == 1
    assert count(TopicConfig(retention_ms=-1, retention_bytes=201)) == 0


def test_nothing_beyond_the_high_watermark_goes() -> None:
    """Consumers have not seen it yet."""
    assert count(TopicConfig(retention_ms=0), high_watermark=19) == 1


def test_log_start_frees_whole_segments() -> None:
    """Also where the policy is to compact."""
    compact = TopicConfig(cleanup_policy=("compact",), retention_ms=0)
    assert count(compact) == 0
    assert count(compact, log_start=19) == 1
    assert count(compact, log_start=20) == 2
