"""What a handler gets and what it may give back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kafka_wire.messages import RequestHeader


class Client(Protocol):
    """The connection a request came by, as far as handlers may know it."""

    host: str
    listener: str


class Later:
    """Returned by a handler that will call `request.respond` itself."""


LATER = Later()


class Request:
    """One request in the order of its connection; `respond` may be called at once, later, or never (acks=0)."""

    __slots__ = ("_respond", "body", "connection", "gone", "header", "parts", "received")

    def __init__(
        self,
        header: RequestHeader,
        body: Any,
        connection: Client,
        respond: Callable[[Request, Any], None],
        received: float = 0.0,
    ) -> None:
        self.header = header
        self.body = body
        self.connection = connection
        self.received = received
        self.parts: list[Any] | None = None
        self.gone = False
        self._respond = respond

    def respond(self, body: Any) -> None:
        """Answers; the connection sends answers in the order of the requests."""
        self._respond(self, body)
