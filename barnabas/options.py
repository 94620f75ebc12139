"""Options that several verbs take, spelled once: `@bootstrap_server`, `@zookeeper`, `@json_output`, `@yes`."""

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"
DEFAULT_ZOOKEEPER = "localhost:2181"
DEFAULT_DATA = "barnabas-data"

Command = TypeVar("Command", bound=Callable[..., Any])


def bootstrap_server(command: Command) -> Command:
    """`--bootstrap-server`, the argument `bootstrap_server: str`."""
    return click.option(
        "-b",
        "--bootstrap-server",
        envvar="BARNABAS_BOOTSTRAP_SERVER",
        default=DEFAULT_BOOTSTRAP_SERVER,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Brokers to ask first; one that answers is enough.",
    )(command)


def zookeeper(command: Command) -> Command:
    """`--zookeeper`, the argument `zookeeper: str`."""
    return click.option(
        "--zookeeper",
        envvar="BARNABAS_ZOOKEEPER",
        default=DEFAULT_ZOOKEEPER,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...[/CHROOT]",
        help="The cluster's ZooKeeper.",
    )(command)


def data_directory(command: Command) -> Command:
    """`--data`, the argument `data: Path`: where a local cluster keeps everything."""
    return click.option(
        "--data",
        envvar="BARNABAS_DATA",
        default=DEFAULT_DATA,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="The local cluster's directory.",
    )(command)


def json_output(command: Command) -> Command:
    """`--json`, the argument `as_json: bool`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def yes(command: Command) -> Command:
    """`--yes`, the argument `yes: bool`: the answer to the question that `confirmed` would ask."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirmed(question: str, *, yes: bool) -> None:
    """Goes on only if the user agrees. Scripts, which have no terminal to be asked on, are not asked."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


def assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """What was given as repeated `option` NAME=VALUE; the value may be empty or hold more equals signs."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise click.UsageError(f"{option} wants NAME=VALUE, not {text!r}")
        if name in found:
            raise click.UsageError(f"{option} names {name} twice")
        found[name] = value.strip()
    return found


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For shell completion: names of topics, if a broker answers at once; silence otherwise."""
    from barnabas.admin import connected

    with contextlib.suppress(Exception), connected(ctx.params.get("bootstrap_server", ""), timeout=1.0) as cluster:
        return sorted(name for name in cluster.metadata().topics if name.startswith(incomplete))
    return []
