"""A broker's side of one connection for tests of clients: request bytes in, response bytes out, no socket."""

from collections.abc import Callable
from typing import Any

from kafka_wire import errors
from kafka_wire.apis import SPOKEN, Api
from kafka_wire.framing import FrameSplitter
from kafka_wire.messages import RequestHeader, decode_request, encode_response
from kafka_wire.schema.api_versions import ApiVersion, ApiVersionsResponse

Answer = Callable[[RequestHeader, Any], Any]

_CLIENTS_NEED = (Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS, Api.METADATA, Api.API_VERSIONS, Api.INIT_PRODUCER_ID)
DEFAULT_VERSIONS = {api: SPOKEN[api] for api in _CLIENTS_NEED}


def silence(_header: RequestHeader, _body: Any) -> None:
    """The answer of a broker that hangs."""


class FakeBroker:
    """Answers ApiVersions itself and everything else by `answer` (None: not at all); `seen` keeps what it was asked."""

    def __init__(self, answer: Answer = silence, versions: dict[Api, tuple[int, int]] | None = None) -> None:
        self.seen: list[tuple[RequestHeader, Any]] = []
        self._answer = answer
        self._versions = DEFAULT_VERSIONS if versions is None else versions
        self._frames = FrameSplitter(1 << 20)

    def feed(self, data: bytes) -> bytes:
        """The responses to the requests that these bytes complete."""
        out: list[bytes] = []
        for frame in self._frames.feed(data):
            header, body = decode_request(frame, 0, len(frame))
            self.seen.append((header, body))
            api, version = Api(header.api_key), header.api_version
            if api is Api.API_VERSIONS:
                response, version = self._versions_response(version)
            else:
                response = self._answer(header, body)
            if response is not None:
                out += [bytes(part) for part in encode_response(api, version, header.correlation_id, response)]
        return b"".join(out)

    def _versions_response(self, version: int) -> tuple[Any, int]:
        keys = tuple(
            ApiVersion(api_key=int(api), min_version=low, max_version=high)
            for api, (low, high) in self._versions.items()
        )
        if version > self._versions[Api.API_VERSIONS][1]:
            return ApiVersionsResponse(error_code=errors.UNSUPPORTED_VERSION, api_keys=keys), 0
        return ApiVersionsResponse(api_keys=keys), version
