"""What judge and worker say to each other while the judge times batches: on a line of their own, past the engine.

The judge believes nothing of it but that a batch is over, which it then looks into: see engine.worker.clock.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

MOST_BYTES = 1 << 20  # of one message: addresses of the outputs of some hundred calls
MOST_FILES = 2


class Message(msgspec.Struct, tag_field="type", frozen=True, kw_only=True):
    """Base of all messages."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One output: a torch dtype's name, and its extents. Its bytes are contiguous."""

    dtype: str
    shape: list[int]


class Forms(Message, tag="forms", frozen=True, kw_only=True):
    """Worker: what one call gives, and how its calls take inputs.

    Attributes:
        outputs: in declared order.
        copies: inputs are copied into buffers of its own before each call, in the batch; else calls read the judge's
            memory, or file, itself.
        held: calls are launched ahead, and begin when the judge lets them.
    """

    outputs: list[Form]
    copies: bool = True
    held: bool = False


class Layout(Message, tag="layout", frozen=True, kw_only=True):
    """Judge: where inputs of call number i lie: at i times the stride, and the offset.

    On a CPU that is in the file that comes with each batch. On a GPU it is in the memory of `handle`, and the file that
    comes with this is the page where both meet.

    Attributes:
        offsets: of each refilled input in a set, by its place among the arguments of run().
        set_bytes: from set to set.
        most: calls that there is room for.
        handle: CUDA IPC handle; empty on a CPU.
    """

    offsets: dict[int, int]
    set_bytes: int
    most: int
    handle: bytes = b""


class Mapped(Message, tag="mapped", frozen=True, kw_only=True):
    """Worker: all of it can be reached."""


class Cannot(Message, tag="cannot", frozen=True, kw_only=True):
    """In the place of Mapped, Done or Fetched: no other process can reach that memory."""


class Run(Message, tag="run", frozen=True, kw_only=True):
    """Judge: make so many calls. On a CPU the file that comes with it holds their inputs, and the clock runs.

    Attributes:
        calls: how many.
        held: on a GPU launch them behind a hold and say so. Else their inputs are there, and the clock runs.
        clones: copy outputs behind each call, in the batch, since calls share them.
    """

    calls: int
    held: bool = False
    clones: bool = False


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an output lies: on a GPU an allocation's CUDA IPC handle, and the offset in bytes; on a CPU the address."""

    handle: int  # index into Placed.handles; 0 on a CPU
    offset: int


class Placed(Message, frozen=True, kw_only=True):
    """Worker: where the outputs lie, call by call."""

    handles: list[bytes] = []
    places: list[list[Place]] = []


class Armed(Placed, tag="armed", frozen=True, kw_only=True):
    """Worker on a GPU: all calls are launched behind a hold, which ends when the judge comes to the meeting. Where they
    will put their outputs is known by then, so that these are read as soon as the batch is said to be over.
    """


class Done(Placed, tag="done", frozen=True, kw_only=True):
    """Worker: all calls are over. Where they were not held, this says where their outputs lie."""


class Fetch(Message, tag="fetch", frozen=True, kw_only=True):
    """Judge to the engine, on a CPU: bring what lies in the worker's memory, as a file (Fetched), or say Cannot."""

    address: int
    nbytes: int


class Fetched(Message, tag="fetched", frozen=True, kw_only=True):
    """Engine: the bytes are in the file that comes with this."""


class Read(Message, tag="read", frozen=True, kw_only=True):
    """Judge: the outputs that it wanted of the last batch are with it."""


class Over(Message, tag="over", frozen=True, kw_only=True):
    """Judge: that was the last batch."""


AnyMessage: TypeAlias = Forms | Layout | Mapped | Cannot | Run | Armed | Done | Read | Over | Fetch | Fetched

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


class LineError(Exception):
    """The other side is gone, silent, or says what it should not. The message is a clause."""


class Line:
    """One end of the line. It owns the descriptor, which `close` closes for both sides."""

    def __init__(self, fd: int, patience_s: float) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.settimeout(patience_s)

    def send(self, message: AnyMessage, files: Sequence[int] = ()) -> None:
        """Send a message and the descriptors that go with it. Raises LineError."""
        try:
            socket.send_fds(self._socket, [_encode(message)], list(files))
        except OSError as error:
            raise LineError(f"the line is closed ({error})") from None

    def receive(self) -> tuple[AnyMessage, list[int]]:
        """The next message and its descriptors, which are the caller's. Raises LineError."""
        try:
            data, files, _, _ = socket.recv_fds(self._socket, MOST_BYTES, MOST_FILES, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise LineError("no sign of progress") from None
        except OSError as error:
            raise LineError(f"the line is closed ({error})") from None
        if not data:
            raise LineError("the other side has left")
        try:
            return _decoder.decode(data), files
        except (msgspec.DecodeError, RecursionError) as error:
            raise LineError(f"what came is no message ({error})") from None

    def spin(self, seconds: float) -> None:
        """Wait awake until something comes, so many seconds at most: who sleeps is some 0.1 ms late, and now and then a
        whole millisecond in a virtual machine."""
        until_ns = time.monotonic_ns() + int(seconds * 1e9)
        while not self.waits(0.0) and time.monotonic_ns() < until_ns:
            pass

    def waits(self, seconds: float) -> bool:
        """Whether a message comes within so many seconds, or the other side leaves."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def close(self) -> None:
        """Let the other side know, whoever else has the descriptor."""
        with contextlib.suppress(OSError):  # the other side was quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def strides(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of tensors of these sizes in bytes, one behind the other, and where the next group begins."""
    offsets: list[int] = []
    end = 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return offsets, end


def overlapping(spans: Iterable[tuple[int, int, int, int]]) -> bool:
    """Whether different calls have something in the same memory: one output for all, a ring of them, parts of a block.

    Args:
        spans: in which memory, from where to where in bytes, and of which call; one of no bytes lies nowhere.
    """
    place, end, owner = -1, 0, -1
    for where, start, stop, number in sorted(span for span in spans if span[1] < span[2]):
        if where == place and start < end and number != owner:
            return True
        if where != place or stop > end:
            place, end, owner = where, stop, number
    return False


ALIGNMENT_BYTES = 512  # of what a GPU's allocator gives
