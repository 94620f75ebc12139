"""Files that are written first and made durable together."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from brokerd.storage import checkpoint
from brokerd.storage.deferred_sync import MANY, is_deferred, make_durable, with_sync, without_sync


def test_within_the_block_nothing_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this thread, and not where a file must be durable at once."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    with without_sync():
        checkpoint.write_topic_id(tmp_path, b"\1" * 16)
        assert synced == []
        other: list[bool] = []
        thread = threading.Thread(target=lambda: other.append(is_deferred()))
        thread.start()
        thread.join()
        assert other == [False]
        with with_sync():
            checkpoint.write_offsets(tmp_path / "points", {})
    assert len(synced) == 2, "the file and its directory"
    assert not is_deferred()
    assert checkpoint.read_topic_id(tmp_path) == b"\1" * 16


@pytest.mark.parametrize("count", [1, MANY + 1])
def test_made_durable_whatever_their_number(tmp_path: Path, count: int) -> None:
    """Few are synced one by one, many with their file system; one that is gone does no harm."""
    places = [tmp_path / str(number) for number in range(count)]
    for place in places:
        place.mkdir()
        (place / "file").write_text("x")

    make_durable(tmp_path, [*places, tmp_path / "gone"], ["file", "absent"])


def test_partition_torn_by_a_power_loss_has_no_topic_id(tmp_path: Path) -> None:
    """An empty file is one that was never made durable; the partition is taken for one without an id."""
    (tmp_path / checkpoint.PARTITION_METADATA).write_bytes(b"")

    assert checkpoint.read_topic_id(tmp_path) is None
