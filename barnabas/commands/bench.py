"""`barnabas bench`: what a broker does with load, alone or next to another broker.

The measurements are in barnabas.bench; this module turns options into cases and outcomes into tables.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.errors import UserError
from barnabas.options import assignments, bootstrap_server, json_output
from barnabas.output import note, print_json, print_table

if TYPE_CHECKING:
    from barnabas.bench.cases import Case
    from barnabas.bench.sample import Sample
    from barnabas.bench.target import Target

F = TypeVar("F", bound=Callable[..., Any])
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("all", "1", "0")
GROUPS = ("produce", "fetch", "small-requests", "latency")
NEEDED = {"confluent_kafka": "confluent-kafka", "hdrh": "hdrhistogram", "psutil": "psutil"}


def numbers(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    """A whole number above zero, or several with commas between them: one case each."""
    try:
        found = tuple(int(part.replace("_", "")) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number, nor numbers with commas between them") from None
    if any(number <= 0 for number in found):
        raise click.BadParameter("every number must be above 0")
    return found


def common_options(command: F) -> F:
    """Options of every measurement: the brokers, the rounds, the output."""
    for option in reversed(
        (
            bootstrap_server,
            click.option("--pid", type=int, help="The broker's process, for its CPU [default: who listens there]."),
            click.option("--topic-config", multiple=True, metavar="NAME=VALUE", help="A setting of the run's topics."),
            click.option("--against", metavar="HOST:PORT", help="A second broker: runs alternate, ratios are printed."),
            click.option("--against-pid", type=int, help="The second broker's process."),
            click.option("--against-topic-config", multiple=True, metavar="NAME=VALUE", help="As --topic-config."),
            click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Runs of every case."),
            json_output,
        )
    ):
        command = option(command)
    return command


def timing(command: F) -> F:
    """Options of measurements that last for a time."""
    command = click.option(
        "--warm-up", type=click.FloatRange(0.0), default=1.0, show_default=True, help="Seconds before a run counts."
    )(command)
    return click.option(
        "--seconds",
        type=click.FloatRange(0.0, min_open=True),
        default=5.0,
        show_default=True,
        help="Length of a run.",
    )(command)


def _number_option(name: str, default: str, text: str) -> Callable[[F], F]:
    return click.option(name, callback=numbers, metavar="N[,N...]", default=default, show_default=True, help=text)


partitions = _number_option("--partitions", "1", "Partitions of the topic.")
size = _number_option("--size", "200", "Bytes of a message.")
codec = click.option("--codec", type=click.Choice(CODECS), default="none", show_default=True, help="Compression.")
acks = click.option("--acks", type=click.Choice(ACKS), default="all", show_default=True, help="Acknowledgement.")
processes = click.option(
    "--processes", type=click.IntRange(1), default=1, show_default=True, help="Load generators at the same time."
)
client = click.option(
    "--client",
    type=click.Choice(("librdkafka", "raw")),
    default="librdkafka",
    show_default=True,
    help="A real client, or requests encoded once on raw sockets.",
)


@click.group()
@click.pass_context
def command(context: click.Context) -> None:
    """Measure a broker: throughput, latency, CPU per message; alone or against a second one.

    \b
    barnabas bench produce --bootstrap-server localhost:9092 --against localhost:19092
    barnabas bench small-requests --connections 1,8,64 --in-flight 1,16
    barnabas bench install-kafka && barnabas bench compare
    """
    if context.invoked_subcommand == install_kafka.name:
        return
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(f"the benchmarks need {', '.join(missing)}: pip install 'barnabas[bench]'")


@command.command("install-kafka")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where to [default: the user's cache].")
def install_kafka(directory: Path | None) -> None:
    """Fetch Apache Kafka, to measure against, with Maven."""
    from barnabas.peers.kafka_install import VERSION, PeerUnavailable, default_directory, install

    try:
        jars = install(directory)
    except PeerUnavailable as problem:
        raise UserError(str(problem)) from None
    click.echo(f"Apache Kafka {VERSION}: {len(jars)} jars in {directory or default_directory()}")


@command.command()
@common_options
@timing
@partitions
@size
@codec
@acks
@client
@processes
@click.option("--messages", type=int, help="End a run after so many instead of --seconds (librdkafka).")
@click.option("--connections", type=int, default=2, show_default=True, help="Connections of the raw client.")
@click.option("--in-flight", type=int, default=5, show_default=True, help="Requests in flight on each (raw).")
@click.option("--batch-bytes", type=int, default=250_000, show_default=True, help="Size of a batch (raw).")
def produce(partitions: Sequence[int], size: Sequence[int], **options: Any) -> None:
    """Messages a second into a topic."""
    from barnabas.bench.produce import ProduceCase

    if options["client"] == "raw" and options["acks"] == "0":
        raise click.UsageError("the raw client counts answers, and with --acks 0 there are none")
    run = Call(options)
    cases = [ProduceCase(partitions=count, size=length, **run.rest) for count in partitions for length in size]
    run.show(cases)


@command.command()
@common_options
@partitions
@size
@codec
@client
@processes
@click.option("--messages", type=int, default=2_000_000, show_default=True, help="Messages in the topic.")
@click.option("--partition-bytes", type=int, default=1 << 20, show_default=True, help="Most bytes of a partition.")
def fetch(partitions: Sequence[int], size: Sequence[int], **options: Any) -> None:
    """Messages a second out of a topic, from the page cache."""
    from barnabas.bench.fetch import FetchCase

    run = Call(options)
    run.show([FetchCase(partitions=count, size=length, **run.rest) for count in partitions for length in size])


@command.command()
@common_options
@timing
@partitions
@size
@codec
@acks
@_number_option("--rate", "1000,10000", "Messages a second.")
def latency(partitions: Sequence[int], size: Sequence[int], rate: Sequence[int], **options: Any) -> None:
    """Time from a producer's call to a consumer's hands, at a given rate."""
    from barnabas.bench.latency import LatencyCase

    run = Call(options)
    wanted = itertools.product(partitions, size, rate)
    run.show([LatencyCase(partitions=count, size=length, rate=each, **run.rest) for count, length, each in wanted])


@command.command("small-requests")
@common_options
@timing
@_number_option("--connections", "1,8,64", "Connections.")
@_number_option("--in-flight", "1,16", "Requests in flight on each.")
@_number_option("--size", "100", "Bytes of the one record in a request.")
@click.option("--acks", type=click.Choice(("all", "1")), default="all", show_default=True, help="Acknowledgement.")
@click.option("--version", type=click.IntRange(3, 9), default=9, show_default=True, help="Version of Produce.")
@processes
def small_requests(connections: Sequence[int], in_flight: Sequence[int], size: Sequence[int], **options: Any) -> None:
    """Produce requests of one record a second, on raw sockets."""
    from barnabas.bench.small_requests import SmallRequestsCase

    run = Call(options)
    wanted = itertools.product(connections, in_flight, size)
    run.show([SmallRequestsCase(connections=c, in_flight=depth, size=s, **run.rest) for c, depth, s in wanted])


@command.command("compare")
@click.option("--mode", "modes", multiple=True, type=click.Choice(("replicated", "flushed")), help="[default: both]")
@click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS), help="Only these [default: all].")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Runs of every case and broker.")
@timing
@click.option("--output", type=click.Path(path_type=Path), help="Also write OUTPUT.inc (reST) and OUTPUT.json.")
@json_output
def compare_all(
    modes: Sequence[str], groups: Sequence[str], output: Path | None, as_json: bool, **lengths: Any
) -> None:
    """The whole table against Apache Kafka; starts both brokers with embedded ZooKeepers. Takes half an hour."""
    from barnabas.bench.cases import MODES
    from barnabas.bench.compare import compare
    from barnabas.bench.report import COLUMNS, rows, rst
    from barnabas.peers.kafka_install import PeerUnavailable

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers and data go away then, too
    chosen = [mode for name, mode in MODES.items() if name in modes or not modes]
    try:
        found = compare(chosen, groups or None, report=_progress, say=note, **lengths)
    except PeerUnavailable as problem:
        raise UserError(str(problem)) from None
    if output is not None:
        output.with_suffix(".inc").write_text(rst(found), encoding="utf-8")
        output.with_suffix(".json").write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(found.as_json())
        return
    for one in found.rest:
        note(
            f"{one.name}: ready after {one.ready_seconds:.2f} s, {one.memory / 1e6:,.0f} MB at rest, "
            f"{one.memory_after_load / 1e6:,.0f} MB after the load"
        )
    print_table(COLUMNS, [row for _, _, outcome in found.outcomes for row in rows(outcome)])


class Call:
    """The options of one measurement, taken apart: the brokers, the rounds, the output; `rest` describes the case."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.targets = [_target(options, "bootstrap_server", "")]
        if options["against"] is not None:
            self.targets.append(_target(options, "against", "against_"))
        for name in ("bootstrap_server", "against", "pid", "against_pid", "topic_config", "against_topic_config"):
            del options[name]
        self.rounds: int = options.pop("rounds")
        self.as_json: bool = options.pop("as_json")
        self.rest = options

    def show(self, cases: Sequence[Case]) -> None:
        """Runs them; a line per case and broker, and under two brokers their ratio (first over second)."""
        from barnabas.bench.report import COLUMNS, rows
        from barnabas.bench.run_case import run_case

        outcomes = [run_case(case, self.targets, self.rounds, _progress) for case in cases]
        if self.as_json:
            print_json([outcome.as_json() for outcome in outcomes])
        else:
            print_table(COLUMNS, [row for outcome in outcomes for row in rows(outcome)])


def _target(options: Mapping[str, Any], address_option: str, prefix: str) -> Target:
    from barnabas.bench.target import Target, listening_pid

    address: str = options[address_option]
    pid: int | None = options[f"{prefix}pid"]
    config = assignments(options[f"{prefix}topic_config"], f"--{prefix}topic-config".replace("_", "-"))
    return Target(address, address, listening_pid(address) if pid is None else pid, config)


def _progress(case: str, broker: str, sample: Sample) -> None:
    micros = sample.broker_micros
    cpu = "" if micros is None else f", {micros:.2f} µs of broker CPU each"
    tail = "" if sample.latencies is None else f", p99 {sample.latencies.p99:,.0f} µs"
    note(f"{case}: {broker}: {sample.rate:,.0f}/s{cpu}{tail}")
