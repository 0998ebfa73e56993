"""`aisp watch`: the app's watch mode as a stream of lines, one per settled save.

The engine watches and measures; this prints. A line compares the edit's time with the previous edit and with
the best so far: ratios of medians without a verdict, because two runs at different times have no common noise
floor, and with a "~" where their intervals overlap. The verdict on the line is the run's own, of its rung against
its baseline.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from aisp.engine.documents import run_json
from aisp.store.record import Arm
from aisp.store.results import edits
from aisp.store.results.tables import attributes
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.follow import Followed, Follower, failed, progress_line, summary
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import NotHereError

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.protocol import events


@click.command()
@common.target_argument
@common.root_option
@common.device_option
@common.json_option
def command(target_id: str, roots: tuple[str, ...], device: str, as_json: bool) -> None:
    """Check and time TARGET again after each save of any file in its folder, until Ctrl-C.

    A syntax error or a wrong answer is shown as such and the watch goes on.

    Exit status: 0 ended by Ctrl-C; 3 the engine refused the watch or went away.
    """
    target = resolve.target(target_id, roots, live=True)
    watching = Watching(target.id, common.engine_roots([target.root])[0], device, as_json=as_json)
    asyncio.run(watching.run())


class Watching(Interruptible):
    """One `aisp watch` from the request to Ctrl-C."""

    LOST = "the engine went away; `aisp engine --logs` may say why, and `aisp watch` starts a new one"
    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, target: str, root: str, device: str, *, as_json: bool) -> None:
        super().__init__()
        self._target = target
        self._root = root
        self._device = device
        self._as_json = as_json
        self._follower = Follower()
        self._edits: dict[str, events.WatchEdit] = {}  # by run id
        self._previous: Arm | None = None
        self._best: Arm | None = None
        self._idle_until_s = 0.0
        self._ours = True

    def to_cancel(self) -> list[str]:
        return []

    async def _follow(self, engine: Connection) -> bool:
        from aisp.engine.client import EngineUnavailableError  # here and below: msgspec, with the connection
        from aisp.engine.protocol import requests

        # Somebody else may watch the same target already; then the watch is theirs to end.
        self._ours = all(item.target != self._target for item in (await engine.status()).watches)
        try:
            what = {"root": self._root, "target": self._target, "device": self._device}
            reply = await engine.request(requests.StartWatch(seq=engine.next_seq(), **what))
            if reply.error:
                self._ours = False  # there is none
                raise NotHereError(reply.error)
            for why in reply.refused.values():
                common.note(f"{self._target} cannot run here, its saves are kept: {why}")
            self._progress.ended(f"watching {self._target}; Ctrl-C ends it")
            return await self._listen(engine)
        finally:
            # Left before the reply came, the engine may have begun to watch all the same.
            if self._ours and not engine.closed:
                with contextlib.suppress(EngineUnavailableError):
                    leave = requests.StopWatch(seq=engine.next_seq(), target=self._target)
                    await engine.request(leave, patience_s=2.0)

    def _draw(self) -> None:
        runs = [self._follower.runs[run_id] for run_id in self._edits if run_id in self._follower.runs]
        run = next((run for run in runs if not run.finished), None)
        if run is None:
            self._progress.show(f"watching {self._target}; Ctrl-C ends it")
            self._idle_until_s = time.monotonic()
        else:
            took_s, now_ns = time.monotonic() - self._idle_until_s, time.monotonic_ns()
            self._progress.show(progress_line(run, self._follower, 1, 1, took_s, now_ns=now_ns))

    def _take(self, event: events.Event) -> None:
        from aisp.engine.protocol import events  # already imported with the connection

        run = self._follower.apply(event)
        if isinstance(event, events.WatchEdit) and event.target == self._target:
            if event.run_id:
                self._edits[event.run_id] = event
            else:
                self._result(event, None)
        elif isinstance(event, events.WatchChanged) and event.target == self._target:
            if event.active and event.polling:
                self._progress.clear()
                common.note("saves are found by looking now and then; `aisp doctor` says why")
            elif not event.active:
                self._ours = False
                raise NotHereError("the watch was ended by somebody else, or its folder is gone")
        elif isinstance(event, events.RunFinished) and run is not None and run.record.target == self._target:
            edit = self._edits.pop(run.id, None)
            if edit is not None:
                self._result(edit, run)
        if isinstance(event, events.RunFinished):
            self._follower.runs.pop(event.run_id, None)  # a watch may last for days

    def _result(self, edit: events.WatchEdit, run: Followed | None) -> None:
        time = None
        if run is not None:
            common.mark(run)
            time = edits.time_of(run)
        best = edits.best((arm, arm) for arm in (self._best, time))
        changes = Changes(
            time, edits.change(time, self._previous), edits.change(time, self._best), time is not None and best is time
        )
        self._progress.clear()
        if self._as_json:
            common.say_line(edit_json(edit, run, changes))
        else:
            common.say(edit_lines(edit, run, changes))
        if time is not None:
            self._previous, self._best = time, best


class Changes(NamedTuple):
    """An edit's time, where one can be believed, how it differs from the previous edit's and from the best one's, and
    whether it is the best now."""

    time: Arm | None
    on_previous: edits.Change | None
    on_best: edits.Change | None
    leads: bool


def edit_lines(edit: events.WatchEdit, run: Followed | None, changes: Changes) -> str:
    """An edit for people: one line, and below it what went wrong."""
    files = clean_line(", ".join(edit.files), limit=200)
    parts, below = [f"#{edit.number}" if edit.number else "start"], edit.error
    if run is None:
        parts.append("not run")
    else:
        parts.append(summary(run))
        if changes.time is not None:
            parts.append(f"{plain.number(changes.time.median_ms)} ms")
            if changes.on_previous is not None:
                parts.append(f"{plain.change(changes.on_previous)} vs the edit before")
            if changes.leads:
                parts.append("best so far")
            elif changes.on_best is not None:
                parts.append(f"{plain.change(changes.on_best)} vs the best")
        below = "\n".join(arm.detail for arm in run.record.arms if failed(arm) and arm.detail)
    parts += [f"({files})" if files else "", f"[{edit.snapshot[:12]}]" if edit.snapshot else ""]
    line = "  ".join(part for part in parts if part)
    return f"{line}\n{plain.indent(below)}" if below else line


def edit_json(edit: events.WatchEdit, run: Followed | None, changes: Changes) -> dict[str, Any]:
    time, to_previous, to_best, _ = changes
    return {
        **attributes(edit, "target", "number", "snapshot", "files", "wall", "error"),
        "best_ms": time.median_ms if time is not None else None,
        "change_to_previous": to_previous.ratio if to_previous else None,
        "differs_from_previous": to_previous.apart if to_previous else None,
        "change_to_best": to_best.ratio if to_best else None,
        "differs_from_best": to_best.apart if to_best else None,
        "run": run_json(run) if run is not None else None,
    }
