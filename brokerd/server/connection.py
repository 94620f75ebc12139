"""One connection: whole frames in, bytes and file ranges out.

Receiving: complete frames are handed over inside the received chunk, without a copy. An incomplete one goes into a
buffer of its own that grows with what really arrived, so neither a peer that sends single bytes nor one that announces
100 MB and sends nothing costs more than it sent (four times that, at worst). However much a peer sends, its requests
are served for TURN_SECONDS at a time: then all others have their turn.
Sending: answers are queued during the turn and leave at its end, one `send` per connection; file ranges go by
`sendfile`, unless they are small enough for one `send` with the rest. A turn sends at most WRITE_QUANTUM for one
connection. While more than HIGH_WATER is queued, or the protocol asks for it, no further request is read.
"""

# Twisted's transports have no types for these calls.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from twisted.internet import main, tcp
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from brokerd.reactor import Turns
    from brokerd.server.limits import Limits
    from brokerd.server.port import BrokerPort

log = Logger()

CHUNK = 1 << 16
"""One recv."""
READ_QUANTUM = 1 << 20
"""Bytes of a large frame taken in one turn."""
WRITE_QUANTUM = 1 << 21
HIGH_WATER = 1 << 22
MIN_FRAME = 8
"""API key, version and correlation id."""
JOIN_BELOW = 1 << 14
"""Parts that together are smaller are copied into one: cheaper than a vector for the kernel."""
MAX_VECTOR = 512

INLINE_BELOW = 1 << 15
"""Answers up to this size are read from their files and sent with one call: three calls cost more than the copy."""
TURN_SECONDS = 0.002

_size = struct.Struct(">i").unpack_from
_BY_PROTOCOL = 1
_BY_HIGH_WATER = 2
_BY_TURN = 4

Ended = ConnectionLost | ConnectionDone | None


class Outbox:
    """The connections that have something to send at the end of this turn. Made after the log writer was added to the
    turns, so that an answer leaves after the write it reports."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._ready: list[BrokerConnection] = []
        turns.addEndOfTurn(self.flush)

    def add(self, connection: BrokerConnection) -> None:
        """The connection has something to send."""
        if not self._ready:
            self._turns.requestEndOfTurn()
        self._ready.append(connection)

    def flush(self) -> None:
        """Sends for every connection that has something."""
        ready, self._ready = self._ready, []
        for connection in ready:
            connection.flush()


class BrokerConnection(tcp.Server):
    """The transport of one client. The protocol has `makeConnection(transport)`, `frameReceived(buffer, start, end)`
    and `connectionLost(reason)`; the buffer of a frame is never reused, so views of it may be kept."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: Any,
        client: tuple[object, ...],
        server: BrokerPort,
        number: int,
        reactor: Any,
    ) -> None:
        self._limits: Limits = server.limits
        self._outbox: Outbox = server.outbox
        self._max_frame: int = server.max_frame
        self._metrics = server.traffic
        self._parts: deque[Any] = deque()
        self._range_sent = 0  # bytes of the range at the head that have left
        self._queued = 0
        self._reserved_out = 0
        self._sending = False  # in the outbox, or waiting until the socket takes more
        self._paused = 0
        self._rest = b""  # less than a length, or what was not served when reading was paused
        self._resuming = False
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._filled = 0
        self._reserved_in = 0
        self.active = True
        self.idle_rounds = 0
        super().__init__(sock, protocol, client, server, number, reactor)
        self.setTcpNoDelay(True)
        server.remember(self, str(self.hostname))

    # ---- receiving

    def doRead(self) -> Ended:  # type: ignore[override]
        """Takes one chunk and hands over the frames that it completes."""
        self.active = True
        if self._frame is not None:
            return self._fill(self._frame)
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not data:
            return main.CONNECTION_DONE
        self._metrics.bytes_received += len(data)
        return self._split(self._rest + data if self._rest else data)

    def _split(self, data: bytes) -> Ended:
        """Hands over the complete frames of `data` and keeps the rest."""
        start, end = 0, len(data)
        received = self.protocol.frameReceived
        self._rest = b""
        turn_ends = perf_counter() + TURN_SECONDS
        while end - start >= 4:
            (size,) = _size(data, start)
            if not MIN_FRAME <= size <= self._max_frame:
                return self._refuse(size, data[start : start + 8])
            stop = start + 4 + size
            if stop > end:
                return self._begin(size, data[start + 4 :])
            received(data, start + 4, stop)
            start = stop
            if self._paused or self.disconnecting or self._aborting or not self.connected:
                break
            if perf_counter() > turn_ends and end - start >= 4:
                self._pause(_BY_TURN)
                self.reactor.callLater(0, self._resume, _BY_TURN)
                break
        if start < end and self.connected and not self.disconnecting:
            self._rest = data[start:]
        return None

    def _begin(self, size: int, head: bytes) -> Ended:
        """Opens the buffer of an incomplete frame; it starts small whatever the peer announced."""
        room = min(size, max(CHUNK, 2 * len(head)))
        if not self._limits.reserve(room):
            return self._too_much()
        self._reserved_in = room
        self._frame = bytearray(room)
        self._frame[: len(head)] = head
        self._frame_size, self._filled = size, len(head)
        return None

    def _fill(self, frame: bytearray) -> Ended:
        """Receives into the frame until the socket is empty, the frame complete, or a quantum taken."""
        taken = 0
        while taken < READ_QUANTUM:
            if self._filled == len(frame):
                room = min(self._frame_size - len(frame), 3 * len(frame))
                if not self._limits.reserve(room):
                    return self._too_much()
                self._reserved_in += room
                frame += bytes(room)
            wanted = min(len(frame) - self._filled, READ_QUANTUM)
            try:
                with memoryview(frame) as view:
                    count = self.socket.recv_into(view[self._filled : self._filled + wanted])
            except BlockingIOError:
                return None
            except OSError:
                return main.CONNECTION_LOST
            if not count:
                return main.CONNECTION_DONE
            self._metrics.bytes_received += count
            self._filled += count
            taken += count
            if self._filled == self._frame_size:
                self._drop_frame()
                self.protocol.frameReceived(frame, 0, len(frame))
                return None
            if count < wanted:
                return None
        return None

    def _drop_frame(self) -> None:
        self._frame = None
        self._limits.free(self._reserved_in)
        self._reserved_in = 0

    def _refuse(self, size: int, start: bytes) -> Ended:
        log.warn(
            "connection from {host} closed: {why}",
            host=self.hostname,
            why=describe_bad_start(size, start, self._max_frame),
        )
        return main.CONNECTION_LOST

    def _too_much(self) -> Ended:
        log.warn(
            "connection from {host} closed: max.buffered.bytes ({limit}) is reached",
            host=self.hostname,
            limit=self._limits.max_buffered_bytes,
        )
        return main.CONNECTION_LOST

    def pauseReading(self) -> None:
        """The protocol wants no more frames for now; the one being handed over is the last."""
        self._pause(_BY_PROTOCOL)

    def resumeReading(self) -> None:
        """The protocol takes frames again, never before this call has returned."""
        self._resume(_BY_PROTOCOL)

    def _pause(self, reason: int) -> None:
        if not self._paused and self.connected:
            self.stopReading()
        self._paused |= reason

    def _resume(self, reason: int) -> None:
        if not self._paused & reason:
            return
        self._paused &= ~reason
        if not self._may_read():
            return
        if len(self._rest) >= 4:
            if not self._resuming:
                self._resuming = True
                self.reactor.callLater(0, self._serve_rest)
        else:
            self.startReading()

    def _may_read(self) -> bool:
        return bool(not self._paused and self.connected and not self.disconnecting and not self._aborting)

    def _serve_rest(self) -> None:
        self._resuming = False
        if not self._may_read():
            return
        if self._split(self._rest) is not None:
            self.abortConnection()
        elif self._may_read():
            self.startReading()

    # ---- sending

    def sendParts(self, parts: list[Any], size: int) -> None:
        """Queues an answer of `size` bytes: bytes, memoryviews, and ranges (`fd`, `offset`, `count`, `read`)."""
        if not self.connected:
            return
        if size <= INLINE_BELOW and len(parts) > 1:
            parts = self._inlined(parts, size)
        self._parts.extend(parts)
        self._queued += size
        if not self._sending:
            self._sending = True
            self._outbox.add(self)
        if self._queued > HIGH_WATER and not self._paused & _BY_HIGH_WATER:
            self._pause(_BY_HIGH_WATER)

    def _inlined(self, parts: list[Any], size: int) -> list[Any]:
        """The parts as one; or as they are if a file is shorter than it should be: sending them ends the connection."""
        whole = b"".join(
            [part if isinstance(part, (bytes, memoryview, bytearray)) else part.read() for part in parts]
        )
        return [whole] if len(whole) == size else parts

    def flush(self) -> None:
        """The end of the turn: sends what the socket takes; the reactor sees to the rest and to errors."""
        if not self.connected or self._aborting:
            return
        if self.doWrite() is not None or self._parts:
            self._charge()
            self.startWriting()

    def doWrite(self) -> Ended:  # type: ignore[override]
        """Sends up to one quantum."""
        parts = self._parts
        left = WRITE_QUANTUM
        self.active = True
        try:
            while parts and left > 0:
                head = parts[0]
                if isinstance(head, (bytes, memoryview, bytearray)):
                    left -= self._send_bytes()
                else:
                    sent = self._send_range(head, left)
                    if sent < 0:
                        return main.CONNECTION_LOST
                    left -= sent
        except BlockingIOError:
            self.active = left < WRITE_QUANTUM
        except OSError:
            return main.CONNECTION_LOST
        return self._sent()

    def _sent(self) -> Ended:
        if self._reserved_out:
            self._uncharge()
        if not self._parts:
            self._sending = False
            self.stopWriting()
            if self.disconnecting:
                return main.CONNECTION_DONE
        if self._paused & _BY_HIGH_WATER and self._queued < HIGH_WATER // 2:
            self._resume(_BY_HIGH_WATER)
        return None

    def _send_bytes(self) -> int:
        """Sends the bytes up to the next range in one call, and removes what left."""
        parts = self._parts
        group: list[Any] = []
        size = 0
        for part in parts:
            if len(group) == MAX_VECTOR or not isinstance(part, (bytes, memoryview, bytearray)):
                break
            group.append(part)
            size += len(part)
        more = socket.MSG_MORE if len(group) < len(parts) else 0
        if len(group) == 1:
            sent = self.socket.send(group[0], more)
        elif size <= JOIN_BELOW:
            sent = self.socket.send(b"".join(group), more)
        else:
            sent = self.socket.sendmsg(group, (), more)
        self._queued -= sent
        self._metrics.bytes_sent += sent
        rest = sent
        for part in group:
            length = len(part)
            if rest < length:
                parts[0] = memoryview(part)[rest:]
                break
            rest -= length
            parts.popleft()
        return sent

    def _send_range(self, head: Any, limit: int) -> int:
        """Sends from the range at the head; -1 if the file is shorter than the range."""
        left = head.count - self._range_sent
        sent = 0
        if left > 0:
            sent = os.sendfile(self.socket.fileno(), head.fd, head.offset + self._range_sent, min(left, limit))
            if not sent:
                log.error("connection to {host} closed: a log file was cut while it was being sent", host=self.hostname)
                return -1
        self._range_sent += sent
        self._queued -= sent
        self._metrics.bytes_sent += sent
        if sent >= left:
            self._parts.popleft()
            self._range_sent = 0
        return sent

    def _charge(self) -> None:
        """What stays queued counts as held; a peer that does not read while memory is short loses its connection."""
        held = self._held()
        if self._limits.reserve(held - self._reserved_out):
            self._reserved_out = held
        else:
            self._too_much()
            self.abortConnection()

    def _uncharge(self) -> None:
        held = min(self._held(), self._reserved_out)
        self._limits.free(self._reserved_out - held)
        self._reserved_out = held

    def _held(self) -> int:
        return sum(len(part) for part in self._parts if isinstance(part, (bytes, memoryview, bytearray)))

    # ---- ending

    @property
    def may_idle(self) -> bool:
        """Whether silence is the peer's: a connection that we paused waits for us."""
        return not self._paused & _BY_PROTOCOL

    def connectionLost(self, reason: Failure) -> None:
        """Lets go of everything that was held for the peer."""
        if not hasattr(self, "socket"):
            return
        if self._frame is not None:
            self._drop_frame()
        self._parts.clear()
        self._rest = b""
        self._limits.free(self._reserved_out)
        self._reserved_out = 0
        port: BrokerPort = self.server  # type: ignore[assignment]
        port.forget(self)
        super().connectionLost(reason)


def describe_bad_start(size: int, start: bytes, limit: int) -> str:
    """Says in one line what came where the length of a request was expected."""
    if start[:2] == b"\x16\x03":
        return "it began with a TLS handshake, but this listener is plaintext (check the client's security.protocol)"
    if start[:4] in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
        return "it began with an HTTP request, but this listener speaks the Kafka protocol"
    if size > limit:
        return f"a request of {size} bytes is above socket.request.max.bytes ({limit})"
    return f"{size} cannot be the length of a request"
