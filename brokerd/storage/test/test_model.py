"""A log against a list: appends, rolls, cuts, flushes, clean stops, and crashes that lose any unflushed bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokerd.storage.test.kit import NOW, TP, Home, batch, read_all, segment_paths, sequenced, values

RUN = st.lists(st.integers(1, 4), min_size=1, max_size=8)  # sizes of batches


class LogModel(RuleBasedStateMachine):
    """`records` are all values that were written, `durable` how many of them a crash must leave."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="log-model-"))

    @initialize()
    def begin(self) -> None:
        self.home = Home(self.base / "data")
        self.log = self.home.log()
        self.records: list[str] = []
        self.queued: list[str] = []
        self.durable = 0
        self.durable_sizes: dict[Path, int] = {}
        self.sequence = 0
        self.counter = 0

    @rule(sizes=RUN, pad=st.integers(0, 200), written=st.booleans())
    def append(self, sizes: list[int], pad: int, written: bool) -> None:
        for size in sizes:
            made = [f"{self.counter + number}:" + "x" * pad for number in range(size)]
            self.counter += size
            sent = batch(*made, timestamp=NOW + self.counter)
            assert self.log.append_as_leader(sent, self.log.latest_epoch, NOW).first_offset == self._next_offset()
            self.queued += made
        if written:
            self.write()

    @rule(sizes=RUN, written=st.booleans())
    def append_in_sequence(self, sizes: list[int], written: bool) -> None:
        for size in sizes:
            sent, first = sequenced(self.sequence, size), self._next_offset()
            for duplicate in (False, True):
                done = self.log.append_as_leader(sent, self.log.latest_epoch, NOW)
                assert (done.first_offset, done.duplicate) == (first, duplicate)
            self.queued += [f"7/{number}" for number in range(self.sequence, self.sequence + size)]
            self.sequence += size
        if written:
            self.write()

    def _next_offset(self) -> int:
        return len(self.records) + len(self.queued)

    @rule()
    def write(self) -> None:
        self.log.write()
        self.records += self.queued
        self.queued = []

    @rule()
    def flush(self) -> None:
        self.write()
        self.log.flush()
        self.durable = len(self.records)
        self.durable_sizes = {path: path.stat().st_size for path in segment_paths(self.log)}

    @rule()
    def checkpoint(self) -> None:
        self.write()
        self.home.manager.checkpoint({TP: self.durable})

    @rule()
    def new_epoch(self) -> None:
        self.write()
        self.log.start_epoch(self.log.latest_epoch + 1)

    @rule()
    def roll(self) -> None:
        self.write()
        self.log.roll()

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        self.write()
        self.log.truncate_to(int(part * len(self.records)))
        self._ends_at(self.log.log_end)

    @rule()
    def stop_and_start(self) -> None:
        self.write()
        self.home.stop()
        assert self.home.manager.logs[TP].log_end == len(self.records)
        self._reopened()

    @rule(tail=RUN, part=st.floats(0, 1), ordered=st.booleans(), garbage=st.binary(max_size=80))
    def crash(self, tail: list[int], part: float, ordered: bool, garbage: bytes) -> None:
        """What is queued is lost, and bytes that were not flushed from anywhere on; in any order of files."""
        self.append_in_sequence(tail, True)
        self.append(tail, 20, True)
        self._lose(part, ordered, garbage)

    def _lose(self, part: float, ordered: bool, garbage: bytes) -> None:
        self.queued = []
        self.home.crash()
        losable = [
            (path, self.durable_sizes.get(path, 0), path.stat().st_size)
            for path in segment_paths(self.log)
            if path.stat().st_size > self.durable_sizes.get(path, 0)
        ]
        left = int(part * sum(size - kept for _, kept, size in losable))
        for path, kept, size in losable:
            if left < size - kept:
                os.truncate(path, kept + left)
                with path.open("ab") as file:
                    file.write(garbage)
                if not ordered:
                    break
            left = max(left - (size - kept), 0)
        self.home.start()
        assert not self.home.manager.offline
        assert self.home.manager.logs[TP].log_end >= self.durable
        self._reopened()

    @rule(part=st.floats(0, 1))
    def cut_below_the_recovery_point_and_crash(self, part: float) -> None:
        """The checkpoint must not promise more than the cut has left."""
        self.flush()
        self.checkpoint()
        self.truncate(part)
        self._lose(0.0, True, b"")

    def _reopened(self) -> None:
        """A start flushes what it has found before anybody sees it."""
        self.log = self.home.manager.logs[TP]
        self._ends_at(self.log.log_end)
        self.durable = len(self.records)
        self.durable_sizes = {path: path.stat().st_size for path in segment_paths(self.log)}

    def _ends_at(self, end: int) -> None:
        assert end <= len(self.records)
        self.records = self.records[:end]
        self.durable = min(self.durable, end)
        sizes = {path: path.stat().st_size for path in segment_paths(self.log)}
        self.durable_sizes = {
            path: min(size, sizes[path]) for path, size in self.durable_sizes.items() if path in sizes
        }
        known = [int(text[2:]) for text in self.records if text.startswith("7/")]
        self.sequence = known[-1] + 1 if known else 0

    @invariant()
    def log_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.flushed >= self.durable
        assert self.log.written_end == len(self.records)
        assert values(read_all(self.log)) == self.records
        assert self.log.size == sum(path.stat().st_size for path in segment_paths(self.log))

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.home.crash()
        shutil.rmtree(self.base, ignore_errors=True)


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
