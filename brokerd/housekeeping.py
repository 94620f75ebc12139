"""What a broker does now and then: checkpoints, retention, the note of its ZooKeeper session.

Each job runs in its own interval; one that fails is logged and runs again at the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from kafka_wire.ids import TopicPartition

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.storage.log_dir import LogDir

log = Logger()

REMEMBER_SECONDS = 60.0
PARTITIONS_PER_TURN = 100


class Housekeeping:
    """The jobs. `remember` stores what the broker knows of its session."""

    def __init__(self, reactor: Any, broker: Broker, remember: Callable[[], None]) -> None:
        self._reactor = reactor
        self._broker = broker
        self._storing = False
        self._stopped = False
        config = broker.config
        checkpoint_ms = min(
            config.replica_high_watermark_checkpoint_interval_ms, config.log_flush_offset_checkpoint_interval_ms
        )
        self._jobs: list[tuple[float, Callable[[], object], LoopingCall]] = []
        self._add(checkpoint_ms / 1000, self.checkpoint, "storing checkpoints")
        self._add(config.log_retention_check_interval_ms / 1000, self.retention, "retention")
        self._add(REMEMBER_SECONDS, remember, "noting the session")

    def _add(self, seconds: float, job: Callable[[], object], what: str) -> None:
        def run() -> None:
            try:
                job()
            except Exception:
                log.failure("{what} failed", what=what)

        call = LoopingCall(run)
        call.clock = self._reactor
        self._jobs.append((seconds, job, call))

    def start(self) -> None:
        """Begins; every job runs first after its interval."""
        for seconds, _, call in self._jobs:
            call.start(seconds, now=False)

    def stop(self) -> None:
        """Ends."""
        self._stopped = True
        for _, _, call in self._jobs:
            if call.running:
                call.stop()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Of every partition here."""
        return {tp: partition.high_watermark for tp, partition in self._broker.partitions.items()}

    def checkpoint(self) -> None:
        """High watermarks, log starts and recovery points, stored in a thread; a job still at it is not overtaken."""
        if self._storing:
            return
        self._storing = True
        store = self._broker.logs.checkpoint_job(self.high_watermarks())

        def stored(failed: list[tuple[LogDir, OSError]]) -> None:
            for place, problem in failed:
                self._broker.logs.dir_failed(place, problem)

        def done(_: None) -> None:
            self._storing = False

        work = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), store).addCallback(stored)
        work.addErrback(lambda failure: log.failure("storing checkpoints failed", failure)).addBoth(done)

    def retention(self) -> None:
        """Drops what is older or larger than its topic allows; some partitions per turn of the reactor."""
        self._retain(iter(list(self._broker.logs.logs)))

    def _retain(self, left: Iterator[TopicPartition]) -> None:
        some = list(islice(left, PARTITIONS_PER_TURN))
        self._broker.logs.apply_retention(self._broker.now_ms(), self._mark, some)
        if some and not self._stopped:
            self._reactor.callLater(0, self._retain, left)

    def _mark(self, tp: TopicPartition) -> int:
        partition = self._broker.partitions.get(tp)
        return -1 if partition is None else partition.high_watermark
