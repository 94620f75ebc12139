"""What is told about processes that ended."""

import pytest

from barnabas.processes import how_it_ended, last_words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "it left no log"),
        ("one\ntwo\n\n", "two"),
        ("INFO start\nERROR port 9092 is taken\nINFO stopped\n", "ERROR port 9092 is taken"),
        ("Traceback (most recent call last):\n  File x\nValueError: bad\n", "ValueError: bad"),
    ],
)
def test_last_words_are_those_that_explain(log: str, words: str) -> None:
    """One line of the log stands for all of it."""
    assert last_words(log) == words


@pytest.mark.parametrize(
    ("code", "words"), [(1, "exit code 1"), (-9, "killed by SIGKILL"), (-99, "killed by signal 99")]
)
def test_exit_code_is_put_in_words(code: int, words: str) -> None:
    """Nobody knows what -9 means."""
    assert how_it_ended(code) == words
