"""The lock that tells a running cluster from a dead one."""

import os
from pathlib import Path

import pytest

from barnabas.pid_file import NAME, InUse, PidFile, is_held


def test_held_file_names_its_holder_and_refuses_a_second(tmp_path: Path) -> None:
    """Two clusters in one directory would ruin each other's data."""
    with PidFile(tmp_path):
        assert is_held(tmp_path) == (True, os.getpid())
        with pytest.raises(InUse) as raised:
            PidFile(tmp_path).acquire()
        assert raised.value.pid == os.getpid()


def test_released_file_can_be_taken_again(tmp_path: Path) -> None:
    """The next start finds nothing in its way."""
    for _ in range(2):
        with PidFile(tmp_path):
            pass
        assert is_held(tmp_path) == (False, None)


def test_pid_that_a_dead_cluster_left_is_not_believed(tmp_path: Path) -> None:
    """After a power cut the number may belong to anybody."""
    (tmp_path / NAME).write_text(f"{os.getpid()}\n")
    assert is_held(tmp_path) == (False, None)


def test_directory_without_the_file_is_free(tmp_path: Path) -> None:
    """Nothing ever ran there."""
    assert is_held(tmp_path) == (False, None)
