"""The engine's events for the clients of `GET /events`: encoded once, a bounded share for each.

A client that reads too slowly is dropped, and told so as far as it still reads: what it missed cannot be made up for by
what comes later. It asks `GET /runs` and begins anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

import msgspec

from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.engine.protocol import events

MOST_CLIENTS = 16
MOST_BYTES = 1 << 20
"""That wait for one client."""
UNASKED = ("samples", "telemetry", "output", "log_line")
"""Kinds of event that only those get who name them."""
KINDS = (
    *("queue_changed", "run_planned", "run_state", "step", "samples", "telemetry", "arm", "comparison", "run_finished"),
    *("output", "peak_ceiling", "peak_finished", "watch_changed", "watch_edit", "banner", "log_line"),
)
"""What can be heard. Of a fuzz nothing is told: its events name the seed while it goes on."""

_USUAL = frozenset(KINDS) - frozenset(UNASKED)


class Subscriber:
    """One client's share.

    Attributes:
        dropped: why nothing more comes; "" while it does.
    """

    def __init__(self, kinds: Collection[str], run_id: str) -> None:
        self.dropped = ""
        self._kinds = frozenset(kinds)
        self._run_id = run_id
        self._waiting: deque[bytes] = deque()
        self._nbytes = 0
        self._arrived = asyncio.Event()

    def wants(self, kind: str, run_id: str) -> bool:
        """Whether an event is for it."""
        named = kind in (self._kinds or _USUAL)
        return named and not self.dropped and (not self._run_id or run_id == self._run_id)

    def offer(self, frame: bytes) -> None:
        """One more event; drops the client where too much waits."""
        self._waiting.append(frame)
        self._nbytes += len(frame)
        if self._nbytes > MOST_BYTES:
            self.drop(f"more than {MOST_BYTES >> 20} MiB of events were waiting to be read")
        self._arrived.set()

    def drop(self, why: str) -> None:
        """Let this be the last that it gets."""
        self.dropped = why
        self._waiting.clear()
        told = msgspec.json.encode({"reason": why, "fix": "read faster, or ask for fewer kinds; then connect again"})
        self._waiting.append(b"event: dropped\ndata: " + told + b"\n\n")
        self._nbytes = 0
        self._arrived.set()

    async def next(self) -> bytes:
        """All that waits, as one piece; b"" at the end."""
        if not self._waiting:
            if self.dropped:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        found = b"".join(self._waiting)
        self._waiting.clear()
        self._nbytes = 0
        return found


class Feed:
    """Hands events to those who listen."""

    def __init__(self) -> None:
        self._subscribers: set[Subscriber] = set()

    def __len__(self) -> int:
        return len(self._subscribers)

    def join(self, kinds: Collection[str], run_id: str) -> Subscriber:
        """One more client.

        Args:
            kinds: of events; empty for all but UNASKED.
            run_id: only what is told of this run; "" for all.

        Raises:
            RefusalError: there are enough, or no event is of such a kind.
        """
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise RefusalError(Kind.INVALID, f"no event is a {unknown[0]!r}", f"kinds are {', '.join(KINDS)}")
        if len(self._subscribers) >= MOST_CLIENTS:
            raise RefusalError(Kind.TOO_MANY, f"{MOST_CLIENTS} clients listen already", "close one of them")
        one = Subscriber(kinds, run_id)
        self._subscribers.add(one)
        return one

    def leave(self, one: Subscriber) -> None:
        """It has gone."""
        self._subscribers.discard(one)

    def publish(self, event: events.Event) -> None:
        """Offer an event to all who want it."""
        if not self._subscribers:
            return
        kind, run_id = str(event.__struct_config__.tag), str(getattr(event, "run_id", ""))
        wanting = [one for one in self._subscribers if one.wants(kind, run_id)]
        if not wanting:
            return
        frame = b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(_told(event)) + b"\n\n"
        for one in wanting:
            one.offer(frame)

    def end(self, why: str) -> None:
        """Let all of them go."""
        for one in list(self._subscribers):
            one.drop(why)


def _told(event: events.Event) -> object:
    """An event for JSON. Of a run at its plan and at its end what it is and how it ended: its figures stand in
    `GET /runs/ID`, which knows what other runs hold against its rungs."""
    if not isinstance(event, (events.RunPlanned, events.RunFinished)):
        return event
    run = event.run
    told = {"type": event.__struct_config__.tag, "seq": event.seq, "run_id": run.id, "target": run.target}
    words = (run.state, run.correctness, run.validity, run.verdict)
    return (
        told | dict(zip(("state", "correctness", "validity", "verdict"), words, strict=True)) | {"reason": run.reason}
    )
