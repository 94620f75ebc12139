"""The conversation on one client connection, without a socket: requests to bytes, bytes to answers.

Rules. The first request is ApiVersions (KIP-35); nothing else may be sent before it is answered. A broker that does
not know our ApiVersions version answers in version 0 with UNSUPPORTED_VERSION and its own range (KIP-511): we ask
again within it. A broker answers in the order of the requests, so an answer that is not the oldest one's is an error
of the protocol and ends the connection, as does a request that is given up: the stream has no other way to say so.
"""

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from kafka_wire import errors
from kafka_wire.apis import SPOKEN, Api
from kafka_wire.errors import Malformed, UnsupportedVersion
from kafka_wire.framing import FrameSplitter
from kafka_wire.messages import decode_response, encode_request
from kafka_wire.schema.api_versions import ApiVersionsRequest

FRAME_LIMIT = 256 * 1024 * 1024  # an answer above this is not believed; Fetch's own default maximum is 50 MiB
SOFTWARE_NAME = "barnabas"
SOFTWARE_VERSION = "0.1.0"

_MAX_CORRELATION_ID = 2**31 - 1
_error_code = struct.Struct(">h")


class State(Enum):
    """What is known about the broker's versions."""

    FRESH = "nothing sent yet"
    NEGOTIATING = "ApiVersions sent"
    READY = "versions known"


class Answer(NamedTuple):
    """A response, and which request it belongs to."""

    correlation_id: int
    api: Api
    body: Any


class Pending(NamedTuple):
    """What must be remembered of a request to read its answer."""

    correlation_id: int
    api: Api
    version: int


def common_versions(offered: Mapping[int, tuple[int, int]]) -> dict[Api, tuple[int, int]]:
    """Per API the range that both sides speak; APIs without a common version are left out."""
    common: dict[Api, tuple[int, int]] = {}
    for api, (ours_low, ours_high) in SPOKEN.items():
        theirs = offered.get(int(api))
        if theirs is not None:
            low, high = max(ours_low, theirs[0]), min(ours_high, theirs[1])
            if low <= high:
                common[api] = (low, high)
    return common


class Exchange:
    """One connection's requests and answers. Illegal calls raise and change nothing; after Malformed it is over."""

    def __init__(self, client_id: str | None, *, frame_limit: int = FRAME_LIMIT) -> None:
        self.state = State.FRESH
        self.versions: dict[Api, tuple[int, int]] = {}
        self._client_id = client_id
        self._frames = FrameSplitter(frame_limit)
        self._pending: deque[Pending] = deque()
        self._last_id = 0

    @property
    def pending_count(self) -> int:
        """How many answers are awaited."""
        return len(self._pending)

    def start(self) -> list[Any]:
        """The parts of the first request, ApiVersions."""
        if self.state is not State.FRESH:
            raise RuntimeError(f"start in state {self.state}")
        self.state = State.NEGOTIATING
        return self._ask_versions(SPOKEN[Api.API_VERSIONS][1])

    def request(self, api: Api, body: Any, *, max_version: int | None = None) -> tuple[int, list[Any]]:
        """(correlation id, parts to send) in the highest common version, or in `max_version` if that is lower.

        Raises UnsupportedVersion where there is none. No answer is awaited for a Produce with acks 0.
        """
        version = self.version(api, max_version=max_version)
        awaited = api is not Api.PRODUCE or body.acks != 0
        return self._encode(api, version, body, awaited=awaited)

    def version(self, api: Api, *, max_version: int | None = None) -> int:
        """The version that `request` would use now."""
        if self.state is not State.READY:
            raise RuntimeError(f"a request in state {self.state}")
        both = self.versions.get(api)
        if both is None:
            raise UnsupportedVersion(f"the broker and we have no version of {api.name} in common")
        low, high = both
        if max_version is not None and max_version < high:
            if max_version < low:
                raise UnsupportedVersion(f"the broker speaks no {api.name} up to version {max_version}")
            return max_version
        return high

    def receive(self, data: bytes) -> tuple[list[Answer], list[Any]]:
        """(answers now complete, parts to send at once); the latter only while versions are negotiated.

        The answer to ApiVersions itself is not among them: `state` turns READY. Malformed ends the conversation, and
        so does a KafkaError of the broker's answer to ApiVersions.
        """
        answers: list[Answer] = []
        to_send: list[Any] = []
        for frame in self._frames.feed(data):
            if not self._pending:
                raise Malformed("an answer to nothing")
            awaited = self._pending.popleft()
            if self.state is State.NEGOTIATING:
                to_send += self._learn_versions(awaited, frame)
                continue
            correlation_id, body = decode_response(awaited.api, awaited.version, frame, 0, len(frame))
            _check_order(awaited, correlation_id)
            answers.append(Answer(correlation_id, awaited.api, body))
        return answers, to_send

    def _ask_versions(self, version: int) -> list[Any]:
        body = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        return self._encode(Api.API_VERSIONS, version, body, awaited=True)[1]

    def _encode(self, api: Api, version: int, body: Any, *, awaited: bool) -> tuple[int, list[Any]]:
        correlation_id = self._last_id + 1 if self._last_id < _MAX_CORRELATION_ID else 1
        parts = list(encode_request(api, version, correlation_id, self._client_id, body))
        self._last_id = correlation_id
        if awaited:
            self._pending.append(Pending(correlation_id, api, version))
        return correlation_id, parts

    def _learn_versions(self, awaited: Pending, frame: bytes | memoryview) -> list[Any]:
        """The error code comes first in every version, so it is read before the version of the answer is known."""
        if len(frame) < 6:
            raise Malformed("an answer to ApiVersions of less than six bytes")
        refused = _error_code.unpack_from(frame, 4)[0] == errors.UNSUPPORTED_VERSION
        correlation_id, body = decode_response(awaited.api, 0 if refused else awaited.version, frame, 0, len(frame))
        _check_order(awaited, correlation_id)
        offered = {key.api_key: (key.min_version, key.max_version) for key in body.api_keys}
        if refused:
            again = min(offered.get(int(Api.API_VERSIONS), (0, 0))[1], awaited.version - 1)
            if again < 0:
                raise UnsupportedVersion("the broker refuses every version of ApiVersions")
            return self._ask_versions(again)
        if body.error_code:
            raise errors.for_code(body.error_code)("in the answer to ApiVersions")
        self.versions = common_versions(offered)
        self.state = State.READY
        return []


def _check_order(awaited: Pending, correlation_id: int) -> None:
    if correlation_id != awaited.correlation_id:
        raise Malformed(f"answer {correlation_id} where {awaited.correlation_id} was due")


def parse_bootstrap(bootstrap: str, default_port: int = 9092) -> list[tuple[str, int]]:
    """(host, port) of each entry of "host:port,host:port"; IPv6 in brackets. ValueError names the bad entry."""
    addresses: list[tuple[str, int]] = []
    for entry in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = entry.rpartition(":")
        if not colon or (entry.startswith("[") and entry.endswith("]")):
            host, port = entry, str(default_port)
        if not port.isdecimal() or not 0 < int(port) < 65536 or not host.strip("[]"):
            raise ValueError(f"not an address of the form host:port: {entry!r}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no bootstrap address")
    return addresses


def back_off(failures: int, base: float, limit: float, uniform: Callable[[float, float], float]) -> float:
    """Seconds to wait after so many failures in a row: doubling up to a limit, +- 20 % against marching in step."""
    return min(limit, base * 2 ** min(failures - 1, 30)) * uniform(0.8, 1.2) if failures > 0 else 0.0


def joined(parts: Sequence[Any]) -> bytes:
    """The parts of a request as one string of bytes."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)
