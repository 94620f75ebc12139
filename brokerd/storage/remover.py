"""Removes files and directories in a thread: unlinking a gigabyte takes longer than a reactor may wait."""

import contextlib
import os
import shutil
import threading
from collections.abc import Iterable
from queue import SimpleQueue


class Remover:
    """Started by the first removal. What cannot be removed stays: the next start tries again."""

    def __init__(self) -> None:
        self._paths: SimpleQueue[str | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files and whole directories, in this order, soon."""
        for path in paths:
            self._paths.put(path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="remover", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Waits until everything is removed."""
        if self._thread is not None:
            self._paths.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (path := self._paths.get()) is not None:
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(path)
