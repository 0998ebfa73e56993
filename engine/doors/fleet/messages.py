"""What the parts of a fleet tell each other: the command and the driver in frames over pipes, agents in Ray's results.

To the driver: `Give`, until the pipe is closed, which ends it. From the driver: `Here` when agents come or go, `Ended`
and `Lost` once for each row that it was given, `Told` for people, `Broken` before it gives up.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import msgspec

AT_ONCE = 2
"""Rows that an agent has: one under way, and the next, so that it need not wait for anybody."""
MOST_BYTES = 64 << 20
"""Of one frame: a row carries the sources of its target and of its candidate."""


class Message(msgspec.Struct, tag_field="type", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages."""


class Give(Message, tag="give", frozen=True, kw_only=True):
    """One row to be run: everything that its target's folder holds, so that a host needs nothing but aisp.

    Attributes:
        number: of the row in `candidates.db`.
        stem, name: of the collection and of the folder that the files are written to.
        files: by their relative names.
        rung: which of them is the candidate.
        device, case, quick, patience_s: as of a run (requests.StartRuns).
        since_s: a run of the same files that was made after this (time.time) is the row's, and is not made again.
    """

    number: int
    stem: str
    name: str
    files: dict[str, bytes]
    rung: str
    device: str
    case: str = ""
    quick: bool
    patience_s: float = 0.0
    since_s: float


class Ended(Message, tag="ended", frozen=True, kw_only=True):
    """What became of a row.

    Attributes:
        outcome: as plain data (store.results.candidate).
        where: which agent had it run, on which host and GPU.
    """

    number: int
    run_id: str
    outcome: dict[str, Any]
    where: dict[str, str] = {}


class Lost(Message, tag="lost", frozen=True, kw_only=True):
    """A row came to no end, by no fault of its candidate; the reason says of whose."""

    number: int
    reason: str


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent.

    Attributes:
        name: the host, and which GPU of it: "node7/1"; the host alone where it has none.
        host: its name, as in what its runs are stored with.
        node: Ray's id of it.
        gpus: how Ray names the GPUs that the agent was given; empty for a host without any.
        build: hash of the aisp that is installed there (engine.client.build_id).
        state: the folder that its engine keeps things in.
        pid: of the agent's process; 0 where it has none.
        devices: what the engine there can run on, in words; empty before there is one.
        note: why it cannot be used; "" where it can.
    """

    name: str
    host: str = ""
    node: str
    gpus: list[str] = []
    build: str = ""
    state: str = ""
    pid: int = 0
    devices: list[str] = []
    note: str = ""

    @property
    def ready(self) -> bool:
        """Whether rows are given to it."""
        return bool(self.devices) and not self.note


class Here(Message, tag="here", frozen=True, kw_only=True):
    """All agents that there are now, and those that could not be had.

    Attributes:
        whole: every host that Ray knows has been asked; nobody else is waited for.
    """

    agents: list[Agent]
    whole: bool


class Told(Message, tag="told", frozen=True, kw_only=True):
    """A sentence for whoever watches."""

    text: str


class Why(enum.StrEnum):
    """Why there is no driver."""

    NO_RAY = "no_ray"  # not installed
    NO_CLUSTER = "no_cluster"  # none answers
    GONE = "gone"  # it was there, and is not any more


class Broken(Message, tag="broken", frozen=True, kw_only=True):
    """The driver's last words."""

    why: Why
    text: str


FromDriver: TypeAlias = Here | Ended | Lost | Told | Broken
Result: TypeAlias = Ended | Lost
