"""The engine's jobs as people read them, in the app and on the command line: places, words, and what is expected of
them. Plain values.

A job that waits has a place, counted from 1 in the order in which the engine will take them; one under way has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from aisp.store.outcomes import State, Trigger
from aisp.store.results.tables import Column, at, fields
from aisp.tui import plain
from aisp.tui.results import STATE_WORDS

if TYPE_CHECKING:
    from aisp.engine.protocol.events import QueueItem


def places(queue: Sequence[QueueItem]) -> dict[str, int]:
    """By id: the place of each job that waits."""
    waiting = [job.run_id for job in queue if job.began_ns is None]
    return {job: place for place, job in enumerate(waiting, 1)}


def what(job: QueueItem) -> str:
    if job.kind == "run":
        return "quick run" if job.quick else "full run"
    return "ceilings" if job.kind == "peak" else job.kind


def state(job: QueueItem) -> str:
    if job.began_ns is not None and job.state == State.PLANNED:
        return STATE_WORDS[State.STARTING]
    return STATE_WORDS.get(State(job.state), job.state)


_ASKED_BY = {Trigger.CLI: "command line", Trigger.TUI: "app", Trigger.WATCH: "a save"}


def asked_by(job: QueueItem) -> str:
    return _ASKED_BY[Trigger(job.trigger)] if job.trigger else plain.DASH


def elapsed_s(job: QueueItem, now_ns: int) -> float | None:
    """Seconds since it began; None while it waits."""
    return None if job.began_ns is None else max(0, now_ns - job.began_ns) / 1e9


def starts_in_s(job: QueueItem, now_ns: int) -> float | None:
    """Seconds until it may be expected to begin, 0 where that moment has passed; None where nobody knows, and for one
    that has begun."""
    return None if job.starts_ns is None else max(0, job.starts_ns - now_ns) / 1e9


def all_done_s(queue: Sequence[QueueItem], now_ns: int) -> float | None:
    """Seconds until the last job may be expected to have ended; None where it is not known how long one takes."""
    ends = []
    for job in queue:
        begins_ns = job.began_ns if job.began_ns is not None else job.starts_ns
        if begins_ns is None or job.expected_s is None:
            return None
        ends.append((begins_ns - now_ns) / 1e9 + job.expected_s)
    return max(0.0, max(ends, default=0.0))


def begins(job: QueueItem, now_ns: int) -> str:
    """When it may be expected to begin: "in 36 s", "soon"; a dash where nobody knows, and for one that has begun."""
    seconds = starts_in_s(job, now_ns)
    if seconds is None:
        return plain.DASH
    return f"in {plain.about(seconds)}" if seconds >= 1 else "soon"


class Row(NamedTuple):
    """A job in the queue at a moment of CLOCK_MONOTONIC. `place`: None for one under way."""

    job: QueueItem
    place: int | None
    now_ns: int


def rows(queue: Sequence[QueueItem], now_ns: int) -> list[Row]:
    waiting = places(queue)
    return [Row(job, waiting.get(job.run_id), now_ns) for job in queue]


JOBS: tuple[Column[Row], ...] = (
    Column("place", "0 for a job under way; those that wait are counted from 1", lambda row: row.place or 0,
           "", lambda row: str(row.place or " ")),
    Column("target", "the target", at("job.target"), "target", shrink=True),
    *fields("job", {"title": "one sentence about it"}),
    Column("kind", "`run`, `fuzz`, `lint`, `replay` or `peak`", at("job.kind"), "what", lambda row: what(row.job)),
    Column("state", "where it is", at("job.state"), "state", lambda row: state(row.job)),
    *fields("job", {"quick": "whether it is a quick run"}),
    Column("device", "`cuda` or `cpu`; which GPU of several: `cuda:1`, `cuda:0,1`, `cuda` for all of them",
           at("job.device"), "device", drop=1),
    Column("trigger", "who asked: `cli`, `tui` or `watch`", at("job.trigger"),
           "asked by", lambda row: asked_by(row.job), drop=2),
    Column("elapsed_s", "since it began, `null` while it waits", lambda row: elapsed_s(row.job, row.now_ns),
           "for", lambda row: plain.about(elapsed_s(row.job, row.now_ns)), drop=4),
    Column("expected_s", "what the target's last good run like it took", at("job.expected_s"),
           "takes", lambda row: plain.about(row.job.expected_s), drop=3),
    Column("starts_in_s", "until it may begin, `null` where that is not known and for a job under way",
           lambda row: starts_in_s(row.job, row.now_ns), "begins", lambda row: begins(row.job, row.now_ns)),
    Column("run_id", "the job", at("job.run_id"), "job"),
)  # fmt: skip
"""The engine's jobs as a list."""


def batch_text(seconds: Sequence[float | None]) -> str:
    """How long several runs may be expected to take one after the other, by how long each took last; None: nobody
    knows."""
    known = [one for one in seconds if one is not None]
    if not known:
        return "How long that takes is not known: none of them has been run so before."
    if len(known) == len(seconds):
        return f"About {plain.about(sum(known))}, as long as their last runs took."
    rest = len(seconds) - len(known)
    spent = f"About {plain.about(sum(known))} for {len(known)} of them, as long as their last runs took"
    return f"{spent}; nothing is known of the other {rest}."
