"""`aisp run`: the engine checks and times targets while this prints where it is, then the tables.

The run belongs to the engine. A dropped line, or a second Ctrl-C, leaves it going on there; the first Ctrl-C
asks the engine to cancel it.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aisp.engine.documents import run_json
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import State
from aisp.store.results import outcome
from aisp.store.results.progress import step_words
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.follow import Followed, Follower, exit_status, failed, progress_line, result_lines, summary
from aisp.tui.cli.interruptible import Interruptible
from aisp.tui.cli.tree import EXIT_INTERRUPTED, NotHereError

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.engine.protocol import events, requests
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Arm


@click.command()
@common.selectors_argument
@common.rungs_option
@common.quick_option
@click.option(
    "--replicas",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Fresh processes per arm; the engine's default else.",
)
@click.option("--warm", is_flag=True, help="Time with warm caches: the same call runs just before, untimed.")
@click.option(
    "--flush",
    type=click.Choice(["clean", "dirty"]),
    help="What the flush of a GPU's L2 leaves there: dirty lines are written back while a call is timed.",
)
@click.option("--no-interleave", is_flag=True, help="One arm after the other, where they share a resource.")
@common.device_option
@common.case_option
@click.option(
    "--validity",
    type=click.Choice(["strict", "portable"]),
    default="strict",
    show_default=True,
    help="Whether an environment that is not fit for measuring refuses or warns.",
)
@click.option(
    "--without",
    "left_out",
    multiple=True,
    metavar="CHECK",
    help="Leave this check out, to see what it is good for; such a run has no verdict. Repeatable.",
)
@click.option(
    "--naive/--no-naive",
    "naive",
    default=None,
    help="Also ask what a naive harness would say; by default in full runs.",
)
@click.option(
    "--against", metavar="PROBLEM", help="What TARGET is an answer to: a problem in a format of others, by its path."
)
@common.again_option
@common.root_option
@common.verbose_option
@common.json_option
def command(
    selectors: tuple[str, ...],
    warm: bool,
    flush: str | None,
    no_interleave: bool,
    left_out: tuple[str, ...],
    replicas: int | None,
    against: str | None,
    roots: tuple[str, ...],
    **how: Any,
) -> int:
    """Check and time targets: correctness first, then time, then a verdict.

    TARGET is a folder (.), a Python file (softmax.py), an id (ch07:transpose), a name that one target alone has
    (transpose), a chapter (ch07), a glob ("ch07:*"), all, or a RUN, whose folder is meant.

    The engine is started by itself. A target that is queued or under way alike is followed. Ctrl-C cancels what this
    command queued; a second one leaves at once and the engine goes on.

    Exit status: 0 every run is good; 1 a run is wrong, failed, or its times are not to be believed; 3 a
    target named by its id could not be run here, or none could; 130 left by Ctrl-C.
    """
    if warm and flush is not None:
        raise click.UsageError(f"--warm flushes nothing, and --flush {flush} does; take one of the two")
    cache = Cache.WARM if warm else Cache.DIRTY if flush == "dirty" else Cache.COLD
    if against is not None:
        if len(selectors) != 1:
            raise click.UsageError("--against is about one answer; `aisp judge FOLDER` takes many")
        answer = resolve.target(selectors[0], against=against)
        targets, named = [answer], [answer.id]
    else:
        targets, named = resolve.targets(selectors, roots)
    how |= {"cache": cache, "interleave": not no_interleave, "without": check_ids(left_out)}
    session, interrupted = measure(targets, replicas=replicas or 0, **how)
    if len(session.runs) > 1:
        session.report_suite()
    return EXIT_INTERRUPTED if interrupted else exit_status(session.runs, required=named, refused=session.refused)


def measure(
    targets: Sequence[Target], *, rungs: str | None, case: str | None, as_json: bool, **how: Any
) -> tuple[Session, bool]:
    """Have the engine run targets and print what each came to; the session, and whether it was left by Ctrl-C.

    Args:
        rungs: names with commas between; all honest ones where there are none.
        how: further fields of the request.

    Raises:
        click.UsageError: a target has no such rung or case.
    """
    wanted = [name.strip() for name in (rungs or "").split(",") if name.strip()]
    for target in targets:
        resolve.checked(target, rungs=wanted, case=case)

    from aisp.engine.protocol import requests  # msgspec: only once there is something to send

    request = requests.StartRuns(
        seq=0,  # the connection numbers it
        roots=common.engine_roots(dict.fromkeys(target.root for target in targets)),
        targets=[target.id for target in targets],
        rungs=wanted,
        case=case or "",
        trigger="cli",
        **how,
    )
    session = Session(request, as_json=as_json)
    return session, asyncio.run(session.run())


def check_ids(names: Sequence[str]) -> list[str]:
    """The checks of these names, each once; wrong usage with the nearest ids where one is not there."""
    if not names:
        return []
    from aisp.engine import trust  # the registry of checks: only where one is named

    known = [check.id for check in trust.listing()]
    for name in names:
        if name not in known:
            raise common.unknown(f"no check {name!r}", name, known, "`aisp checks` lists them", most=3)
    return list(dict.fromkeys(names))


class Session(Interruptible):
    """One `run` from the request to the last table."""

    LEFT = "`aisp engine` shows what still runs"
    LOST = f"{Interruptible.LOST}, and `aisp history` shows what it had finished"

    def __init__(self, request: requests.StartRuns, *, as_json: bool) -> None:
        super().__init__()
        self._request = request
        self._as_json = as_json
        self._follower = Follower([])
        self.refused: dict[str, str] = {}  # targets that cannot run here, with the reason
        self._told: dict[str, set[str]] = defaultdict(set)  # why arms failed, by run, as far as it was told
        self._joined: set[str] = set()  # runs that somebody else asked for, who may want them

    @property
    def runs(self) -> list[Followed]:
        """The runs in the order in which they were planned."""
        return list(self._follower.runs.values())

    def to_cancel(self) -> list[str]:
        return [run.id for run in self.runs if not run.finished and run.id not in self._joined]

    async def _follow(self, engine: Connection) -> bool:
        await self._ask(engine, self._request)
        return await self._listen(engine)

    async def _ask(self, engine: Connection, request: requests.StartRuns) -> None:
        """Have the runs of one request planned, and follow them. NotHereError where none of them can be."""
        from msgspec import structs  # already imported with the request

        reply = await engine.request(structs.replace(request, seq=engine.next_seq()))
        self.refused |= reply.refused
        if reply.error:
            raise NotHereError(reply.error)
        for target, why in reply.refused.items():
            common.note(f"{target}: not run: {why}")
        self._joined |= set(reply.joined)
        runs = [self._follower.follow(run_id) for run_id in reply.run_ids]
        planned = (target for target in request.targets if target not in reply.refused)
        for target, run in zip(planned, runs, strict=False):
            if run.id in self._joined:
                run.record = structs.replace(run.record, target=target)  # its plan was told before
                common.joined(target, run.id)

    async def _settle(self, engine: Connection) -> bool:
        for run in await self._follower.catch_up(engine):
            self._report(run)
        return self._follower.done

    def _draw(self) -> None:
        runs = self.runs
        left = sorted((run for run in runs if not run.finished), key=lambda run: run.record.state == "planned")
        if left:
            number, now_ns = runs.index(left[0]) + 1, time.monotonic_ns()
            line = progress_line(left[0], self._follower, number, len(runs), self.elapsed_s, now_ns=now_ns)
            self._progress.show(line)

    def _take(self, event: events.Event) -> None:
        from aisp.engine.protocol import events  # already imported by the connection

        run = self._follower.apply(event)
        if run is None:
            return
        if isinstance(event, events.Step) and event.step.duration_ms is not None:
            took = plain.duration(event.step.duration_ms / 1e3)
            self._progress.step(f"{run.record.target}: {step_words(event.step.name, event.step.arm)}  {took}")
        elif isinstance(event, events.ArmUpdate) and failed(event.arm):
            self._tell_failure(run, event.arm)  # at once: the run may go on for minutes
        elif isinstance(event, events.RunFinished):
            self._report(run)

    def _tell_failure(self, run: Followed, arm: Arm) -> None:
        if arm.reason and arm.state is not State.CANCELLED and arm.reason not in self._told[run.id]:
            self._told[run.id].add(arm.reason)
            self._progress.clear()
            named = "" if arm.reason.startswith(arm.rung) else f"{arm.rung}: "
            common.note(f"{run.record.target}: {named}{arm.reason}")

    def _report(self, run: Followed) -> None:
        self._progress.clear()
        facts = common.mark(run)
        self._progress.ended(f"{run.record.target}: {summary(run)}")
        if self._as_json:
            common.say_line(run_json(run))
        else:
            shown = [*result_lines(run, facts, width=common.terminal_width()), ""]
            common.say_result(shown, outcome.of_run(run).word)

    def report_suite(self) -> None:
        """The runs together, after the last of them: on stdout for people, beside the JSON else."""
        from aisp.store.results.suite import part_of, together  # only where there are several targets
        from aisp.tui.cli import suite

        parts = [part_of(run) for run in self.runs]
        score = together(parts)
        if not score.count:
            return
        mode = ", quick" if self._request.quick else ""
        say = common.tell if self._as_json else common.say
        for line in [*suite.left_out_lines(parts, score), *suite.summary_lines(score, head="all: ", tail=mode)]:
            say(line)
