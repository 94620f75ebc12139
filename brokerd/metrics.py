"""What the broker counts while it works: plain integers, so that counting costs nothing worth measuring.

Nothing is formatted or looked up here; `exposition.py` turns the counts into Prometheus text when somebody asks. What
lives elsewhere (connections, buffers, a flusher's totals) is not copied: its owner is asked at scrape time (`watch`).

Everything here is used on the reactor thread only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokerd.durations import Durations
from brokerd.metric_families import WATCHED
from brokerd.topic_counts import TopicCounts

if TYPE_CHECKING:
    from brokerd.turn_times import TurnTimes
    from zk_schema.session import SessionState


class Metrics:
    """Counters of one broker."""

    def __init__(self) -> None:
        self.requests: defaultdict[int, int] = defaultdict(int)
        """Requests by API key, whatever their version."""
        self.versions: defaultdict[tuple[int, int], int] = defaultdict(int)
        """Requests by API key and version, as far as `received` was told."""
        self.errors: defaultdict[tuple[int, int], int] = defaultdict(int)
        """Error codes in answers, by API key and code."""
        self.durations: defaultdict[int, Durations] = defaultdict(Durations)
        """From the request to its answer, by API key; long polls and acks=all wait within."""
        self.flushes = Durations()
        self.topics: dict[str, TopicCounts] = {}
        self.others = TopicCounts()
        """Deleted topics, and failures of topics that are not in `topics`: a name from the network makes no entry."""
        self.zookeeper: defaultdict[str, int] = defaultdict(int)
        """How often the session was in each state, by the state's name."""
        self.watched: dict[str, Callable[[], float]] = {}
        self.turns: TurnTimes | None = None

    # ---- requests

    def received(self, api_key: int, version: int) -> None:
        """A request with a version that we serve."""
        self.requests[api_key] += 1
        self.versions[api_key, version] += 1

    def answered(self, api_key: int, seconds: float) -> None:
        """The answer was handed to the connection."""
        self.durations[api_key].add(seconds)

    def request_failed(self, api_key: int, code: int) -> None:
        """An answer, or a partition's part of one, has an error code."""
        self.errors[api_key, code] += 1

    # ---- topics

    def appended(self, topic: str, size: int, records: int) -> None:
        """A batch was queued for a partition."""
        try:
            counts = self.topics[topic]
        except KeyError:
            counts = self.topics[topic] = TopicCounts()
        counts.produces += 1
        counts.bytes_in += size
        counts.messages_in += records

    def fetched(self, topic: str, size: int) -> None:
        """A partition's part of a fetch was answered, perhaps with nothing, or with an error (see `fetch_failed`)."""
        counts = self.topics.get(topic)
        if counts is None:
            counts = self.others
            if size:
                counts = self.topics[topic] = TopicCounts()
        counts.fetches += 1
        counts.bytes_out += size

    def produce_failed(self, topic: str, rejected: int = 0) -> None:
        """A batch of `rejected` bytes was refused."""
        counts = self.topics.get(topic, self.others)
        counts.produces += 1
        counts.failed_produces += 1
        counts.bytes_rejected += rejected

    def fetch_failed(self, topic: str) -> None:
        """A partition's part of a fetch has an error; `fetched` counts its answer as well, with 0 bytes."""
        self.topics.get(topic, self.others).failed_fetches += 1

    def forget_topic(self, topic: str) -> None:
        """The topic is gone: its series end, the broker's totals keep what was counted."""
        counts = self.topics.pop(topic, None)
        if counts is not None:
            self.others.add(counts)

    # ---- the rest

    def flushed(self, seconds: float) -> None:
        """A flush of a log, or of a whole log dir, took so long."""
        self.flushes.add(seconds)

    def session_changed(self, state: SessionState) -> None:
        """Listener for the ZooKeeper session: `session.add_listener(metrics.session_changed)`."""
        self.zookeeper[state.name] += 1

    def watch(self, name: str, value: Callable[[], float]) -> None:
        """Asks `value` at every scrape for the metric `name`, one of `metric_families.WATCHED` (else KeyError)."""
        self.watched[WATCHED[name].name] = value
