"""A plain socket that speaks the protocol request by request, for what no client library lets a test say."""

from __future__ import annotations

import socket
import struct
from typing import Any

from kafka_wire.apis import Api
from kafka_wire.messages import decode_response, encode_request


class RawConnection:
    """One connection; requests may be sent ahead of reading their answers."""

    def __init__(self, host: str, port: int, timeout: float = 10.0) -> None:
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api: Api, version: int, body: Any) -> int:
        """Sends a request; its correlation id."""
        self._correlation_id += 1
        self.socket.sendall(b"".join(map(bytes, encode_request(api, version, self._correlation_id, "raw", body))))
        return self._correlation_id

    def receive(self, api: Api, version: int) -> tuple[int, Any]:
        """The next answer; ConnectionError when the broker closed."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(api, version, self._exactly(size))

    def ask(self, api: Api, version: int, body: Any) -> Any:
        """One request and its answer."""
        sent = self.send(api, version, body)
        received, answer = self.receive(api, version)
        assert received == sent, f"an answer to request {received}, expected {sent}"
        return answer

    def closed_by_peer(self) -> bool:
        """Waits until the broker closes (True) or says something (False)."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)
