"""A process's private line to the engine: blocking, framed, sealed, on a descriptor that is neither of the standard
three.

The engine's first bytes on the line are the key of both directions. They are read before anything of a lesson is
loaded and kept only inside of hash objects. A kernel can still write to the descriptor: the engine then ends the arm.

Shared files arrive as descriptors beside the job that names them, in the order of their names.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from aisp.engine.protocol import jobs, reports
from aisp.engine.protocol.framing import JOBS, KEY_BYTES, REPORTS, Decoder, Encoder, Opener, sealing
from aisp.engine.worker import tensors

ROOM_FOR_FILES = socket.CMSG_SPACE(253 * array.array("i").itemsize)  # as many as one message can bring (SCM_MAX_FD)


class Channel:
    """Receives jobs and sends reports over one connected socket's descriptor, which is its own from then on."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd
        self._line = socket.socket(fileno=fd)
        self._files: deque[int] = deque()  # of jobs that have not been handed out
        key = self._key()
        self._encoder = Encoder(sealing(key, REPORTS))
        self._decoder: Decoder[jobs.AnyJob] = Decoder(jobs.AnyJob, Opener(key, JOBS))
        key[:] = bytes(KEY_BYTES)
        self._waiting: list[jobs.AnyJob] = []

    def _key(self) -> bytearray:
        key = bytearray(KEY_BYTES)
        view = memoryview(key)
        while view:
            count = os.readv(self._fd, [view])
            if not count:
                raise ConnectionError("the engine closed the line before it gave a key")
            view = view[count:]
        return key

    def receive(self) -> jobs.AnyJob | None:
        """The next job, or None when the engine has closed the line. Gives back the shared files of the job before.

        Raises:
            FrameError: somebody else read from the line, so that a part of it is missing here.
        """
        while not self._waiting:
            # Not socket.recv_fds: it passes no flags on, and a program that a lesson starts would inherit them.
            data, brought, _, _ = self._line.recvmsg(1 << 16, ROOM_FOR_FILES, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return None
            for _, _, descriptors in brought:  # nothing else can come beside the bytes of such a line
                self._files.extend(array.array("i", descriptors))
            self._waiting.extend(self._decoder.feed(data))
        job = self._waiting.pop(0)
        tensors.hold({name: self._files.popleft() for name in jobs.files(job)})
        return job

    def send(self, report: reports.AnyReport) -> None:
        """Send one report whole. Text of a lesson's making may be no UTF-8: it goes as its escape."""
        try:
            frame = self._encoder.frame(report)
        except UnicodeEncodeError:
            frame = self._encoder.frame(_sendable(report))
        view: Any = memoryview(frame)
        while view:
            view = view[os.write(self._fd, view) :]


def packed(value: msgspec.Struct) -> msgspec.Raw:
    """A struct as MessagePack, its text as `Channel.send` sends it."""
    try:
        return msgspec.Raw(msgspec.msgpack.encode(value))
    except UnicodeEncodeError:
        return msgspec.Raw(msgspec.msgpack.encode(_sendable(value)))


def _sendable(value: Any) -> Any:
    """The value with lone surrogates escaped: file names, compilers' output and JSON bring them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, msgspec.Struct):
        fields = {name: _sendable(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, Mapping):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value
