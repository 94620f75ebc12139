"""`barnabas`, one command with many verbs.

Verbs are imported when called, so that `barnabas --help` and shell completion are instant. Whatever a verb raises ends
here: exit code 0 done, 1 it failed (one line on stderr), 2 the call was wrong. Tracebacks only with --debug or
BARNABAS_DEBUG=1.
"""

import difflib
import errno
import importlib
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from barnabas.errors import UserError, WrongCall

#: Every verb and its line in `barnabas --help`; the module is barnabas.commands.<verb>, dashes as underscores.
VERBS: dict[str, str] = {
    "up": "Start a cluster on this machine.",
    "down": "Stop a cluster that `up --detach` started.",
    "status": "Show brokers, controller, topics and what is wrong.",
    "brokers": "List and describe brokers, drain them, and elect leaders.",
    "topics": "Create, list, describe, alter, move and delete topics.",
    "configs": "Show and change the settings of topics and brokers.",
    "produce": "Send lines from stdin to a topic.",
    "consume": "Print the messages of topics.",
    "dump-log": "Print what is in the files of a log directory.",
    "bench": "Measure throughput and latency, also against other brokers.",
    "completion": "Print the completion script of your shell.",
}


class Failed(click.ClickException):
    """A failure as the user sees it: one line, with the command's name in front."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints it on stderr."""
        click.echo(f"barnabas: {' '.join(self.message.split())}", file=file, err=file is None)


class FailedCall(Failed):
    """The same for a call that was wrong."""

    exit_code = 2


class Verbs(click.Group):
    """A group whose commands are modules, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of VERBS."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command; imports its module."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"barnabas.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin like that (none of them imported), and our own options."""
        verbs = [CompletionItem(name, help=text) for name, text in VERBS.items() if name.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that was called; for an unknown one the error names the nearest."""
        name = args[0]
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            nearest = difflib.get_close_matches(name, VERBS, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else "; `barnabas --help` lists them"
            raise click.UsageError(f"there is no command {name}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb; what it raises becomes one line, unless debugging."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.params.get("debug") or (isinstance(error, OSError) and error.errno == errno.EPIPE):
                raise  # click ends quietly when the reader of a pipe went away
            failure = FailedCall if isinstance(error, WrongCall) else Failed
            raise failure(_explained(error)) from error


def _explained(error: Exception) -> str:
    from kafka_wire.errors import KafkaError

    if isinstance(error, (UserError, KafkaError)):
        return error.message
    if isinstance(error, OSError):
        return str(error)
    return f"a fault in barnabas itself: {type(error).__name__}: {error} (--debug shows where)"


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="barnabas", prog_name="barnabas", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, envvar="BARNABAS_DEBUG", help="Show tracebacks.  [env var: BARNABAS_DEBUG]")
def cli(debug: bool) -> None:
    """Barnabas: a log broker cluster that speaks the Kafka protocol and is coordinated by ZooKeeper.

    \b
    barnabas up                        a cluster on this machine: ZooKeeper and one broker
    barnabas topics create logs        a topic
    barnabas produce logs < app.log    every line a message
    barnabas consume logs --from-beginning
    """


def main() -> None:
    """The console script."""
    cli(prog_name="barnabas")


if __name__ == "__main__":
    main()
