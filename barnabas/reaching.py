"""What a person is told when no broker can be reached."""

import contextlib
from collections.abc import Iterator

from barnabas.errors import UserError
from kafka_wire.errors import NetworkException, RequestTimedOut


@contextlib.contextmanager
def reached() -> Iterator[None]:
    """Around the first question to a cluster: says what to do if nobody answers it."""
    try:
        yield
    except (NetworkException, RequestTimedOut) as error:
        hint = "start one with `barnabas up`, or name another with --bootstrap-server"
        raise UserError(f"{error.message}; {hint}") from error
