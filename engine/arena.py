"""Shared memory files in which tensors travel between processes. They have no name in a file system and go with the
engine.

A message calls such a file by a name that only the engine can resolve. The descriptor goes with each job that names it
(engine.spawner.Child.send), and the process closes it once the job is done.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket

from aisp.engine.protocol import jobs

_descriptors: dict[str, int] = {}
_numbers = itertools.count()


def descriptor(name: str) -> int:
    """The open file of that name. Raises KeyError where it was given back."""
    return _descriptors[name]


def sealed(blob: jobs.Blob) -> bool:
    """Whether nobody can change what lies in a file any more. The kernel says so, whoever wrote it."""
    return bool(fcntl.fcntl(descriptor(blob.name), fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE)


class Arena:
    """The shared files of one run."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def blob(self) -> jobs.Blob:
        """A new, empty shared file."""
        name = f"shared-{next(_numbers)}"
        _descriptors[name] = os.memfd_create("aisp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._names.append(name)
        return jobs.Blob(name=name)

    def line(self) -> tuple[jobs.Blob, jobs.Blob]:
        """Both ends of a new line between two processes, as shared files without a slot."""
        names = [f"line-{next(_numbers)}" for _ in range(2)]
        for name, end in zip(names, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), strict=True):
            _descriptors[name] = end.detach()
            self._names.append(name)
        return jobs.Blob(name=names[0]), jobs.Blob(name=names[1])

    def duplicate(self, blob: jobs.Blob) -> int:
        """A descriptor of the same file or end of a line, which is the caller's."""
        return os.dup(_descriptors[blob.name])

    def hang_up(self, blob: jobs.Blob) -> None:
        """End a line for both of its sides, whoever still has a descriptor."""
        with contextlib.suppress(OSError), socket.socket(fileno=self.duplicate(blob)) as end:
            end.shutdown(socket.SHUT_RDWR)

    def free(self, blob: jobs.Blob) -> None:
        """Give one file back. Whoever has it mapped keeps it until then."""
        self._names.remove(blob.name)
        os.close(_descriptors.pop(blob.name))

    def close(self) -> None:
        """Give all memory back."""
        while self._names:
            os.close(_descriptors.pop(self._names.pop()))
