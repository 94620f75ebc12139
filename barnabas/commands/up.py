"""`barnabas up`: a cluster on this machine, in the foreground or detached."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from barnabas.errors import UserError
from barnabas.local_cluster import HOST, METRICS_PORT, LocalCluster, Plan, checked, directory_in_use
from barnabas.options import assignments, data_directory
from barnabas.output import note, on_terminal
from barnabas.pid_file import is_held
from barnabas.processes import last_words, port_is_taken

_WATCH_SECONDS = 0.25
_DETACHED_PROBE_SECONDS = 0.05
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _StopAsked(BaseException):
    """Ctrl-C, SIGTERM or a closed terminal. Not an Exception: nothing on the way may take it for a failure."""


@click.command("up")
@data_directory
@click.option("--brokers", type=click.IntRange(1, 100), default=1, show_default=True, metavar="N", help="How many.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Broker 0 listens here, broker 1 on the next port, and so on; 0 takes free ones.",
)
@click.option("--zookeeper", metavar="HOST:PORT,...[/CHROOT]", help="Use this ZooKeeper instead of an embedded one.")
@click.option(
    "--zookeeper-port",
    type=click.IntRange(0, 65535),
    default=2181,
    show_default=True,
    help="Port of the embedded ZooKeeper; 0 takes a free one.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help=f"Broker 0's /metrics, broker 1's on the next port; 0 for none.  [default: {METRICS_PORT} if free]",
)
@click.option("--override", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting for all brokers.")
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Until all must be ready.",
)
@click.option("--detach", is_flag=True, help="Return when the cluster is ready; `barnabas down` stops it.")
def command(
    data: Path,
    brokers: int,
    port: int,
    zookeeper: str | None,
    zookeeper_port: int,
    metrics_port: int | None,
    overrides: tuple[str, ...],
    timeout: float,
    detach: bool,
) -> None:
    """Start a cluster on this machine.

    Starts a ZooKeeper and the brokers, prints one line that begins with `ready` when clients can connect, and stops all
    of it cleanly on Ctrl-C or SIGTERM. Data stay in DATA for the next start. A broker that dies is reported and not
    started again.

    \b
    barnabas up                                     one broker on localhost:9092
    barnabas up --brokers 3 --data /tmp/three       three, on 9092, 9093 and 9094
    barnabas up --override log.retention.hours=1    with other settings than the default ones
    barnabas up --detach && barnabas topics list && barnabas down
    """
    plan = Plan(
        data=data.absolute(),
        brokers=brokers,
        port=port,
        zookeeper=zookeeper,
        zookeeper_port=zookeeper_port,
        metrics_port=_metrics_port(metrics_port, brokers),
        overrides=assignments(overrides, "--override"),
        ready_seconds=timeout,
    )
    if detach:
        _run_detached(plan)
    else:
        _run(plan)


def _metrics_port(wanted: int | None, brokers: int) -> int | None:
    """None for no metrics. The default ports are given up if another cluster has them; those asked for are not."""
    if wanted is not None:
        return wanted or None
    taken = [port for port in range(METRICS_PORT, METRICS_PORT + brokers) if port_is_taken(HOST, port)]
    if taken:
        note(f"port {taken[0]} is taken: the brokers run without /metrics; --metrics-port chooses other ports")
        return None
    return METRICS_PORT


def _run(plan: Plan) -> None:
    cluster = LocalCluster(plan, note)
    try:
        with _raising_on_signals():
            cluster.start()
            click.echo(_ready_line(cluster.plan))
            if on_terminal():
                note("Ctrl-C stops it")
            while True:
                for line in cluster.dead():
                    note(line)
                time.sleep(_WATCH_SECONDS)
    except _StopAsked:
        note("stopping")
    finally:
        with _killing_on_signals(cluster):
            cluster.stop()


def _ready_line(plan: Plan) -> str:
    return f"ready: brokers {plan.bootstrap_servers}, ZooKeeper {plan.zookeeper_connect}, data {plan.data}"


@contextlib.contextmanager
def _raising_on_signals() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        for each in _STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # one is enough; the next ones belong to _killing_on_signals
        raise _StopAsked

    for each in _STOP_SIGNALS:
        if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN:  # nohup has the last word
            signal.signal(each, stop)
    yield


@contextlib.contextmanager
def _killing_on_signals(cluster: LocalCluster) -> Iterator[None]:
    """While stopping, a second Ctrl-C means: at once."""

    def kill(number: int, frame: FrameType | None) -> None:
        cluster.kill()

    before = {each: signal.signal(each, kill) for each in _STOP_SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _run_detached(plan: Plan) -> None:
    """The same command in a session of its own; waits for its `ready`, or says what it died of."""
    held, pid = is_held(plan.data)
    if held:
        raise directory_in_use(plan.data, pid)
    plan = checked(plan.with_ports())
    log = plan.data / "logs" / "up.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    except OSError as error:
        raise UserError(f"the data directory {plan.data} cannot be used: {error.strerror}") from None
    with output:
        said_before = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas.cli", "up", *_arguments(plan)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        while True:
            code = process.poll()
            said = _said_since(log, said_before)
            for line in said.splitlines(keepends=True):
                if line.startswith("ready") and line.endswith("\n"):
                    click.echo(line.rstrip("\n"))
                    return
            if code is not None:
                raise UserError(last_words(said).removeprefix("barnabas: "))
            time.sleep(_DETACHED_PROBE_SECONDS)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def _arguments(plan: Plan) -> list[str]:
    arguments = {
        "--data": plan.data,
        "--brokers": plan.brokers,
        "--port": plan.port,
        "--zookeeper-port": plan.zookeeper_port,
        "--metrics-port": plan.metrics_port or 0,
        "--timeout": plan.ready_seconds,
    }
    if plan.zookeeper is not None:
        arguments["--zookeeper"] = plan.zookeeper
    overrides = [f"--override={name}={value}" for name, value in plan.overrides.items()]
    return [f"{name}={value}" for name, value in arguments.items()] + overrides


def _said_since(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")
