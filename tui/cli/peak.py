"""`aisp peak`: the ceilings of this GPU, measured by the engine: bandwidths, rates of arithmetic, latencies.

The measurement belongs to the engine and waits there until the GPU is free. Whoever asks while one is under way
follows that one. The first Ctrl-C cancels what this command asked for; the second leaves at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from aisp.engine.protocol import events
from aisp.store.results.tables import documents
from aisp.store.text import clean_line
from aisp.tui import ceilings, plain
from aisp.tui.cli import common
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import EXIT_INTERRUPTED, EXIT_NOT_HERE, AnswerNoError, NotHereError

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.store.record import Ceiling, Peak


@dataclass(slots=True)
class PeakView:
    """One measurement of ceilings, as far as it is known."""

    id: str
    gpu: str = ""
    wall: str = ""
    count: int = 0
    position: int = 0  # of the newest one, counted from 1
    ceilings: list[Ceiling] = field(default_factory=list)
    finished: events.PeakFinished | None = None

    def apply(self, event: events.Event) -> bool:
        """Take an event in; whether it belonged here and said something new."""
        if isinstance(event, events.PeakCeiling) and event.peak_id == self.id:
            self.gpu = event.gpu or self.gpu
            self.count, self.position = event.count, event.position
            self.ceilings.append(event.ceiling)
            return True
        if isinstance(event, events.PeakFinished) and event.peak_id == self.id:
            self.gpu = event.gpu or self.gpu
            self.finished = event
            return True
        return False


@click.command()
@click.option("--stored", "from_store", is_flag=True, help="Show the last one that was measured; measures nothing.")
@common.again_option
@common.verbose_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, from_store: bool, again: bool, as_json: bool) -> None:
    """Measure the ceilings of this GPU: bandwidths, arithmetic, launch latencies, at the clocks that ran.

    The engine is started by itself and measures once the GPU is free. Beside each value stands the datasheet's, where
    the GPU is a known one. Ctrl-C cancels; a second one leaves at once and the engine goes on.

    Exit status: 0; 1 none is stored (with --stored); 3 there is no GPU, or it could not be measured; 130 left by
    Ctrl-C.
    """
    if from_store and again:
        raise click.UsageError("--again measures and --stored does not: give one of them")
    if from_store:
        stored_peak = newest()
        if stored_peak is None:
            raise AnswerNoError("no ceilings are stored yet; `aisp peak` measures them")
        view = stored_view(stored_peak)
    else:
        measurement = Measurement(again=again)
        if asyncio.run(measurement.run()) or measurement.view is None:
            ctx.exit(EXIT_INTERRUPTED)
        view = measurement.view
    common.answer(as_json, lambda: _as_json(view), lines, view)
    if view.finished is not None and view.finished.reason:
        common.note(view.finished.reason)
        ctx.exit(EXIT_NOT_HERE)


def newest(gpu_uuid: str = "") -> Peak | None:
    """The newest stored measurement, of that GPU where one is named; None where there is none."""
    with common.history() as opened:
        return next(iter(opened.peaks(gpu_uuid, 1)), None)


def stored_view(peak: Peak) -> PeakView:
    """A stored measurement in the form that the stream fills."""
    ended = events.PeakFinished(peak_id=peak.id, gpu=peak.gpu)
    count = len(peak.ceilings)
    return PeakView(peak.id, peak.gpu, peak.wall, count, count, list(peak.ceilings), ended)


class Measurement(Interruptible):
    """One `peak` from the request to the last ceiling."""

    LEFT = "`aisp peak --stored` shows the ceilings once they are measured"

    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        self._again = again
        self.view: PeakView | None = None
        self._asked: list[str] = []  # for each GPU one; the first is shown
        self._ours = False  # this command's request began it: only then is it ours to cancel

    def to_cancel(self) -> list[str]:
        return self._asked if self._ours else []

    async def _follow(self, engine: Connection) -> bool:
        from aisp.engine.protocol import requests  # msgspec: only once there is something to send

        reply = await engine.request(requests.MeasurePeak(seq=engine.next_seq(), again=self._again))
        if reply.error:
            raise NotHereError(reply.error)
        self._asked, self._ours = reply.run_ids, not reply.joined
        if len(reply.run_ids) > 1:
            common.note(f"each of {len(reply.run_ids)} GPUs is measured; this is the first")
        if reply.joined:
            common.joined("the ceilings", reply.run_ids[0])
        self.view = view = PeakView(reply.run_ids[0], wall=_now())
        async for batch in engine.batches():
            for event in batch:
                self.banner(event)
                if isinstance(event, events.Gap):
                    self._catch_up(view)
                elif view.apply(event) and isinstance(event, events.PeakCeiling):
                    value = plain.quantity(event.ceiling.value, event.ceiling.unit)
                    self._progress.step(f"[{event.position}/{event.count}] {event.ceiling.name}  {value}")
            if view.finished is not None:
                if not view.finished.reason and len(view.ceilings) < view.count:
                    self._catch_up(view)  # it was under way when we came
                return True
        return False

    def _catch_up(self, view: PeakView) -> None:
        """What was not heard stands in the store, once the measurement has come to its end."""
        with contextlib.suppress(NotHereError), common.history() as opened:
            peak = opened.peak(view.id)
            if peak is not None:
                whole = stored_view(peak)
                view.gpu, view.ceilings, view.finished = whole.gpu, whole.ceilings, whole.finished

    def _draw(self) -> None:
        view = self.view
        last = view.ceilings[-1] if view is not None and view.ceilings else None
        parts = ["waiting for the GPU"]
        if view is not None and last is not None:
            parts = [f"[{view.position}/{view.count}] {last.name}", plain.quantity(last.value, last.unit)]
        self._progress.show("  ".join([*parts, plain.duration(self.elapsed_s)]))


def _now() -> str:
    from datetime import UTC, datetime  # only where something is measured

    return datetime.now(UTC).isoformat(timespec="milliseconds")


def lines(view: PeakView, *, width: int | None) -> list[str]:
    """The table for people."""
    from aisp.store.results.speed_of_light import ALL_REDUCE

    rows = ceilings.rows(view.gpu, view.ceilings)
    # How a value was found is in the JSON; why there is none must be told, and of an all-reduce its time, which of a
    # short one says more than its bandwidth.
    notes = [
        clean_line(f"{row.name}: {row.ceiling.note}", limit=1000)
        for row in rows
        if row.ceiling.value is None or row.ceiling.name == ALL_REDUCE
    ]
    head = "  ".join(part for part in (clean_line(view.gpu), plain.local_time(view.wall)) if part)
    return [
        head,
        "",
        *plain.listing(ceilings.CEILINGS, rows, width=width, tabs=False),
        *(["", *notes] if notes else []),
    ]


def _as_json(view: PeakView) -> dict[str, Any]:
    told = documents(ceilings.CEILINGS, ceilings.rows(view.gpu, view.ceilings))
    return {"peak_id": view.id, "gpu": view.gpu, "wall": view.wall, "ceilings": told}
