"""kafkajs: a small node program beside this file takes one command as JSON and answers with JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from integration import tools
from integration.clients.base import CODECS, Received, Record

_PROGRAM = Path(__file__).with_name("kafkajs_client.js")


def call(bootstrap: str, command: str, timeout: float = 60.0, **arguments: Any) -> Any:
    """What the node program answers; its own failure is an AssertionError with its text."""
    request = json.dumps({"bootstrap": bootstrap, "command": command, **arguments}).encode()
    environment = {"NODE_PATH": str(tools.TOOLS / "node" / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    done = tools.run([tools.node(), str(_PROGRAM)], stdin=request, timeout=timeout, environment=environment)
    return json.loads(done.stdout)


class KafkaJs:
    """Its consumer cannot do without a group, so reading fetches through its broker connection (see the program)."""

    name: ClassVar[str] = "kafkajs"
    writes: ClassVar[Sequence[str]] = CODECS
    sets_timestamps: ClassVar[bool] = True
    line_bound: ClassVar[bool] = False

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[int] | None:
        """See base.Client."""
        messages = [
            {
                "key": _encode(record.key),
                "value": _encode(record.value),
                "headers": [[name, _encode(value)] for name, value in record.headers],
                "timestamp": None if record.timestamp is None else str(record.timestamp),
            }
            for record in records
        ]
        first = int(call(bootstrap, "produce", topic=topic, messages=messages, codec=codec)["baseOffset"])
        return list(range(first, first + len(records)))

    def read(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """See base.Client."""
        return [
            Received(
                int(message["offset"]),
                _decode(message["key"]),
                _decode(message["value"]),
                tuple((name, _decode(value)) for name, value in message["headers"]),
                int(message["timestamp"]),
            )
            for message in call(bootstrap, "consume", topic=topic, count=count)
        ]


def _encode(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
