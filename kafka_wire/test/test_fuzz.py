"""Hostile frames of every API and version through the reader: Malformed or a body, nothing else, and little memory.

20,000 frames in an ordinary run; BARNABAS_FUZZ=1000000 for the long one. The seed is printed with a failure.
"""

from __future__ import annotations

import os
import random
import tracemalloc

import pytest

from kafka_wire.apis import Api
from kafka_wire.errors import Malformed
from kafka_wire.messages import decode_request
from kafka_wire.test.fuzzing import CASES, SPOILERS, hostile_frame, valid_frame

FRAMES = int(os.environ.get("BARNABAS_FUZZ", "20000"))
BYTES_PER_BYTE = 200
"""An empty structure of a few bytes becomes a tuple of a few words."""


@pytest.mark.timeout(60 + FRAMES // 500)
def test_hostile_frames_are_read_or_refused() -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    refused = 0
    for number in range(FRAMES):
        frame = hostile_frame(number, chance)
        try:
            decode_request(frame, 0, len(frame))
        except Malformed:
            refused += 1
        except Exception as problem:
            raise AssertionError(f"seed {seed}, frame {number}: {frame.hex()}") from problem
    assert FRAMES // 4 < refused < FRAMES, f"seed {seed}: {refused} of {FRAMES} refused, the fuzzing does not bite"


@pytest.mark.parametrize(("api", "version"), CASES)
def test_forged_counts_allocate_nothing_to_speak_of(api: Api, version: int) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    forge = next(spoiler for spoiler in SPOILERS if spoiler.__name__ == "_forge")
    for _ in range(25):
        frame = bytearray(valid_frame(api, version, chance))
        forge(frame, chance)
        tracemalloc.start()
        try:
            decode_request(bytes(frame), 0, len(frame))
        except Malformed:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < 1_000_000 + BYTES_PER_BYTE * len(frame), f"seed {seed}: {peak} bytes for {frame.hex()}"
