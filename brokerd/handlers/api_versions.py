"""ApiVersions: computed from the handlers that exist, so what is advertised cannot differ from what is served."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from brokerd.handlers.types import Request
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.schema.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from brokerd.broker import Broker

API = Api.API_VERSIONS
VERSIONS = (0, 4)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")
"""KIP-511: these words end up in metric names."""


def handle(broker: Broker, request: Request) -> ApiVersionsResponse:
    """A client of an older version names no software: its shape has the default, which is empty or null."""
    body: ApiVersionsRequest = request.body
    for word in (body.client_software_name, body.client_software_version):
        if word and not _SOFTWARE.match(word):
            return ApiVersionsResponse(error_code=errors.INVALID_REQUEST, api_keys=())
    return ApiVersionsResponse(error_code=errors.NONE, api_keys=_served())


def unsupported(broker: Broker) -> ApiVersionsResponse:
    """To a client whose ApiVersions is newer than ours, in the shape of version 0: it tries again with what it
    finds for key 18.
    """
    return ApiVersionsResponse(error_code=errors.UNSUPPORTED_VERSION, api_keys=_served())


def _served() -> tuple[ApiVersion, ...]:
    from brokerd.handlers import REGISTRY  # the registry imports every handler, this one too

    return tuple(
        ApiVersion(
            api_key=int(key),
            min_version=getattr(module, "ADVERTISED_MIN", module.VERSIONS[0]),
            max_version=module.VERSIONS[1],
        )
        for key, module in sorted(REGISTRY.items())
    )
