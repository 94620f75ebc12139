"""Group commit: one thread for each data directory makes logs durable, always working while something is dirty (V9).

The reactor asks with `request`; what it asks for while a round of syncs runs goes into the next round, all together.
A round with many logs is one syncfs() instead of an fdatasync() for each. The threads see nothing but open files: what
to sync is worked out when it is asked for, and the result goes back to the reactor's thread through `post`.

A sync that fails takes the directory offline and is never tried again: after an error the kernel may have dropped the
very pages that a second sync would call safe.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping

from brokerd.storage.file_range import open_directory, sync_file_system
from brokerd.storage.log_dir import LogDir
from brokerd.storage.partition_log import FlushTarget, PartitionLog

MANY = 64  # dirty logs in a round above which the whole file system is synced at once
STOP_TIMEOUT_S = 30.0

Post = Callable[[Callable[[], None]], object]


def sync_all(log_dir: LogDir, targets: Mapping[PartitionLog, FlushTarget]) -> None:
    """Makes the files of all targets, which are in one directory, durable. OSError if one of them cannot be."""
    groups = [target.files for target in targets.values() if target.files != ()]
    if len(groups) > MANY or None in groups:
        directory = open_directory(log_dir.path)  # open for as long as the name lives
        sync_file_system(directory.fd)
        return
    for files in groups:
        for file in files or ():
            os.fdatasync(file.fd)


class Flusher:
    """Flushes logs in the background. `on_flushed` and `on_failed` are called through `post`."""

    def __init__(
        self,
        post: Post,
        on_flushed: Callable[[PartitionLog], None],
        on_failed: Callable[[LogDir, Exception], None],
        on_round: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`on_round` is told how long each round of syncs took."""
        self._post = post
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._on_round = on_round
        self._threads: dict[LogDir, _DirThread] = {}

    def request(self, log: PartitionLog, *, now: bool = False) -> None:
        """Flushes what was written, if the topic's settings say that it is time to, or at once with `now`.

        To be called after each write, and when `PartitionLog.flush_due_in_ms` is over; with `now` for who cannot wait.
        """
        if not (log.is_dirty if now else log.is_flush_due()):
            return
        log_dir = log.log_dir
        if not log_dir.online:
            return
        thread = self._threads.get(log_dir)
        if thread is None:
            thread = self._threads[log_dir] = _DirThread(log_dir, self._post, self._done, self._on_failed)
            thread.start()
        thread.add(log)

    def stop(self) -> None:
        """Finishes what was asked for and ends the threads."""
        for thread in self._threads.values():
            thread.stop()
        for thread in self._threads.values():
            thread.join(STOP_TIMEOUT_S)
        self._threads.clear()

    def _done(self, targets: dict[PartitionLog, FlushTarget], seconds: float) -> None:
        self._on_round(seconds)
        for log, target in targets.items():
            if log.flush_done(target):
                self._on_flushed(log)
            else:
                self.request(log)


class _DirThread(threading.Thread):
    """The syncs of one directory."""

    def __init__(
        self,
        log_dir: LogDir,
        post: Post,
        done: Callable[[dict[PartitionLog, FlushTarget], float], None],
        failed: Callable[[LogDir, Exception], None],
    ) -> None:
        super().__init__(name=f"flush {log_dir.path}", daemon=True)
        self._log_dir = log_dir
        self._post = post
        self._done = done
        self._failed = failed
        self._waiting: dict[PartitionLog, FlushTarget] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False

    def add(self, log: PartitionLog) -> None:
        """What the log has written by now is flushed in the next round."""
        target = log.flush_target()
        with self._lock:
            self._waiting[log] = target
        if not self._wake.is_set():
            self._wake.set()

    def stop(self) -> None:
        """Ends the thread after the round that takes all that is waiting."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        """Rounds until `stop` or the first failure."""
        while True:
            self._wake.wait()
            self._wake.clear()
            stopping = self._stopping
            with self._lock:
                targets, self._waiting = self._waiting, {}
            if targets and not self._round(targets):
                return
            if stopping:
                return

    def _round(self, targets: dict[PartitionLog, FlushTarget]) -> bool:
        began = time.monotonic()
        try:
            sync_all(self._log_dir, targets)
        except OSError as problem:
            failure = problem
            self._post(lambda: self._failed(self._log_dir, failure))
            return False
        seconds = time.monotonic() - began
        self._post(lambda: self._done(targets, seconds))
        return True
