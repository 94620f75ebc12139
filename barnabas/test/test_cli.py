"""The command as users meet it: help, suggestions, exit codes, no traceback."""

import importlib
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from barnabas.cli import VERBS, Verbs, cli
from barnabas.errors import UserError, WrongCall
from kafka_wire.errors import TopicAlreadyExists


def _run_raising(monkeypatch: pytest.MonkeyPatch, error: BaseException, *options: str) -> Result:
    """`barnabas status`, made to raise."""

    @click.command("status")
    def command() -> None:
        raise error

    monkeypatch.setattr(Verbs, "get_command", lambda self, ctx, name: command)
    return CliRunner().invoke(cli, [*options, "status"])


def test_help_lists_every_verb_without_importing_one() -> None:
    """The first screen of help is instant."""
    code = (
        "import sys; from barnabas.cli import cli; cli(['--help'], standalone_mode=False);"
        "slow = ('barnabas.commands.', 'twisted', 'kafka_wire', 'rich');"
        "print([name for name in sys.modules if name.startswith(slow)])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(f"  {verb} " in output for verb in VERBS)
    assert output.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_in_the_list_exists_and_explains_itself(verb: str) -> None:
    """The list of verbs is written by hand: it must not drift from the modules."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    assert command.help


def test_unknown_verb_names_the_nearest_and_ends_with_2() -> None:
    """A typing error is put right at once."""
    result = CliRunner().invoke(cli, ["topcis", "list"])
    assert result.exit_code == 2
    assert "there is no command topcis; did you mean topics?" in result.output


def test_verb_like_no_other_points_to_the_help() -> None:
    """No far-fetched guesses."""
    result = CliRunner().invoke(cli, ["xyzzy"])
    assert result.exit_code == 2
    assert "`barnabas --help` lists them" in result.output


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (UserError("the disk is\nfull"), 1, "barnabas: the disk is full\n"),
        (WrongCall("that makes no sense"), 2, "barnabas: that makes no sense\n"),
        (TopicAlreadyExists("topic a exists"), 1, "barnabas: topic a exists\n"),
        (PermissionError(13, "Permission denied", "/data"), 1, "barnabas: [Errno 13] Permission denied: '/data'\n"),
        (
            KeyError("x"),
            1,
            "barnabas: a fault in barnabas itself: KeyError: 'x' (--debug shows where)\n",
        ),
    ],
)
def test_failure_becomes_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, exit_code: int, line: str) -> None:
    """No traceback reaches a user."""
    result = _run_raising(monkeypatch, error)
    assert (result.exit_code, result.output) == (exit_code, line)


def test_failure_with_debug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who look for the fault see where it is."""
    error = KeyError("x")
    assert _run_raising(monkeypatch, error, "--debug").exception is error
    monkeypatch.setenv("BARNABAS_DEBUG", "1")
    assert _run_raising(monkeypatch, error).exception is error


def test_reader_of_the_pipe_gone_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """`barnabas topics list | head -1` ends quietly."""
    result = _run_raising(monkeypatch, BrokenPipeError(32, "Broken pipe"))
    assert result.output == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_for_each_shell(shell: str) -> None:
    """What the help of `completion` promises."""
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_BARNABAS_COMPLETE" in result.output


def test_completion_of_verbs_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tab is instant."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    imports: Callable[[str], None] = refuse
    monkeypatch.setattr(importlib, "import_module", imports)
    found = cli.shell_complete(click.Context(cli), "co")
    assert [item.value for item in found] == ["configs", "consume", "completion"]
