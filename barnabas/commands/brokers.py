"""`barnabas brokers`: the brokers, what they have, and taking it from them."""

from typing import Any

import click

from barnabas import admin, moving, reassigning, replica_plan
from barnabas.admin import Resource
from barnabas.commands.status import summary
from barnabas.errors import UserError
from barnabas.options import bootstrap_server, confirmed, json_output, yes
from barnabas.output import counted, note, print_json, print_table, size_text
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import ElectionNotNeeded, KafkaError
from kafka_wire.metadata_view import MetadataView


@click.group("brokers")
def command() -> None:
    """List and describe brokers, drain them, and elect leaders."""


@command.command("list")
@json_output
@bootstrap_server
def list_brokers(as_json: bool, bootstrap_server: str) -> None:
    """List brokers with their addresses and what they lead and keep."""
    with admin.connected(bootstrap_server) as cluster:
        found = summary(cluster.metadata(refresh=True))
    for one in found["brokers"]:
        one["controller"] = one["id"] == found["controller"]
    if as_json:
        print_json(found["brokers"])
        return
    rows = [
        (b["id"], f"{b['host']}:{b['port']}", b["rack"], b["controller"], b["leads"], b["replicas"])
        for b in found["brokers"]
    ]
    print_table(("Broker", "Address", "Rack", "Controller", "Leads", "Replicas"), rows)


@command.command()
@click.argument("broker", type=int)
@json_output
@bootstrap_server
def describe(broker: int, as_json: bool, bootstrap_server: str) -> None:
    """Show one BROKER: its partitions, log directories and settings."""
    with admin.connected(bootstrap_server) as cluster:
        found = _description(cluster, broker)
    if as_json:
        print_json(found)
        return
    role = ", controller" if found["controller"] else ""
    rack = f", rack {found['rack']}" if found["rack"] else ""
    click.echo(
        f"broker {broker} at {found['host']}:{found['port']}{rack}{role}: leads {found['leads']} "
        f"of {counted(found['replicas'], 'replica')}, is preferred leader of {found['preferred']}, "
        f"not in sync with {found['out_of_sync']}"
    )
    dirs = [(one["path"], size_text(one["size"]), one["problem"]) for one in found["log_dirs"]]
    print_table(("Log directory", "Size", "Problem"), dirs)
    settings = [(one["name"], one["value"], one["source"]) for one in found["settings"]]
    print_table(("Setting", "Value", "Source"), settings, empty="every setting has its default")


def _description(cluster: BlockingCluster, broker: int) -> dict[str, Any]:
    view = cluster.metadata(refresh=True)
    _there(view, broker)
    whole = summary(view)
    found: dict[str, Any] = next(one for one in whole["brokers"] if one["id"] == broker)
    partitions = [one for topic in view.topics.values() for one in topic.partitions.values()]
    mine = [one for one in partitions if broker in one.replicas]
    settings = admin.describe_configs(cluster, [Resource.broker(broker)])[Resource.broker(broker)]
    return {
        **found,
        "controller": whole["controller"] == broker,
        "preferred": sum(one.replicas[0] == broker for one in mine),
        "out_of_sync": sum(broker not in one.isr for one in mine),
        "log_dirs": [
            {"path": one.path, "size": one.size, "problem": one.problem} for one in admin.log_dirs(cluster, broker)
        ],
        "settings": [
            {"name": one.name, "value": one.value, "source": one.source_name}
            for one in settings
            if one.source != admin.DEFAULT
        ],
    }


def _there(view: MetadataView, broker: int) -> None:
    if broker not in view.brokers:
        raise UserError(f"there is no broker {broker}; there are {','.join(map(str, sorted(view.brokers)))}")


@command.command()
@click.argument("brokers", type=int, nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--no-wait", is_flag=True, help="Do not wait until everything has moved.")
@yes
@json_output
@bootstrap_server
def drain(
    brokers: tuple[int, ...], dry_run: bool, no_wait: bool, yes: bool, as_json: bool, bootstrap_server: str
) -> None:
    """Move everything from BROKERS to the others, so that they can be taken away.

    A broker that only restarts needs no draining: it gives its leaderships away by itself when it stops.
    `barnabas topics reassign --cancel` takes it back.
    """
    with admin.connected(bootstrap_server) as cluster:
        view = cluster.metadata(refresh=True)
        others = {one.node_id: one.rack for one in view.brokers.values() if one.node_id not in brokers}
        now = reassigning.replicas_of(view, ())
        wanted = replica_plan.evacuate(now, others)
        reassigning.move(cluster, now, wanted, dry_run=dry_run, wait=not no_wait, yes=yes, as_json=as_json)


@command.command("elect-leaders")
@click.option("--topics", metavar="T,T,...", help="Only these topics.  [default: all]")
@click.option(
    "--unclean", is_flag=True, help="Where nobody leads, elect whoever is there: acknowledged messages may be lost."
)
@yes
@bootstrap_server
def elect_leaders(topics: str | None, unclean: bool, yes: bool, bootstrap_server: str) -> None:
    """Give leaderships back to the preferred replicas, now instead of at the next check of the controller."""
    if unclean:
        confirmed("Elect replicas that may lack acknowledged messages?", yes=yes)
    names = [one for one in (topics or "").split(",") if one]
    with admin.connected(bootstrap_server) as cluster:
        places = list(reassigning.replicas_of(cluster.metadata(refresh=True), names)) if names else None
        results = moving.elect(cluster, places, unclean=unclean)
    elected = [place for place, problem in results.items() if problem is None]
    failed = {
        place: problem
        for place, problem in results.items()
        if problem is not None and not isinstance(problem, ElectionNotNeeded)
    }
    _report(elected, failed)


def _report(elected: list[moving.Place], failed: dict[moving.Place, KafkaError]) -> None:
    note(f"{counted(len(elected), 'leader')} elected")
    if failed:
        rows = [(name, index, problem.message) for (name, index), problem in sorted(failed.items())]
        print_table(("Topic", "Partition", "Problem"), rows)
        raise UserError(f"{counted(len(failed), 'election')} failed")
