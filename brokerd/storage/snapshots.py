"""The `.snapshot` files of a partition's directory, and producers brought up to date from the log.

A snapshot named after offset N says what was known of producers just before record N. There is one for the base offset
of each segment, one at a clean stop, and one now and then so that a start after a crash has less to read. None of them
is synced: a damaged one is dropped, and an earlier one or the log itself does as well.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from brokerd.storage.producer_state import (
    SNAPSHOT_SUFFIX,
    Producer,
    ProducerState,
    decode_snapshot,
    encode_snapshot,
)
from brokerd.storage.segment import Segment

REFILL_BYTES = 256 * 1024  # the end of the log in which `rebuild` looks for earlier batches of known producers


def path_of(directory: Path, offset: int) -> Path:
    """The snapshot of an offset."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def store(directory: Path, offset: int, producers: Mapping[int, Producer]) -> None:
    """Writes a snapshot."""
    path = f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
    try:
        with open(path + ".tmp", "wb") as file:
            file.write(encode_snapshot(producers))
        os.replace(path + ".tmp", path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path + ".tmp")
        raise


def offsets(directory: Path) -> list[int]:
    """The offsets of all snapshots, ascending."""
    return sorted(
        int(name[: -len(SNAPSHOT_SUFFIX)])
        for name in os.listdir(directory)
        if name.endswith(SNAPSHOT_SUFFIX) and name[: -len(SNAPSHOT_SUFFIX)].isdigit()
    )


def remove(directory: Path, offset: int) -> None:
    """Removes a snapshot, if it is there."""
    path_of(directory, offset).unlink(missing_ok=True)


def rebuild(directory: Path, segments: Sequence[Segment], log_start: int, log_end: int, now_ms: int) -> ProducerState:
    """The producers at `log_end`: from the last good snapshot, and from the headers of what came after it.

    Snapshots beyond the end and damaged ones are removed.
    """
    state, since = ProducerState(), max(log_start, segments[0].base_offset)
    for offset in reversed(offsets(directory)):
        if offset <= log_end:
            try:
                state = ProducerState(decode_snapshot(path_of(directory, offset).read_bytes()))
            except ValueError:
                pass  # damaged: the one before it will do
            else:
                since = offset
                break
        remove(directory, offset)
    if state.producers:
        state.refill(_tail(segments, since, now_ms))
    replay(state, segments, since, log_end, now_ms)
    state.settle()
    return state


def replay(state: ProducerState, segments: Sequence[Segment], since: int, until: int, now_ms: int) -> None:
    """Takes note of the batches from `since` to `until`, by their headers alone."""
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        if since >= until or not segment.size or (not last and segments[number + 1].base_offset <= since):
            continue
        start = segment.find(since)[0] if since > segment.base_offset else 0
        for _, header in segment.file.headers(start):
            if header.base_offset >= until:
                return
            if header.producer_id >= 0 and header.base_offset >= since and not header.is_control:
                state.record(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.base_offset,
                    header.last_offset,
                    now_ms,
                )


def _tail(segments: Sequence[Segment], until: int, now_ms: int) -> ProducerState:
    """What the last bytes before `until` say."""
    state = ProducerState()
    segment = next((one for one in reversed(segments) if one.base_offset < until), None)
    if segment is not None and segment.size:
        begin = segment.walk_start(segment.offsets.last_up_to(max(segment.size - REFILL_BYTES, 0), 1))
        first = next(segment.file.heads(begin))[2]
        replay(state, [segment], first, until, now_ms)
    return state
