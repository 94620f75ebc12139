"""A plan shown, begun and followed to its end: what `topics reassign` and `brokers drain` have in common."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence

import click

from barnabas import moving
from barnabas.errors import UserError
from barnabas.moving import Place
from barnabas.options import confirmed
from barnabas.output import counted, note, on_terminal, print_json, print_table
from barnabas.replica_plan import copies
from kafka_wire.blocking import BlockingCluster
from kafka_wire.metadata_view import MetadataView

_AT_ONCE = 1000
"""Partitions in one request."""
_LOOK_SECONDS = 0.5


def broker_ids(view: MetadataView, text: str) -> list[int]:
    """`1,2,3` as ids of brokers that are there."""
    try:
        found = list(dict.fromkeys(int(one) for one in text.split(",")))
    except ValueError:
        raise click.UsageError(f"--brokers wants broker ids as in 1,2,3, not {text!r}") from None
    missing = [one for one in found if one not in view.brokers]
    if missing:
        raise UserError(f"there is no broker {', '.join(map(str, missing))}; there are {_ids(sorted(view.brokers))}")
    return found


def replicas_of(view: MetadataView, topics: Collection[str]) -> dict[Place, tuple[int, ...]]:
    """The replicas of every partition of these topics, or of all."""
    missing = sorted(set(topics) - set(view.topics))
    if missing:
        raise UserError(f"there is no topic {', '.join(missing)}")
    return {
        (topic.name, index): tuple(partition.replicas)
        for topic in view.topics.values()
        if not topics or topic.name in topics
        for index, partition in sorted(topic.partitions.items())
    }


def move(
    cluster: BlockingCluster,
    now: Mapping[Place, Sequence[int]],
    wanted: Mapping[Place, Sequence[int]],
    *,
    dry_run: bool,
    wait: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Shows the plan, asks, begins and follows."""
    under_way = sorted(set(moving.ongoing(cluster)) & set(wanted))
    if under_way:
        name, index = under_way[0]
        raise UserError(
            f"{counted(len(under_way), 'partition')} of the plan (first {name}-{index}) already on the move: "
            "wait for the end, or cancel"
        )
    if as_json:
        print_json(as_kafka(wanted))
    else:
        rows = [(name, index, now[name, index], new) for (name, index), new in sorted(wanted.items())]
        print_table(("Topic", "Partition", "Replicas", "New replicas"), rows, empty="nothing has to move")
    if not wanted or dry_run:
        return
    what = f"{counted(len(wanted), 'partition')}, {counted(copies(now, wanted), 'replica')} to copy"
    confirmed(f"Move {what}?", yes=yes)
    begin(cluster, wanted)
    note(f"moving {what}")
    if wait:
        follow(cluster, wanted)


def begin(cluster: BlockingCluster, wanted: Mapping[Place, Sequence[int] | None]) -> None:
    """Begins, or cancels, in requests of a sensible size."""
    places = list(wanted)
    for start in range(0, len(places), _AT_ONCE):
        moving.reassign(cluster, {place: wanted[place] for place in places[start : start + _AT_ONCE]})


def follow(cluster: BlockingCluster, places: Collection[Place]) -> None:
    """Until none of them is under way: a bar on a terminal, elsewhere a line whenever it goes on. Ctrl-C ends the
    watching, not the work.
    """
    try:
        _follow(cluster, places)
    except KeyboardInterrupt:
        note("the brokers go on moving; `barnabas status` shows how far they are")


def _follow(cluster: BlockingCluster, places: Collection[Place]) -> None:
    total, done = len(places), 0
    with click.progressbar(length=total, label="moved", file=sys.stderr, show_pos=True) as bar:
        while done < total:
            left = len(set(moving.ongoing(cluster)) & set(places))
            if total - left > done:
                bar.update(total - left - done)
                done = total - left
            if left:
                time.sleep(_LOOK_SECONDS)
    note(f"{counted(total, 'partition')} moved" if not on_terminal() else "done")


def cancel(cluster: BlockingCluster, topics: Collection[str]) -> None:
    """Takes back what is under way in these topics, or everywhere."""
    found = [place for place in moving.ongoing(cluster) if not topics or place[0] in topics]
    if not found:
        note("nothing is being moved")
        return
    begin(cluster, dict.fromkeys(found))
    note(f"{counted(len(found), 'reassignment')} cancelled")


def as_kafka(wanted: Mapping[Place, Sequence[int]]) -> dict[str, object]:
    """The plan as Kafka's kafka-reassign-partitions.sh reads it."""
    partitions = [
        {"topic": name, "partition": index, "replicas": list(replicas)}
        for (name, index), replicas in sorted(wanted.items())
    ]
    return {"version": 1, "partitions": partitions}


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
