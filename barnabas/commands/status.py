"""`barnabas status`: the cluster at a glance, as its brokers and, if named, its ZooKeeper see it."""

import time
from collections.abc import Iterable
from typing import Any

import click

from barnabas import admin, moving
from barnabas.embedded_zookeeper import four_letter_word
from barnabas.options import bootstrap_server, json_output
from barnabas.output import counted, note, print_json, print_table, size_text
from kafka_wire.blocking import BlockingCluster, BlockingPeer
from kafka_wire.errors import KafkaError
from kafka_wire.metadata_view import BrokerAddress, MetadataView

_SHOWN_PROBLEMS = 20


@click.command("status")
@bootstrap_server
@click.option(
    "--zookeeper",
    envvar="BARNABAS_ZOOKEEPER",
    show_envvar=True,
    metavar="HOST:PORT,...",
    help="Also ask the servers of this ZooKeeper.",
)
@click.option(
    "--timeout", type=click.FloatRange(0.1), metavar="SECONDS", default=5.0, show_default=True, help="For each server."
)
@json_output
def command(bootstrap_server: str, zookeeper: str | None, timeout: float, as_json: bool) -> None:
    """Show brokers, controller, topics and what is wrong.

    A partition is under-replicated while a replica is not in sync, and offline while it has no leader.
    """
    with admin.connected(bootstrap_server, timeout) as cluster:
        found = summary(cluster.metadata(refresh=True))
        for broker in found["brokers"]:
            broker.update(_asked(cluster, broker, timeout))
        found["reassigning"] = _reassigning(cluster)
    found["zookeeper"] = [_zookeeper_server(server, timeout) for server in _servers(zookeeper)]
    if as_json:
        print_json(found)
    else:
        _print(found)


def summary(view: MetadataView) -> dict[str, Any]:
    """What a complete view of the metadata says about the cluster's health."""
    partitions = [
        (topic.name, number, partition)
        for topic in view.topics.values()
        for number, partition in topic.partitions.items()
    ]
    return {
        "cluster_id": view.cluster_id,
        "controller": view.controller_id if view.controller_id >= 0 else None,
        "brokers": [
            {
                "id": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "leads": sum(partition.leader == broker.node_id for _, _, partition in partitions),
                "replicas": sum(broker.node_id in partition.replicas for _, _, partition in partitions),
            }
            for broker in sorted(view.brokers.values(), key=_by_id)
        ],
        "topics": len(view.topics),
        "partitions": len(partitions),
        "under_replicated": [
            {"topic": topic, "partition": number, "replicas": partition.replicas, "isr": partition.isr}
            for topic, number, partition in partitions
            if len(partition.isr) < len(partition.replicas)
        ],
        "offline": [
            {"topic": topic, "partition": number, "replicas": partition.replicas}
            for topic, number, partition in partitions
            if partition.leader < 0
        ],
    }


def _reassigning(cluster: BlockingCluster) -> list[dict[str, Any]]:
    """The partitions that are being moved; brokers that cannot tell have none."""
    try:
        moves = moving.ongoing(cluster)
    except KafkaError:
        return []
    return [
        {"topic": name, "partition": index, "replicas": one.target, "adding": one.adding, "removing": one.removing}
        for (name, index), one in sorted(moves.items())
    ]


def _by_id(broker: BrokerAddress) -> int:
    return broker.node_id


def _asked(cluster: BlockingCluster, broker: dict[str, Any], timeout: float) -> dict[str, Any]:
    """What the broker itself says: how soon it answers and what it keeps; registered brokers may be deaf."""
    began = time.monotonic()
    try:
        BlockingPeer(broker["host"], broker["port"], timeout=timeout).close()
    except KafkaError as error:
        return {"answers": False, "problem": error.message, "size": None}
    milliseconds = round((time.monotonic() - began) * 1000, 1)
    try:
        dirs = admin.log_dirs(cluster, broker["id"])
    except KafkaError as error:
        return {"answers": True, "milliseconds": milliseconds, "problem": error.message, "size": None}
    offline = [f"log directory {each.path} is offline" for each in dirs if each.problem]
    return {
        "answers": True,
        "milliseconds": milliseconds,
        "problem": "; ".join(offline) or None,
        "size": sum(each.size for each in dirs),
    }


def _servers(zookeeper: str | None) -> list[str]:
    return [] if zookeeper is None else [server.strip() for server in zookeeper.partition("/")[0].split(",")]


def _zookeeper_server(server: str, timeout: float) -> dict[str, Any]:
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"not an address of the form host:port: {server!r}", param_hint="--zookeeper")
    try:
        answer = four_letter_word(host, int(port), b"srvr", timeout).decode("utf-8", "replace")
    except OSError as error:
        return {"server": server, "mode": None, "problem": str(error)}
    return {"server": server, **parse_srvr(answer)}


def parse_srvr(answer: str) -> dict[str, Any]:
    """Mode, version and connections in ZooKeeper's answer to `srvr`."""
    fields = dict(line.partition(": ")[::2] for line in answer.splitlines() if ": " in line)
    version = fields.get("Zookeeper version")
    return {
        "mode": fields.get("Mode"),
        "version": version.partition("-")[0] if version else None,
        "connections": int(fields["Connections"]) if fields.get("Connections", "").isdecimal() else None,
        "problem": None if "Mode" in fields else (answer.strip().partition("\n")[0] or "it closed the connection"),
    }


def _print(found: dict[str, Any]) -> None:
    controller = "none" if found["controller"] is None else f"broker {found['controller']}"
    click.echo(
        f"cluster {found['cluster_id'] or '?'}: {counted(len(found['brokers']), 'broker')}, controller {controller}, "
        f"{counted(found['topics'], 'topic')}, {counted(found['partitions'], 'partition')}, "
        f"{len(found['under_replicated'])} under-replicated, {len(found['offline'])} offline"
        + (f", {len(found['reassigning'])} being moved" if found["reassigning"] else "")
    )
    brokers = [
        (
            b["id"],
            f"{b['host']}:{b['port']}",
            b["rack"],
            _answers(b),
            b["leads"],
            b["replicas"],
            size_text(b["size"]),
            b["problem"],
        )
        for b in found["brokers"]
    ]
    print_table(("Broker", "Address", "Rack", "Answers", "Leads", "Replicas", "Size", "Problem"), brokers)
    if found["zookeeper"]:
        servers = [
            (z["server"], z["mode"], z.get("version"), z.get("connections"), z["problem"]) for z in found["zookeeper"]
        ]
        print_table(("ZooKeeper", "Mode", "Version", "Connections", "Problem"), servers)
    _print_problems("offline", found["offline"])
    _print_problems("under-replicated", found["under_replicated"])
    _print_moves(found["reassigning"])


def _answers(broker: dict[str, Any]) -> str:
    return f"{broker['milliseconds']} ms" if broker["answers"] else "no"


def _print_problems(title: str, partitions: Iterable[dict[str, Any]]) -> None:
    rows = [(title, p["topic"], p["partition"], p["replicas"], p.get("isr")) for p in partitions]
    if rows:
        print_table(("Problem", "Topic", "Partition", "Replicas", "In sync"), rows[:_SHOWN_PROBLEMS])
    if len(rows) > _SHOWN_PROBLEMS:
        note(f"... and {len(rows) - _SHOWN_PROBLEMS} more; --json shows all")


def _print_moves(moves: list[dict[str, Any]]) -> None:
    rows = [(m["topic"], m["partition"], m["replicas"], m["adding"], m["removing"]) for m in moves]
    if rows:
        print_table(("Being moved", "Partition", "To", "Adding", "Removing"), rows[:_SHOWN_PROBLEMS])
    if len(rows) > _SHOWN_PROBLEMS:
        note(f"... and {len(rows) - _SHOWN_PROBLEMS} more; --json shows all")
