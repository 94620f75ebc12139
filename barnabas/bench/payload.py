"""Messages for a run: lines like an application server's log, so that compression finds what it finds in practice."""

from __future__ import annotations

import random

_WORDS = """
    request response user session cache database query commit rollback timeout retry upstream connection closed
    opened accepted refused handler service order payment basket product search index page render template worker
    queue message partition offset leader follower replica segment flush append fetch produce consumer group
"""
_CHOICES = _WORDS.split()
_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR")


def log_lines(size: int, count: int, seed: int = 1) -> list[bytes]:
    """`count` different lines of exactly `size` bytes; the same ones for the same seed."""
    source = random.Random(seed)
    return [_line(size, source) for _ in range(count)]


def _line(size: int, source: random.Random) -> bytes:
    second = source.random() * 60
    text = f"2024-03-{source.randint(1, 28):02} {source.randint(0, 23):02}:{source.randint(0, 59):02}:{second:06.3f} "
    text += f"{source.choice(_LEVELS)} [{source.getrandbits(64):016x}] "
    while len(text) < size:
        text += f"{source.choice(_CHOICES)}={source.getrandbits(24)} {source.choice(_CHOICES)} "
    return text[:size].encode()
