"""`barnabas topics reassign`: partitions to other brokers, as few of them as possible."""

import click

from barnabas import admin, reassigning, replica_plan
from barnabas.options import bootstrap_server, json_output, yes


@click.command("reassign")
@click.option("--brokers", metavar="B,B,...", help="The brokers that shall have the replicas, and no others.")
@click.option("--topics", metavar="T,T,...", help="Only these topics.  [default: all]")
@click.option("--replication-factor", type=click.IntRange(1, 32767), metavar="N", help="Change it.  [default: keep]")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--cancel", is_flag=True, help="Take back what is under way.")
@click.option("--no-wait", is_flag=True, help="Do not wait until everything has moved.")
@yes
@json_output
@bootstrap_server
def command(
    brokers: str | None,
    topics: str | None,
    replication_factor: int | None,
    dry_run: bool,
    cancel: bool,
    no_wait: bool,
    yes: bool,
    as_json: bool,
    bootstrap_server: str,
) -> None:
    """Move partitions to other brokers.

    The plan spreads replicas and leaders evenly over the brokers named and copies as little as possible. Partitions are
    served all the time. With --json the plan is printed as kafka-reassign-partitions.sh reads it.

    \b
    barnabas topics reassign --brokers 1,2,3 --dry-run
    barnabas topics reassign --topics logs --brokers 1,2,3
    barnabas topics reassign --cancel
    """
    if cancel == (brokers is not None):
        raise click.UsageError("give either --brokers or --cancel")
    names = [one for one in (topics or "").split(",") if one]
    with admin.connected(bootstrap_server) as cluster:
        if cancel:
            reassigning.cancel(cluster, names)
            return
        view = cluster.metadata(refresh=True)
        chosen = reassigning.broker_ids(view, brokers or "")
        now = reassigning.replicas_of(view, names)
        reassigning.move(
            cluster,
            now,
            replica_plan.plan(now, {one: view.brokers[one].rack for one in chosen}, replication_factor),
            dry_run=dry_run,
            wait=not no_wait,
            yes=yes,
            as_json=as_json,
        )
