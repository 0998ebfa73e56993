"""Who is at the other end of a connection: a process that descends from the engine is answered nothing.

What runs a kernel must not ask for runs, nor end its rivals'. Of a Unix socket the kernel tells the process at the
other end. Of TCP it does not: there the connection is looked up in /proc/net/tcp, and its socket among the open files
of /proc/PID/fd, those of the engine's descendants first. Where /proc does not tell, as for a client on another host or
in another container, nothing is refused.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from aisp.engine import lock

Address = tuple[str, int]
"""Of one end of a connection: an IP address and a port."""
REMEMBERED = 8
"""Processes that were let in last: a client that comes again is found without a look at all others."""
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_GONE = "nobody holds its other end any more"


def started_by(pid: int, above: int) -> bool:
    """Whether a process descends from another one.

    A process that is gone already counts as such: nobody is left to read an answer, and a lesson may ask and leave.
    """
    one = pid
    while one > 1:
        if one == above:
            return pid != above
        parent = _parent(one)
        if parent is None:
            return True
        one = parent
    return False


class Peers:
    """Looks up who has connected to a TCP port of this process. Blocks for some milliseconds; for one thread."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=REMEMBERED)

    def refusal(self, ours: Address, theirs: Address) -> str:
        """Why a connection is answered nothing: its other end belongs to what this folder's engine started, or to
        nobody. "" for one that is let in.

        Args:
            ours, theirs: the two ends, as the socket names them.
        """
        holder = lock.holder()
        if holder is None or not holder.here or holder.what != lock.ENGINE:
            return ""
        engine = holder.pid
        try:
            if started_by(os.getpid(), engine):
                return ""  # whoever asks us descends from it as we do
            inode = _inode(ours, theirs)
            if inode is None:
                return ""
            return _GONE if inode == 0 else self._held(f"socket:[{inode}]", engine)
        except OSError:
            return ""

    def _held(self, mark: str, engine: int) -> str:
        """See `refusal`; for the socket of that mark."""
        for pid in list(self._recent):
            if _holds(pid, mark) and not started_by(pid, engine):
                return ""
        parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
        below = {pid for pid in parents if pid != engine and engine in _line(pid, parents)}
        hidden, elsewhere = [], False
        for pid in sorted(below):
            held = _holds(pid, mark)
            if held:
                return _advice(pid)
            if held is None:
                hidden.append(pid)
        for pid in sorted(parents.keys() - below, reverse=True):  # the newest first
            held = _holds(pid, mark)
            if held:
                self._recent.append(pid)
                return ""
            elsewhere |= held is None
        # It is nobody's that can be seen: a thread's own, on its way between two processes, or another user's.
        for pid in sorted(below):
            if any(_holds(pid, mark, f"task/{thread}/") for thread in _numbers(f"/proc/{pid}/task")):
                return _advice(pid)
        if hidden:
            return f"process {hidden[0]}, which the engine started, hides its open files"
        return "" if elsewhere else _GONE


def _advice(pid: int) -> str:
    return f"its other end is process {pid}, which was started by the engine or by a worker"


def _parent(pid: int) -> int | None:
    """The process that started it, or that it was handed to; None for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process and those above it."""
    while pid > 1:
        yield pid
        pid = parents.get(pid, 0)


def _pids() -> list[int]:
    return _numbers("/proc")


def _numbers(folder: str) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]  # noqa: PTH208  names, and thousands
    return []


def _holds(pid: int, mark: str, thread: str = "") -> bool | None:
    """Whether a process has that socket open; None where it does not let us see. A process that is gone has none."""
    folder = f"/proc/{pid}/{thread}fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except PermissionError:
        return None
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}") == mark:  # noqa: PTH115  no file's path
                return True
    return False


def _inode(ours: Address, theirs: Address) -> int | None:
    """The inode of the socket at the other end: 0 where nobody has it open any more, None where the tables do not tell.

    Raises OSError where there are no tables.
    """
    near, far = (_ip(ours[0]), ours[1]), (_ip(theirs[0]), theirs[1])
    for _ in range(2):  # a table that changes while it is read may leave a line out
        inodes = dict(_connections({f"{near[1]:04X}", f"{far[1]:04X}"}))
        if (far, near) in inodes:
            return inodes[far, near]
    here = far[0].is_loopback or far[0] == near[0]
    # A table without our own end is of another network than the connection.
    return 0 if here and (near, far) in inodes else None


_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
_End = tuple[_Ip, int]


def _connections(ports: set[str]) -> Iterator[tuple[tuple[_End, _End], int]]:
    """Connections of this network between these ports, by their two ends, with the inodes of their sockets."""
    for table in _TABLES:
        with contextlib.suppress(FileNotFoundError):
            for line in Path(table).read_text("ascii").splitlines()[1:]:
                words = line.split()
                if {words[1].rpartition(":")[2], words[2].rpartition(":")[2]} == ports:
                    yield (_end(words[1]), _end(words[2])), int(words[9])


def _end(text: str) -> _End:
    """An end as the tables write it: words of 32 bits in this machine's order of bytes, and the port."""
    address, _, port = text.partition(":")
    words = (int(address[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(address), 8))
    return _plain(ipaddress.ip_address(b"".join(words))), int(port, 16)


def _ip(text: str) -> _Ip:
    return _plain(ipaddress.ip_address(text.partition("%")[0]))


def _plain(address: _Ip) -> _Ip:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
