"""What can go wrong with files; errors that clients see are kafka_wire.errors'."""

import errno

FULL = "full"
FAILED = "failed"

_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class StorageError(Exception):
    """The disk refused an append, which was undone. `kind`: `full` (space, or file descriptors, may come back) or
    `failed` (the directory is not to be used any more)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LogDamaged(Exception):
    """What was once durable is missing or bad. The files stay as they are, for a person or a leader's copy."""


class LogDirError(Exception):
    """A data directory that cannot be used: locked by another broker, another broker's, unreadable."""


def storage_error(problem: OSError, what: str) -> StorageError:
    """The error for a failed system call."""
    kind = FULL if problem.errno in _PASSING else FAILED
    return StorageError(kind, f"{what}: {problem.strerror or problem}")
