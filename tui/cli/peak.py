"""`aisp peak`: the ceilings of this GPU, measured by the engine: bandwidths, rates of arithmetic, latencies.

The measurement belongs to the engine and waits there until the GPU is free. Whoever asks while one is under way
follows that one. The first Ctrl-C cancels what this command asked for; the second leaves at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from aisp.engine.protocol import events
from aisp.store.results.tables import documents
from aisp.tui import ceilings, plain
from aisp.tui.cli import common
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NOT_HERE, AnswerNoError, NotHereError
from aisp.tui.model import PeakView, stored_peak

if TYPE_CHECKING:
    from aisp.engine.client import Connection


@click.command()
@click.option("--stored", "from_store", is_flag=True, help="Show the last one that was measured; measures nothing.")
@common.again_option
@common.verbose_option
@common.json_option
def command(from_store: bool, again: bool, as_json: bool) -> int:
    """Measure the ceilings of this GPU: bandwidths, arithmetic, launch latencies, at the clocks that ran.

    The engine is started by itself and measures once the GPU is free. Beside each value stands the datasheet's, where
    the GPU is a known one. Ctrl-C cancels; a second one leaves at once and the engine goes on.

    Exit status: 0; 1 none is stored (with --stored); 3 there is no GPU, or it could not be measured; 130 left by
    Ctrl-C.
    """
    if from_store and again:
        raise click.UsageError("--again measures and --stored does not: give one of them")
    if from_store:
        with common.history() as opened:
            newest = next(iter(opened.peaks("", 1)), None)
        if newest is None:
            raise AnswerNoError("no ceilings are stored yet; `aisp peak` measures them")
        view = stored_peak(newest)
    else:
        measurement = Measurement(again=again)
        if asyncio.run(measurement.run()) or measurement.view is None:
            return EXIT_INTERRUPTED
        view = measurement.view
    common.answer(as_json, lambda: _as_json(view), lines, view)
    if view.reason:
        common.note(view.reason)
        return EXIT_NOT_HERE
    return EXIT_GOOD


class Measurement(Interruptible):
    """One `peak` from the request to the last ceiling."""

    LEFT = "`aisp peak --stored` shows the ceilings once they are measured"

    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        self._again = again
        self.view: PeakView | None = None
        self._asked: list[str] = []  # for each GPU one; the first is shown
        self._newest = "waiting for the GPU"
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
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.view = PeakView(reply.run_ids[0], wall=now)
        return await self._listen(engine)

    async def _settle(self, engine: Connection) -> bool:
        assert self.view is not None  # something was asked for
        if self.view.finished and not self.view.reason and len(self.view.ceilings) < self.view.count:
            self._catch_up(self.view)  # it was under way when we came
        return self.view.finished

    def _take(self, event: events.Event) -> None:
        view = self.view
        assert view is not None  # something was asked for
        if isinstance(event, events.Gap):
            self._catch_up(view)
        elif getattr(event, "peak_id", "") != view.id:
            return
        if isinstance(event, events.PeakCeiling | events.PeakFinished):
            view.gpu = event.gpu or view.gpu
        if isinstance(event, events.PeakCeiling):
            view.count = event.count
            view.ceilings.append(event.ceiling)
            self._newest = f"[{event.position}/{event.count}] {event.ceiling.name}"
            self._newest += f"  {plain.quantity(event.ceiling.value, event.ceiling.unit)}"
            self._progress.step(self._newest)
        elif isinstance(event, events.PeakFinished):
            view.finished, view.reason = True, event.reason

    def _catch_up(self, view: PeakView) -> None:
        """What was not heard stands in the store, once the measurement has come to its end."""
        with contextlib.suppress(NotHereError), common.history() as opened:
            peak = opened.peak(view.id)
            if peak is not None:
                view.gpu, view.ceilings, view.finished = peak.gpu, list(peak.ceilings), True

    def _draw(self) -> None:
        self._progress.show(f"{self._newest}  {plain.duration(self.elapsed_s)}")


def lines(view: PeakView, *, width: int | None) -> list[str]:
    from aisp.store.results.speed_of_light import ALL_REDUCE

    rows = ceilings.rows(view.gpu, view.ceilings)
    # How a value was found is in the JSON; why there is none must be told, and of an all-reduce its time, which of a
    # short one says more than its bandwidth.
    notes = [
        f"{row.name}: {row.ceiling.note}" for row in rows if row.ceiling.value is None or row.ceiling.name == ALL_REDUCE
    ]
    head = "  ".join(part for part in (view.gpu, plain.local_time(view.wall)) if part)
    table = plain.listing(ceilings.CEILINGS, rows, width=width, tabs=False)
    return [head, "", *table, *(["", *notes] if notes else [])]


def _as_json(view: PeakView) -> dict[str, Any]:
    told = documents(ceilings.CEILINGS, ceilings.rows(view.gpu, view.ceilings))
    return {"peak_id": view.id, "gpu": view.gpu, "wall": view.wall, "ceilings": told}
