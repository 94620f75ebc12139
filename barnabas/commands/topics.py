"""`barnabas topics`: everything about topics, over the Kafka protocol, so also for other brokers than ours."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from barnabas import admin
from barnabas.admin import Assignment, Resource
from barnabas.commands import topics_reassign
from barnabas.errors import UserError
from barnabas.options import assignments, bootstrap_server, complete_topics, confirmed, json_output, yes
from barnabas.output import counted, note, on_terminal, print_json, print_table
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import TopicAlreadyExists, UnknownTopicOrPartition
from kafka_wire.metadata_view import MetadataView, PartitionView, TopicView

_topic = click.argument("topic", shell_complete=complete_topics)
_dry_run = click.option("--validate-only", is_flag=True, help="Only say whether it could be done.")


@click.group("topics")
def command() -> None:
    """Create, list, describe, alter, move and delete topics."""


command.add_command(topics_reassign.command)


@command.command()
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="How many.  [default: num.partitions]")
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32767),
    metavar="N",
    help="On how many brokers each partition is kept.  [default: default.replication.factor]",
)
@click.option(
    "--replica-assignment",
    metavar="B:B,B:B,...",
    help="For each partition the brokers that keep it, the preferred leader first.",
)
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting of the topic; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists.")
@_dry_run
@bootstrap_server
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap_server: str,
) -> None:
    """Create a topic.

    \b
    barnabas topics create logs --partitions 6 --replication-factor 3 --config retention.ms=86400000
    """
    if replica_assignment is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError("--replica-assignment says how many partitions and replicas: leave the other two out")
    assignment = () if replica_assignment is None else parse_assignment(replica_assignment)
    settings = assignments(configs, "--config")
    with admin.connected(bootstrap_server) as cluster:
        try:
            count, factor = admin.create_topic(
                cluster,
                topic,
                partitions=partitions or -1,
                replication_factor=replication_factor or -1,
                assignment=assignment,
                configs=settings,
                validate_only=validate_only,
            )
        except TopicAlreadyExists:
            if not if_not_exists:
                raise
            note(f"topic {topic} exists already")
            return
    done = "could be created" if validate_only else "created"
    shape = f" ({counted(count, 'partition')}, replication factor {factor})" if count > 0 else ""
    note(f"topic {topic} {done}{shape}")


@command.command("list")
@click.option("--exclude-internal", is_flag=True, help="Leave out topics that belong to the brokers.")
@json_output
@bootstrap_server
def list_topics(exclude_internal: bool, as_json: bool, bootstrap_server: str) -> None:
    """List topics: a table on a terminal, elsewhere one name on each line."""
    with admin.connected(bootstrap_server) as cluster:
        found = _sorted(cluster.metadata().topics.values(), exclude_internal)
    if as_json:
        print_json([_summary(topic) for topic in found])
    elif on_terminal():
        rows = [
            (topic.name, len(topic.partitions), _replication_factor(topic), len(_under_replicated(topic)) or None)
            for topic in found
        ]
        print_table(("Topic", "Partitions", "Replicas", "Under-replicated"), rows, empty="there are no topics")
    else:
        for topic in found:
            click.echo(topic.name)


@command.command()
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option("--under-replicated-partitions", is_flag=True, help="Only partitions with a replica out of sync.")
@click.option("--unavailable-partitions", is_flag=True, help="Only partitions without a leader.")
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with settings of their own.")
@click.option("--exclude-internal", is_flag=True, help="Leave out topics that belong to the brokers.")
@json_output
@bootstrap_server
def describe(
    topics: tuple[str, ...],
    under_replicated_partitions: bool,
    unavailable_partitions: bool,
    topics_with_overrides: bool,
    exclude_internal: bool,
    as_json: bool,
    bootstrap_server: str,
) -> None:
    """Show partitions, leaders, replicas and settings of TOPICS, or of all.

    Outside a terminal the lines have the shape of Kafka's own kafka-topics.sh --describe.
    """
    with admin.connected(bootstrap_server) as cluster:
        view = cluster.metadata(topics or None, refresh=True)
        found = [_known(view, name) for name in topics] if topics else _sorted(view.topics.values(), exclude_internal)
        settings = _overrides(cluster, [topic.name for topic in found])
    if topics_with_overrides:
        found = [topic for topic in found if settings[topic.name]]
    described = []
    for topic in found:
        partitions = [
            number
            for number, partition in sorted(topic.partitions.items())
            if not (under_replicated_partitions and not _is_under_replicated(partition))
            and not (unavailable_partitions and partition.leader >= 0)
        ]
        if partitions or not (under_replicated_partitions or unavailable_partitions):
            described.append((topic, partitions))
    if as_json:
        print_json([_details(topic, partitions, settings[topic.name]) for topic, partitions in described])
        return
    for topic, partitions in described:
        _print_description(topic, partitions, settings[topic.name])


@command.command()
@_topic
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="Set a setting; repeatable.")
@click.option("--delete-config", "deleted", multiple=True, metavar="NAME", help="Back to the default; repeatable.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="The new number of partitions, a higher one.")
@_dry_run
@bootstrap_server
def alter(
    topic: str,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    partitions: int | None,
    validate_only: bool,
    bootstrap_server: str,
) -> None:
    """Change a topic's settings or its number of partitions."""
    changed = assignments(configs, "--config")
    if not changed and not deleted and partitions is None:
        raise click.UsageError("nothing to change: give --config, --delete-config or --partitions")
    with admin.connected(bootstrap_server) as cluster:
        if changed or deleted:
            resource = Resource.topic(topic)
            admin.alter_configs(cluster, resource, changed=changed, deleted=deleted, validate_only=validate_only)
        if partitions is not None:
            admin.add_partitions(cluster, topic, partitions, validate_only=validate_only)
    note(f"topic {topic} {'could be altered' if validate_only else 'altered'}")


@command.command()
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Pass over topics that do not exist.")
@yes
@bootstrap_server
def delete(topics: tuple[str, ...], if_exists: bool, yes: bool, bootstrap_server: str) -> None:
    """Delete TOPICS with all their messages. Asks first on a terminal."""
    confirmed(f"Delete {', '.join(topics)} with all messages?", yes=yes)
    with admin.connected(bootstrap_server) as cluster:
        for topic in topics:
            try:
                admin.delete_topic(cluster, topic)
            except UnknownTopicOrPartition:
                if not if_exists:
                    raise UserError(f"there is no topic {topic}") from None
                note(f"there is no topic {topic}")
            else:
                note(f"topic {topic} deleted")


@command.command("add-partitions")
@_topic
@click.option("--add", "more", type=click.IntRange(1), metavar="N", help="So many more than there are.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="So many in all.")
@click.option("--replica-assignment", metavar="B:B,B:B,...", help="The brokers of each new partition.")
@_dry_run
@bootstrap_server
def add_partitions(
    topic: str,
    more: int | None,
    partitions: int | None,
    replica_assignment: str | None,
    validate_only: bool,
    bootstrap_server: str,
) -> None:
    """Give a topic more partitions.

    Keys then go to other partitions than before, so that their order ends here; a topic never gets fewer partitions.
    """
    if (more is None) == (partitions is None):
        raise click.UsageError("give either --add or --partitions")
    assignment = None if replica_assignment is None else parse_assignment(replica_assignment)
    with admin.connected(bootstrap_server) as cluster:
        total = partitions if partitions is not None else 0
        if more is not None:
            total = len(_known(cluster.metadata([topic], refresh=True), topic).partitions) + more
        admin.add_partitions(cluster, topic, total, assignment=assignment, validate_only=validate_only)
    note(f"topic {topic} {'could have' if validate_only else 'has'} {counted(total, 'partition')}")


def parse_assignment(text: str) -> Assignment:
    """`0:1,1:2` as Kafka's tools write it: partitions with commas, their replicas with colons."""
    try:
        found = [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--replica-assignment wants broker ids as in 0:1,1:2, not {text!r}") from None
    return found


def _known(view: MetadataView, name: str) -> TopicView:
    try:
        return view.topic(name)
    except UnknownTopicOrPartition:
        raise UserError(f"there is no topic {name}") from None


def _sorted(topics: Iterable[TopicView], exclude_internal: bool) -> list[TopicView]:
    return sorted((t for t in topics if not (t.internal and exclude_internal)), key=lambda topic: topic.name)


def _overrides(cluster: BlockingCluster, names: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """For each topic the settings that are its own."""
    if not names:
        return {}
    found = admin.describe_configs(cluster, [Resource.topic(name) for name in names])
    return {
        resource.name: {s.name: s.value for s in settings if s.source == admin.DYNAMIC_TOPIC}
        for resource, settings in found.items()
    }


def _is_under_replicated(partition: PartitionView) -> bool:
    return len(partition.isr) < len(partition.replicas)


def _under_replicated(topic: TopicView) -> list[int]:
    return [number for number, partition in topic.partitions.items() if _is_under_replicated(partition)]


def _replication_factor(topic: TopicView) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _summary(topic: TopicView) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": admin.topic_id_text(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "internal": topic.internal,
        "under_replicated": len(_under_replicated(topic)),
    }


def _details(topic: TopicView, partitions: Sequence[int], settings: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": admin.topic_id_text(topic.topic_id),
        "internal": topic.internal,
        "replication_factor": _replication_factor(topic),
        "configs": settings,
        "partitions": [
            {
                "partition": number,
                "leader": topic.partitions[number].leader if topic.partitions[number].leader >= 0 else None,
                "leader_epoch": topic.partitions[number].leader_epoch,
                "replicas": topic.partitions[number].replicas,
                "isr": topic.partitions[number].isr,
                "offline": topic.partitions[number].offline,
            }
            for number in partitions
        ],
    }


def _print_description(topic: TopicView, partitions: Sequence[int], settings: Mapping[str, str | None]) -> None:
    configs = ",".join(f"{name}={value}" for name, value in settings.items())
    head = (
        f"Topic: {topic.name}\tTopicId: {admin.topic_id_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {_replication_factor(topic)}\tConfigs: {configs}"
    )
    if on_terminal():
        rows = [(number, *_row(topic.partitions[number])) for number in partitions]
        title = f"{topic.name}  id {admin.topic_id_text(topic.topic_id)}" + (f"  {configs}" if configs else "")
        print_table(("Partition", "Leader", "Epoch", "Replicas", "In sync", "Offline"), rows, title=title)
        return
    click.echo(head)
    for number in partitions:
        partition = topic.partitions[number]
        leader = str(partition.leader) if partition.leader >= 0 else "none"
        click.echo(
            f"\tTopic: {topic.name}\tPartition: {number}\tLeader: {leader}"
            f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}"
        )


def _row(partition: PartitionView) -> tuple[object, ...]:
    leader = partition.leader if partition.leader >= 0 else "none"
    return leader, partition.leader_epoch, partition.replicas, partition.isr, partition.offline


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
