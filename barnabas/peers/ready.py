"""Whether a broker of any make serves clients: it answers Metadata and names itself among the brokers.

Its own few bytes rather than the wire package: the same probe times our broker and its peers, and it must work
before anything else does.
"""

from __future__ import annotations

import socket
import struct

_METADATA = 3
_VERSION = 1
# api key, version, correlation id, null client id, an empty list of topics (none at version 1)
_REQUEST = struct.pack(">ihhihi", 14, _METADATA, _VERSION, 1, -1, 0)


def answers_metadata(host: str, port: int, timeout: float = 1.0) -> bool:
    """True if a Metadata answer with at least one broker comes within `timeout` seconds."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(_REQUEST)
            connection.settimeout(timeout)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            body = _receive(connection, min(size, 65536))
            _correlation, brokers = struct.unpack_from(">ii", body)
    except (OSError, EOFError, struct.error):  # nobody, somebody who hung up, somebody else
        return False
    return bool(brokers > 0)


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts
