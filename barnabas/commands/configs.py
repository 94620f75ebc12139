"""`barnabas configs`: the settings of topics and brokers, as they are in force."""

from typing import Any

import click

from barnabas import admin
from barnabas.admin import Resource, Setting
from barnabas.options import Command, assignments, bootstrap_server, complete_topics, json_output
from barnabas.output import note, print_json, print_table


def _of_what(command: Command) -> Command:
    """The options that say whose settings are meant."""
    for option in (
        click.option("--broker-defaults", is_flag=True, help="The dynamic settings for all brokers."),
        click.option("--broker", type=click.IntRange(0), metavar="ID", help="A broker."),
        click.option("--topic", metavar="NAME", shell_complete=complete_topics, help="A topic."),
    ):
        command = option(command)
    return command


def _resource(topic: str | None, broker: int | None, broker_defaults: bool) -> Resource:
    if (topic is not None) + (broker is not None) + broker_defaults != 1:
        raise click.UsageError("give one of --topic, --broker and --broker-defaults")
    return Resource.topic(topic) if topic is not None else Resource.broker(broker)


@click.group("configs")
def command() -> None:
    """Show and change the settings of topics and brokers."""


@command.command()
@_of_what
@click.argument("names", nargs=-1)
@click.option("--all", "show_all", is_flag=True, help="Also those that have their default value.")
@click.option("--documentation", is_flag=True, help="Say what each setting means.")
@json_output
@bootstrap_server
def describe(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    names: tuple[str, ...],
    show_all: bool,
    documentation: bool,
    as_json: bool,
    bootstrap_server: str,
) -> None:
    """Show settings and where their values come from: those that are not the default, or those NAMES.

    \b
    barnabas configs describe --topic logs
    barnabas configs describe --topic logs --all
    barnabas configs describe --broker 0 log.dirs log.retention.ms
    """
    resource = _resource(topic, broker, broker_defaults)
    with admin.connected(bootstrap_server) as cluster:
        settings = admin.describe_configs(cluster, [resource], documentation=documentation)[resource]
    unknown = set(names) - {setting.name for setting in settings}
    if unknown:
        raise click.UsageError(f"there is no setting {sorted(unknown)[0]}; --all shows all of them")
    shown = [s for s in settings if (s.name in names if names else show_all or s.source != admin.DEFAULT)]
    if as_json:
        print_json([_as_json(setting, documentation) for setting in shown])
        return
    columns = ("Name", "Value", "Source", "Read-only") + (("Meaning",) if documentation else ())
    rows = [_row(setting) + ((setting.documentation,) if documentation else ()) for setting in shown]
    print_table(columns, rows, empty="all settings have their default values; --all shows them")


@command.command()
@_of_what
@click.option("--set", "--add-config", "changes", multiple=True, metavar="NAME=VALUE", help="Set it; repeatable.")
@click.option("--delete", "--delete-config", "deleted", multiple=True, metavar="NAME", help="Back to the default.")
@click.option("--validate-only", is_flag=True, help="Only say whether it could be done.")
@bootstrap_server
def alter(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    changes: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
    bootstrap_server: str,
) -> None:
    """Change settings, all of those given or none. They take effect at once.

    \b
    barnabas configs alter --topic logs --set retention.ms=3600000 --delete segment.bytes
    barnabas configs alter --broker 0 --set max.connections=20000
    barnabas configs alter --broker-defaults --set message.max.bytes=2000000
    """
    resource = _resource(topic, broker, broker_defaults)
    changed = assignments(changes, "--set")
    if not changed and not deleted:
        raise click.UsageError("nothing to change: give --set or --delete")
    both = sorted(set(changed) & set(deleted))
    if both:
        raise click.UsageError(f"{both[0]} is both set and deleted")
    with admin.connected(bootstrap_server) as cluster:
        admin.alter_configs(cluster, resource, changed=changed, deleted=deleted, validate_only=validate_only)
    note("the settings could be altered" if validate_only else "settings altered")


def _row(setting: Setting) -> tuple[object, ...]:
    value = "(hidden)" if setting.sensitive else setting.value
    return setting.name, value, setting.source_name, setting.read_only


def _as_json(setting: Setting, documentation: bool) -> dict[str, Any]:
    found = {
        "name": setting.name,
        "value": setting.value,
        "source": setting.source_name,
        "read_only": setting.read_only,
        "sensitive": setting.sensitive,
    }
    return {**found, "documentation": setting.documentation} if documentation else found
