"""Frames out of a stream: four bytes of length, big endian and signed, then so many bytes.

Every byte is copied once into a frame and, if its frame came in pieces, once into the buffer: a frame that arrives a
byte at a time costs no more than its size. A length is compared with the limit before anything is kept for it, and
memory grows with what has arrived, never with what is announced.
"""

import struct

from kafka_wire.errors import Malformed

LENGTH = struct.Struct(">i")


class FrameSplitter:
    """Takes pieces of a stream, gives the frames (without their length) that they complete."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()  # begins with the length of a frame that is not complete

    @property
    def buffered(self) -> int:
        """Bytes of an unfinished frame that are kept, its length among them."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The frames now complete, in order. Malformed for a length below zero or above the limit, now and ever after:
        where the next frame begins is not known any more."""
        if not self._rest:
            frames, used = self._split(data)
            self._rest += memoryview(data)[used:]
            return frames
        self._rest += data
        frames, used = self._split(self._rest)
        del self._rest[:used]  # moves the start of the bytearray, not its bytes
        return frames

    def _split(self, data: bytes | bytearray | memoryview) -> tuple[list[bytes], int]:
        frames: list[bytes] = []
        start, end = 0, len(data)
        with memoryview(data) as view:
            while end - start >= LENGTH.size:
                size: int = LENGTH.unpack_from(view, start)[0]
                if not 0 <= size <= self._limit:
                    self._rest = bytearray(LENGTH.pack(-1))  # so that whatever follows is refused as well
                    raise Malformed(f"a frame of {size} bytes, at most {self._limit} are taken")
                stop = start + LENGTH.size + size
                if stop > end:
                    break
                frames.append(bytes(view[start + LENGTH.size : stop]))
                start = stop
        return frames, start
