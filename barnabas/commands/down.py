"""`barnabas down`: stops the cluster of a data directory."""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import click

from barnabas.errors import UserError
from barnabas.options import data_directory
from barnabas.output import note
from barnabas.pid_file import is_held


@click.command("down")
@data_directory
@click.option(
    "--timeout", type=click.FloatRange(0), metavar="SECONDS", default=40.0, show_default=True, help="How long to wait."
)
def command(data: Path, timeout: float) -> None:
    """Stop a cluster that `up --detach` started.

    Also one that runs in another terminal. Returns when all its processes have ended; data stay. That nothing runs in
    the directory is no error.
    """
    if not data.is_dir():
        raise UserError(f"there is no directory {data}; --data names the one that `barnabas up` was given")
    held, pid = is_held(data)
    if not held:
        note(f"no cluster runs in {data}")
        return
    if pid is None:
        raise UserError(f"a cluster is starting or stopping in {data} at this moment; try again")
    with _process(pid) as descriptor:
        if descriptor is not None and is_held(data) == (True, pid):  # looked at again: now the pid cannot be reused
            _stop(descriptor, data, pid, timeout)
    note(f"stopped the cluster in {data}")


@contextlib.contextmanager
def _process(pid: int) -> Iterator[int | None]:
    """A descriptor of the process, None if it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _stop(descriptor: int, data: Path, pid: int, timeout: float) -> None:
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise UserError(f"the cluster in {data} (process {pid}) belongs to another user") from None
    if not select.select([descriptor], [], [], timeout)[0]:
        raise UserError(f"the cluster in {data} (process {pid}) did not stop within {timeout:g} s")
