"""Measuring a suite: its targets go through the engine's queue, and a run that was planned before is not made again.

What was planned before is of the same batch (tui.cli.suite_plan). Each target is a line on stderr as it ends, and with
`--json` its run on stdout.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aisp.engine.documents import run_json
from aisp.engine.protocol.requests import StartRuns
from aisp.kernels import catalog
from aisp.store import snapshot_hash
from aisp.store.outcomes import State
from aisp.store.results.prediction import LOOK_BACK_RUNS
from aisp.store.results.progress import all_of
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.follow import BAR_CELLS, Followed, summary
from aisp.tui.cli.run import Session
from aisp.tui.cli.tree import NotHereError
from aisp.tui.progress import bar, doing, process_words

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Run
    from aisp.tui.cli.suite_plan import Plan, Wanted

LINES, MOST_CELLS = 2, 300  # that a target may take on a terminal, and elsewhere


class Measuring(Session):
    """Follows the targets of a plan to their ends."""

    LEFT = "the engine goes on, and the same command goes on where this left off"
    LOST = "the engine went away before the end (`aisp engine --logs` may say why); the same command goes on from there"

    def __init__(self, plan: Plan, targets: Mapping[str, Target], *, as_json: bool) -> None:
        """`targets`: what the plan wants, by id, as it lies there now."""
        super().__init__(_request(plan, plan.asked.targets), as_json=as_json)
        self._plan, self._targets = plan, targets
        self._told_runs: set[str] = set()
        self._progress.quiet = True  # a line a target, and not one a step

    @property
    def by_target(self) -> dict[str, Followed]:
        """The run that speaks for each target that has one."""
        return {run.record.target: run for run in self.runs}

    async def _follow(self, engine: Connection) -> bool:
        # In this order: what ends after the look at the queue is heard of, what ended before it is in the store.
        queue = {item.run_id: item for item in (await engine.status()).queue}
        found = self._planned_before(queue)
        for run in found.values():
            self._follower.follow(run.id).record = run
        self._say_resumed(found)
        for followed in self.runs:
            if followed.finished:
                self._report(followed)
        missing = [wanted for wanted in self._plan.asked.targets if wanted.target not in found]
        for request in requests_of(self._plan, missing):
            try:
                await self._ask(engine, request)
            except NotHereError as error:  # none of these; others may
                for target in request.targets:
                    common.note(f"{target}: not run: {self.refused.setdefault(target, str(error))}")
        for item in (await engine.status()).queue:  # what was planned before is not told again
            known = self._follower.runs.get(item.run_id)
            if known is not None and known.pace.expected_s is None:
                known.pace.expected_s = item.expected_s
        return self._follower.done or await self._listen(engine)

    def _planned_before(self, queue: Mapping[str, object]) -> dict[str, Run]:
        """By target: the newest run that answers for it, ended by itself or under way still."""
        found: dict[str, Run] = {}
        with common.history() as opened:
            for wanted in self._plan.asked.targets:
                target = self._targets[wanted.target]
                snapshot = snapshot_hash(catalog.read_sources(target))
                for run in opened.newest(LOOK_BACK_RUNS, target.id):
                    if run.id < self._plan.id:
                        break
                    usable = not run.state.again if run.state.final else run.id in queue
                    if usable and (run.batch, run.snapshot) == (self._plan.id, snapshot):
                        found[target.id] = run
                        break
        return found

    def _say_resumed(self, found: Mapping[str, Run]) -> None:
        if not found:
            return
        done = sum(run.state.final for run in found.values())
        told = f"{done} of {len(self._plan.asked.targets)} targets are measured"
        told += f", {len(found) - done} under way" if done < len(found) else ""
        self._progress.clear()
        since = plain.local_time(self._plan.wall)
        common.note(f"going on with the run of {since}: {told}; --again begins anew")

    def _report(self, run: Followed) -> None:
        if run.id in self._told_runs:
            return
        self._told_runs.add(run.id)
        self._progress.clear()
        common.mark(run)
        duration = plain.duration(None if run.record.duration_ms is None else run.record.duration_ms / 1e3)
        told = f"{self._count()} {run.record.target}: {summary(run)}  {duration}"
        room = LINES * shutil.get_terminal_size().columns if self._progress.live else MOST_CELLS
        common.tell(plain.fit(clean_line(told, limit=1000), room))
        if self._as_json:
            common.say_line(run_json(run))

    def _count(self, more: int = 0) -> str:
        """How many of all targets are dealt with, those that cannot run here too, as "[3/12]"."""
        ended = sum(run.finished for run in self.runs) + len(self.refused)
        return f"[{ended + more}/{len(self._plan.asked.targets)}]"

    def _draw(self) -> None:
        going = [run for run in self.runs if not run.finished and run.record.state is not State.PLANNED]
        if not going:
            return
        share, left_s = all_of(self.runs, self.elapsed_s, time.monotonic_ns())
        run = going[0]
        parts = [
            self._count(1),
            f"[{drawn}]" if (drawn := bar(share, BAR_CELLS, True)) else "",
            "" if left_s is None else f"about {plain.about(left_s)} left" if left_s >= 1 else "nearly done",
            run.record.target or run.id,
            process_words(run.progress(time.monotonic_ns())),
            doing(run) or run.record.state,
            plain.duration(self.elapsed_s),
        ]
        self._progress.show("  ".join(part for part in parts if part))


def requests_of(plan: Plan, missing: Sequence[Wanted]) -> list[StartRuns]:
    """What the engine is to be asked for these targets: one request for those of the same case and rungs."""
    alike: dict[tuple[str, tuple[str, ...]], list[Wanted]] = {}
    for wanted in missing:
        alike.setdefault((wanted.case, wanted.rungs), []).append(wanted)
    return [_request(plan, group) for group in alike.values()]


def _request(plan: Plan, group: Sequence[Wanted]) -> StartRuns:
    targets, rungs, case = [wanted.target for wanted in group], list(group[0].rungs), group[0].case
    return replace(plan.asked.how, targets=targets, rungs=rungs, case=case, batch=plan.batch)
