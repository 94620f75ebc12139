"""`barnabas consume TOPIC...`: messages to stdout."""

import errno
import select
import sys
import time
from collections.abc import Callable
from typing import BinaryIO, Protocol

import attrs
import click

from barnabas import admin, options
from barnabas.message_format import DEFAULT, Formatter, Message, compile_format, json_line
from barnabas.output import note
from barnabas.reaching import reached
from barnabas.reading import Reader
from barnabas.start_offset import Kind, Start, parse_start

POLL = 1.0


@attrs.frozen
class Stop:
    """When to end, besides Ctrl-C."""

    max_messages: int | None
    timeout: float | None
    at_end: bool


class Output:
    """Bytes to stdout; BrokenPipeError when nobody reads it any more, even while there is nothing to write."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._poll = select.poll()
        self._poll.register(stream, 0)  # errors and hang-ups are always told

    def write(self, data: bytes) -> None:
        """All of it, at once; an unbuffered stream (PYTHONUNBUFFERED) may take only a part at a time."""
        left = memoryview(data)
        while left:
            left = left[self._stream.write(left) :]
        self._stream.flush()

    def check(self) -> None:
        """Whether `consume | head` has had enough."""
        if self._poll.poll(0):
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output")


class Readable(Protocol):
    """Where messages come from."""

    @property
    def is_at_end(self) -> bool:
        """Whether everything that there was is read."""

    def poll(self, timeout: float, /) -> list[Message]:
        """What came within so many seconds."""


def print_messages(
    reader: Readable, formatted: Formatter, stop: Stop, output: Output, clock: Callable[[], float] = time.monotonic
) -> int:
    """Write messages until it is time to stop; how many there were."""
    count, last_new = 0, clock()
    while count != stop.max_messages and not (stop.at_end and reader.is_at_end):
        patience = POLL if stop.timeout is None else min(POLL, last_new + stop.timeout - clock())
        if patience <= 0:
            break
        messages = reader.poll(patience)
        if messages:
            if stop.max_messages is not None:
                messages = messages[: stop.max_messages - count]
            output.write(b"".join([formatted(message) for message in messages]))
            count += len(messages)
            last_new = clock()
        else:
            output.check()
    return count


def _start(context: click.Context, parameter: click.Parameter, value: str | None) -> Start | None:
    if value is None:
        return None
    try:
        return parse_start(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _format(context: click.Context, parameter: click.Parameter, value: str) -> Formatter:
    try:
        return compile_format(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@options.bootstrap_server
@click.option("--from-beginning", is_flag=True, help="All messages that there are, then the new ones.")
@click.option(
    "-o",
    "--offset",
    "start",
    callback=_start,
    metavar="WHERE",
    help="beginning, end (the default), N, -N (so many before the end), s@MILLISECONDS, or a time like "
    "2026-11-18T12:00 (local unless it says otherwise).",
)
@click.option(
    "-G",
    "--group",
    metavar="GROUP",
    help="Share the messages with the other members of this group, and go on where it stopped.",
)
@options.zookeeper
@click.option(
    "--strategy",
    type=click.Choice(["range", "roundrobin", "sticky"]),
    default="range",
    show_default=True,
    help="How the group shares partitions.",
)
@click.option("-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one.")
@click.option("-n", "-c", "--max-messages", type=click.IntRange(min=0), metavar="N", help="End after N messages.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="End when nothing new came for so long.",
)
@click.option("-e", "--exit-at-end", is_flag=True, help="End when all messages were read.")
@click.option(
    "-f",
    "--format",
    "formatted",
    callback=_format,
    default=DEFAULT,
    show_default=True,
    help="As kcat's: %t topic, %p partition, %o offset, %k key, %s payload, %K and %S their lengths, "
    "%T timestamp in ms, %h headers, \\n, \\t, \\xHH.",
)
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line, with kcat's names.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on stderr.")
def command(
    topics: tuple[str, ...],
    bootstrap_server: str,
    from_beginning: bool,
    start: Start | None,
    group: str | None,
    zookeeper: str,
    strategy: str,
    partitions: tuple[int, ...],
    max_messages: int | None,
    timeout: float | None,
    exit_at_end: bool,
    formatted: Formatter,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the messages of TOPICs, those to come unless told otherwise, until Ctrl-C.

    In JSON, keys and payloads that are not UTF-8 come as key_base64 and payload_base64.

    \b
    barnabas consume logs --from-beginning
    barnabas consume logs -o -10 -e                      the last ten of each partition
    barnabas consume logs -o 2026-11-18T12:00 -f '%T %k %s\\n'
    barnabas consume logs --group reports                as many of these as you like
    """
    if from_beginning and start is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    tell = (lambda _: None) if quiet else note
    shown, stop = json_line if as_json else formatted, Stop(max_messages, timeout, exit_at_end)
    if group is not None:
        if start is not None or partitions:
            raise click.UsageError("a group has its own offsets and partitions: no --offset and no --partition with it")
        consume_in_group(
            group, zookeeper, topics, shown, stop, from_beginning=from_beginning, strategy=strategy, tell=tell
        )
        return
    if start is None:
        start = Start(Kind.BEGINNING if from_beginning else Kind.END)
    with admin.connected(bootstrap_server) as cluster:
        with reached():
            reader = Reader(cluster, topics, start, partitions=partitions, tell=tell)
        try:
            count = print_messages(reader, shown, stop, Output(sys.stdout.buffer))
        except KeyboardInterrupt:
            return
        finally:
            reader.close()
        tell(_counted(count))


def _counted(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def consume_in_group(
    group: str,
    zookeeper: str,
    topics: tuple[str, ...],
    formatted: Formatter,
    stop: Stop,
    *,
    from_beginning: bool,
    strategy: str,
    tell: Callable[[str], object],
) -> None:
    """Print messages as a member of a group; what was printed is committed at the end."""
    from barnabas.group_reading import GroupReader

    reader = GroupReader(
        zookeeper,
        group,
        topics,
        from_beginning=from_beginning,
        strategy=strategy,
        max_messages=stop.max_messages,
    )
    printed = False
    try:
        count = print_messages(reader, formatted, stop, Output(sys.stdout.buffer))
        printed = True
        tell(_counted(count))
    except KeyboardInterrupt:
        pass  # what was printed before the poll that it interrupted is proven by that poll
    finally:
        reader.close(printed=printed)
