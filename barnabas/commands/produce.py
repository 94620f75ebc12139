"""`barnabas produce TOPIC`: every line of stdin a message."""

import os
import select
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import click

from barnabas import admin, options
from barnabas.delivery import Delivery, Sent, Terms
from barnabas.errors import UserError
from barnabas.message_format import unescape
from barnabas.output import note
from barnabas.reaching import reached
from barnabas.sending import Outbox, Parser, Splitter
from kafka_wire import compression
from kafka_wire.records import Header

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
LINGER = 0.005  # seconds without a new line after which what was read is sent
LONGEST_LINGER = 0.1  # the same for lines that keep coming, but slowly
LONGEST_LINE = 64 << 20
READ_SIZE = 256 * 1024


class Progress:
    """A line on the terminal that counts, at most twice a second, and a last one that stays."""

    def __init__(self, topic: str, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._clock = clock
        self._started = self._shown = clock()
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty() and not sys.stdin.isatty()

    def update(self, sent: Sent) -> None:
        """Show where we are."""
        if self._live and self._clock() - self._shown > 0.5:
            self._shown = self._clock()
            click.echo(f"\r{self._text(sent)}\x1b[K", err=True, nl=False)

    def end(self, sent: Sent, *, unfinished: bool) -> None:
        """Say what was done."""
        if not self._quiet:
            start = "\r\x1b[K" if self._live else ""
            note(f"{start}{self._text(sent)}{', stopped before the end' if unfinished else ''}")

    def _text(self, sent: Sent) -> str:
        seconds = max(self._clock() - self._started, 1e-6)
        plural = "" if sent.messages == 1 else "s"
        return (
            f"{sent.messages:,} message{plural} ({sent.bytes:,} bytes) sent to {self._topic} "
            f"in {seconds:.1f} s, {sent.messages / seconds:,.0f}/s"
        )


class Source(NamedTuple):
    """Where lines come from and what they become."""

    fd: int
    splitter: Splitter
    parser: Parser


def read_and_send(source: Source, outbox: Outbox, delivery: Delivery, progress: Progress) -> None:
    """All lines until the end of the input; a batch goes out when it is full, or when no line came for LINGER."""
    waiting_since = time.monotonic()
    while True:
        if not outbox.messages:
            waiting_since = time.monotonic()
        elif not _readable(source.fd, LINGER) or time.monotonic() - waiting_since > LONGEST_LINGER:
            delivery.send(outbox)
            progress.update(delivery.sent)
        data = os.read(source.fd, READ_SIZE)
        lines = source.splitter.feed(data) if data else source.splitter.end()
        if source.splitter.buffered > LONGEST_LINE:
            raise UserError(f"a line is longer than {LONGEST_LINE} bytes: is the delimiter right?")
        now_ms = time.time_ns() // 1_000_000
        for line in lines:
            outbox.add(source.parser.record(line, now_ms))
            if outbox.is_full:
                delivery.send(outbox)
                progress.update(delivery.sent)
        if not data:
            delivery.send(outbox)
            return


def _readable(fd: int, timeout: float) -> bool:
    return bool(select.select([fd], [], [], timeout)[0])


def headers_of(texts: tuple[str, ...]) -> tuple[Header, ...]:
    """NAME=VALUE each; a name may come more than once, and without `=` the value is null."""
    found: list[Header] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter(f"NAME=VALUE is wanted, not {text!r}", param_hint="--header")
        found.append((name, value.encode("utf-8", "surrogateescape") if equals else None))
    return tuple(found)


def bytes_of(text: str | None, option: str) -> bytes | None:
    """An option's text with its escapes resolved; not empty."""
    if text is None:
        return None
    try:
        found = unescape(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    if not found:
        raise click.BadParameter("it may not be empty", param_hint=option)
    return found


@click.command("produce")
@click.argument("topic")
@options.bootstrap_server
@click.option("-K", "--key-separator", metavar="TEXT", help="What stands before it in a line is the key.")
@click.option("-D", "--delimiter", metavar="TEXT", default="\\n", show_default=True, help="What ends a message.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="The partition for all messages.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every message.")
@click.option("-Z", "--null-marker", metavar="TEXT", help="A key or value that reads like this is null.")
@click.option("-z", "--compression", "codec", type=click.Choice(compression.NAMES), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Who must have it.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to try when brokers do not answer.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def command(
    topic: str,
    bootstrap_server: str,
    key_separator: str | None,
    delimiter: str,
    partition: int | None,
    headers: tuple[str, ...],
    null_marker: str | None,
    codec: str,
    acks: str,
    timeout: float,
    quiet: bool,
) -> None:
    """Send lines from stdin to TOPIC, each as a message.

    Messages with a key go to the partition that Kafka's Java client would choose, others to one partition after
    another in batches. With --acks all (the default) every message is stored once, also when brokers fail and
    answers are lost. Texts may hold escapes: \\t, \\n, \\0, \\x1e.

    \b
    barnabas produce logs < app.log
    echo "user1:hello" | barnabas produce events -K : -H source=shell -z zstd
    """
    separator, null = bytes_of(key_separator, "--key-separator"), bytes_of(null_marker, "--null-marker")
    parser = Parser(separator, null, headers_of(headers))
    splitter = Splitter(bytes_of(delimiter, "--delimiter") or b"\n")
    terms = Terms(topic, ACKS[acks], compression.codec_id(codec), timeout)
    with admin.connected(bootstrap_server, timeout) as cluster:
        delivery = Delivery(cluster, terms)
        with reached():
            count = delivery.partition_count()
        if partition is not None and partition >= count:
            raise UserError(f"{topic} has no partition {partition}: its partitions are 0 to {count - 1}")
        outbox = Outbox(count, only=partition)
        progress = Progress(topic, quiet=quiet)
        unfinished = True
        try:
            read_and_send(Source(sys.stdin.fileno(), splitter, parser), outbox, delivery, progress)
            unfinished = False
        except KeyboardInterrupt:
            delivery.send(outbox)  # what was read is sent, whatever comes next
            if not sys.stdin.isatty():  # there Ctrl-C is a way to end the input; elsewhere some of it was not read
                raise click.exceptions.Exit(1) from None
        finally:
            progress.end(delivery.sent, unfinished=unfinished)
