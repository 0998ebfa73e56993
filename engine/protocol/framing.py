"""Frames: a 4-byte big-endian length and that many bytes of msgpack. Bounded, and nothing else is trusted.

A frame that is too long, cut, or not the message that the other side may send ends the connection with a
`FrameError`; nothing here can allocate more than `MAX_FRAME_BYTES` for a peer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

MAX_FRAME_BYTES = 8 * 1024 * 1024
_LENGTH = struct.Struct(">I")

Message = TypeVar("Message")


class FrameError(Exception):
    """The bytes are not a message that may be sent here. The connection is of no further use."""


class Encoder:
    """Turns messages into frames."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()

    def frame(self, message: msgspec.Struct) -> bytes:
        """One frame, length included. Raises FrameError for a message over the limit."""
        body = self._encoder.encode(message)
        if len(body) > MAX_FRAME_BYTES:
            raise FrameError(f"{type(message).__name__} is {len(body)} bytes, the limit is {MAX_FRAME_BYTES}")
        return _LENGTH.pack(len(body)) + body


class Decoder(Generic[Message]):
    """Cuts a byte stream into messages of one union type; keeps at most one unfinished frame."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(union)
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Bytes of an unfinished frame: above zero at the stream's end, the last frame was cut."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield every message that `data` completes. Raises FrameError; the decoder is then spent."""
        for body in self.bodies(data):
            yield self.decode(body)

    def bodies(self, data: bytes) -> Iterator[bytes]:
        """Yield the raw body of every frame that `data` completes."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, start)
                if length > MAX_FRAME_BYTES:
                    raise FrameError(f"a frame of {length} bytes was announced, the limit is {MAX_FRAME_BYTES}")
                end = start + _LENGTH.size + length
                if len(buffer) < end:
                    break
                body = bytes(memoryview(buffer)[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del buffer[:start]

    def decode(self, body: bytes) -> Message:
        """One message from a frame's body."""
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as error:
            raise FrameError(f"not a message: {error}") from None
