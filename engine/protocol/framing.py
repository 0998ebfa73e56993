"""Frames: a 4-byte big-endian length and that many bytes of msgpack. Bounded, and nothing else is trusted.

A frame that is too long, cut, or not the message that the other side may send ends the connection with a
`FrameError`; nothing here can buffer more than one frame for a peer. Reading one takes up to some 25 bytes for each
of its own (a list of two-letter words), so what anybody may ask for is shorter still: `MAX_REQUEST_BYTES`.

Between the engine and its workers frames are sealed as well: a kernel shares a process, and so every descriptor, with
the worker that runs it. The length is followed by the frame's number and a keyed digest over direction, number and
message. What was written beside the channel, again, in another order or without the key is a `ForgedFrameError`.
A seal costs 1 us on either side.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

MAX_FRAME_BYTES = 8 * 1024 * 1024
MAX_REQUEST_BYTES = 256 * 1024  # of what a client sends: a thousand targets with their roots are less than half of it
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
DIGEST_BYTES = 16
SEAL_BYTES = _NUMBER.size + DIGEST_BYTES
KEY_BYTES = 32
JOBS, REPORTS = b"aisp jobs", b"aisp reports"  # directions: a frame of one is none of the other

Message = TypeVar("Message")


class FrameError(Exception):
    """The bytes are not a message that may be sent here. The connection is of no further use."""


class ForgedFrameError(FrameError):
    """The bytes were not sent by the other side, or not in this place."""


def sealing(key: bytes | bytearray, direction: bytes) -> Callable[[bytes], bytes]:
    """A function that puts number and digest before each body it is given, in order.

    The key lives on in a hash object alone, inside of a closure: no attribute holds it, and `key` may be wiped.
    """
    fresh = hashlib.blake2b(key=key, digest_size=DIGEST_BYTES, person=direction).copy
    number = 0

    def seal(body: bytes) -> bytes:
        nonlocal number
        head = _NUMBER.pack(number)
        digest = fresh()
        digest.update(head)
        digest.update(body)
        number += 1
        return head + digest.digest() + body

    return seal


class Opener:
    """Takes the seals of one direction off, and knows which frame comes next."""

    def __init__(self, key: bytes | bytearray, direction: bytes) -> None:
        self._fresh = hashlib.blake2b(key=key, digest_size=DIGEST_BYTES, person=direction).copy
        self._number = 0

    def foresee(self, start: bytes) -> None:
        """Refuse a frame by its first bytes, whether or not the rest ever comes. Raises ForgedFrameError."""
        if len(start) < _NUMBER.size:
            return
        (number,) = _NUMBER.unpack_from(start)
        if number != self._number:
            kind = "came twice or out of order" if number < self._number else "is out of order, or bytes beside frames"
            raise ForgedFrameError(f"frame {self._number} was expected; what came ({number}) {kind}")

    def open(self, sealed: bytes) -> bytes:
        """The body of the frame that is due. Raises ForgedFrameError."""
        if len(sealed) < SEAL_BYTES:
            raise ForgedFrameError(f"a frame of {len(sealed)} bytes has no room for its seal")
        self.foresee(sealed)
        head, body = sealed[: _NUMBER.size], sealed[SEAL_BYTES:]
        digest = self._fresh()
        digest.update(head)
        digest.update(body)
        if not hmac.compare_digest(digest.digest(), sealed[_NUMBER.size : SEAL_BYTES]):
            raise ForgedFrameError(f"frame {self._number} bears a seal that is not made with this channel's key")
        self._number += 1
        return body


class Encoder:
    """Turns messages of at most `limit` bytes into frames, sealed where a seal is given."""

    def __init__(self, seal: Callable[[bytes], bytes] | None = None, *, limit: int = MAX_FRAME_BYTES) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._seal = seal
        self._limit = limit

    def frame(self, message: msgspec.Struct) -> bytes:
        """One frame, length included. Raises FrameError for a message over the limit."""
        body = self._encoder.encode(message)
        if len(body) > self._limit:
            raise FrameError(f"{type(message).__name__} is {len(body)} bytes, the limit is {self._limit}")
        if self._seal is not None:
            body = self._seal(body)
        return _LENGTH.pack(len(body)) + body


class Decoder(Generic[Message]):
    """Cuts a byte stream into messages of one union type; keeps at most one unfinished frame of `limit` bytes.

    With an opener every frame must be sealed.
    """

    def __init__(self, union: Any, opener: Opener | None = None, *, limit: int = MAX_FRAME_BYTES) -> None:
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(union)
        self._buffer = bytearray()
        self._opener = opener
        self._limit = limit + (SEAL_BYTES if opener is not None else 0)

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
        buffer, opener = self._buffer, self._opener
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, start)
                if length > self._limit:
                    kind = FrameError if opener is None else ForgedFrameError
                    raise kind(f"a frame of {length} bytes was announced, the limit is {self._limit}")
                end = start + _LENGTH.size + length
                if len(buffer) < end:
                    if opener is not None:
                        opener.foresee(bytes(buffer[start + _LENGTH.size : start + _LENGTH.size + _NUMBER.size]))
                    break
                body = bytes(memoryview(buffer)[start + _LENGTH.size : end])
                start = end
                yield body if opener is None else opener.open(body)
        finally:
            del buffer[:start]

    def decode(self, body: bytes) -> Message:
        """One message from a frame's body."""
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as error:
            raise FrameError(f"not a message: {error}") from None
