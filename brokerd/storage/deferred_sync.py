"""Many small files made durable together: first all of them are written, then the disk is waited for once.

Every file that is made or replaced costs two or three syncs. A topic of a thousand partitions, or a thousand
leaderships taken over at once, would wait for thousands of them one after another, and on the reactor's thread. Within
`without_sync` this thread does not wait; `make_durable`, in any thread, waits for all that was written so. Between the
two nobody may rely on those files: a partition is led only afterwards (A11).
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_local = threading.local()

MANY = 8
"""Directories above which the whole file system is synced at once."""


def is_deferred() -> bool:
    """Whether this thread is within `without_sync`."""
    return getattr(_local, "deferred", False)


@contextmanager
def without_sync() -> Iterator[None]:
    """Within the block this thread makes and replaces files without waiting for the disk."""
    before, _local.deferred = is_deferred(), True
    try:
        yield
    finally:
        _local.deferred = before


@contextmanager
def with_sync() -> Iterator[None]:
    """Within the block this thread waits for the disk after all: for files that others rely on."""
    before, _local.deferred = is_deferred(), False
    try:
        yield
    finally:
        _local.deferred = before


def make_durable(parent: Path, directories: Iterable[Path], names: Iterable[str]) -> None:
    """Syncs the files with these names in all directories, the directories, and `parent`, which holds them; OSError."""
    from brokerd.storage.file_range import sync_file_system

    places, files = list(directories), list(names)
    top = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if len(places) > MANY:
            sync_file_system(top)
            return
        for place in places:
            for path in (*(place / name for name in files), place):
                _sync(path)
        os.fsync(top)
    finally:
        os.close(top)


def _sync(path: Path) -> None:
    """A file that is not there any more (its topic was deleted meanwhile) needs no sync."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
