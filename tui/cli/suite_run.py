"""`aisp suite`: measure a suite and say whether anything became slower.

Targets go through the engine's queue; a run that was killed goes on where it was. At the end stands a package
(store.suites): what every target came to, against its last and its best comparable run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results.tables import attributes
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_INTERRUPTED, MeantError, NotHereError

if TYPE_CHECKING:
    from aisp.kernels.catalog.contracts import Contract
    from aisp.kernels.catalog.model import Catalog, Problem
    from aisp.kernels.catalog.suites import Entry, Suite
    from aisp.store.results.suite_documents import Pass
    from aisp.tui.cli.suite_plan import Asked, Plan
    from aisp.tui.cli.suite_rows import Result

EXIT_WORSE = 1
ACTIONS = {
    "history": ("name", "kept", "limit", "roots"),
    "compare": ("name", "other", "kept"),
    "name": ("resume", "into", "quick", "device", "roots", "no_turns"),
    "": ("kept", "roots"),
}


def complete_suites(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Names of suites, for a shell."""
    from aisp.kernels.catalog import suites  # only where a shell asks

    found, _ = suites.load_suites([Path(root).absolute() for root in ctx.params.get("roots") or ()])
    return [click.shell_completion.CompletionItem(name) for name in found if name.startswith(incomplete)]


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_suites)
@click.argument("other", metavar="[B]", required=False)
@click.option("--history", is_flag=True, help="Show what the runs of the suite came to, the newest last.")
@click.option("--compare", is_flag=True, help="Put two runs of suites side by side, A and B: how much faster is B?")
@click.option(
    "--from",
    "kept",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="Look for packages here, where --out wrote them, instead of in the state folder.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="With --history: at most N, the newest.",
)
@click.option(
    "--resume/--again",
    default=None,
    help="Go on with the unfinished run, which must be there; or begin anew. By default whichever can be.",
)
@common.out_option(
    "into",
    "--into",
    "Write the package into FOLDER/NAME instead of the state folder.",
    type=click.Path(file_okay=False),
)
@click.option("--quick", is_flag=True, help="Quick runs, whatever the suite says; held against quick ones.")
@common.device_option
@common.roots_option
@click.option("--no-turns", is_flag=True, help="Leave out the runs that confirm what looks slower.")
@common.verbose_option
@common.json_option
def command(
    name: str | None,
    other: str | None,
    kept: str | None,
    limit: int,
    roots: tuple[str, ...],
    as_json: bool,
    history: bool,
    compare: bool,
    **how: Any,
) -> int:
    """Measure the targets of the suite NAME, and say of each whether it became slower. Without NAME list the suites:
    the shipped ones, and with --root those in the folder `suites` there.

    Each is held against its last and its best comparable run. What looks slower is measured again: the old source
    against the new one, in turns, in one run. The result is a package of documents in a folder of its own.

    Started again after a kill, it goes on: what was measured is not measured again. Ctrl-C cancels what it queued.

    For --compare A and B are folders of packages, also of other machines, or the ids of runs of suites, or the
    beginnings of ids. Of each target the rung is compared that was best in B, or else the one that was best in A.

    Exit status: 0 nothing is worse; 1 something is worse, wrong, failed, not to be believed, gone from the suite or
    breaks its contract; 2 no such suite; 3 it could not be done; 130 left by Ctrl-C. Of a list, a history or a
    comparison: 0; 1 there is nothing to show or to compare; 2 no such suite or package.
    """
    common.action(ACTIONS)
    from aisp.tui.cli import suite_history  # the store: only once something is asked for

    if compare:
        if name is None or other is None:
            raise click.UsageError("--compare takes two: A and B, each a package's folder or the id of a suite's run")
        return suite_history.both(name, other, kept, as_json=as_json)
    if history:
        if name is None:
            raise click.UsageError("--history takes the NAME of a suite; `aisp suite` shows which there are")
        return suite_history.history(name, kept, limit, roots, as_json=as_json)
    if name is None:
        return suite_history.listing(kept, roots, as_json=as_json)
    return measure(name, roots, as_json=as_json, **how)


def measure(
    name: str,
    roots: Sequence[str],
    *,
    resume: bool | None,
    into: str | None,
    quick: bool,
    device: str,
    no_turns: bool,
    as_json: bool,
) -> int:
    """One run of a suite from its plan to its package; the exit status."""
    suite, catalog, entries, gone, contract = chosen(name, roots)

    from msgspec import convert  # here and below: the store, numpy and the client

    from aisp.engine.protocol import requests
    from aisp.kernels.catalog.contracts import Cache
    from aisp.store import suites
    from aisp.store.results.suite_documents import Pass
    from aisp.tui.cli import suite_plan, suite_rows
    from aisp.tui.cli.follow import exit_status
    from aisp.tui.cli.suite_session import Measuring
    from aisp.tui.cli.turning import LeftError

    base = Path(into).absolute() / name if into else suite_plan.folder(name)
    targets_of = tuple(suite_plan.Wanted(entry.target.id, entry.case, entry.rungs) for entry in entries)
    how = requests.StartRuns(
        seq=0,  # the connection numbers it
        roots=common.engine_roots(roots),
        targets=[],
        device=device,
        gpu_case=True,
        quick=quick or suite.how.quick,
        replicas=0 if quick and not suite.how.quick else suite.how.replicas,
        cache=Cache.WARM if suite.how.warm else Cache.COLD,
        validity=suite.how.policy.value,
        naive=False,  # a second harness would take its time in every run of every night
        contract=None if contract is None else convert(contract.frozen(), requests.FrozenContract),
    )
    asked = suite_plan.Asked(suite.name, targets_of, str(base), how)
    with suite_plan.held(name):
        plan = _plan(asked, resume)
        targets = {entry.target.id: entry.target for entry in entries}
        session = Measuring(plan, targets, as_json=as_json)
        if asyncio.run(session.run()):
            common.note("the same command goes on where this left off")
            return EXIT_INTERRUPTED
        ran = session.by_target
        if all(run.record.state.silent for run in ran.values()):
            plan.drop()
            raise NotHereError(f"no target of {name} could be measured here, so no package was written")
        try:
            with common.history() as opened:
                lost = {one.target: clean_line(f"{one.message}; {one.fix}", limit=2000) for one in gone if one.target}
                packages = suites.read_index(base).here
                lost |= suite_rows.lost(opened, packages, suite, catalog)
                had = suite_rows.measured_before(packages)
                result = suite_rows.gather(opened, targets, ran, session.refused, contract, lost, had)
                if not no_turns:
                    result = suite_rows.in_turns(opened, result, f"suite-{plan.id[-8:].lower()}", plan.id)
        except LeftError:
            common.note("the same command goes on where this left off")
            return EXIT_INTERRUPTED
        frozen = {} if contract is None else attributes(contract, "name", "sha256")
        head = Pass(name, plan.id, plan.wall, result.machine, frozen)
        launch_count = [entry.target.id for entry in entries if entry.launch_count]
        try:
            package, told = suite_rows.write(base, head, result, launch_count)
        except OSError as error:
            why = f"{base}: {error.strerror or error}; the same command writes it once it can"
            raise NotHereError(f"the package cannot be written into {why}") from None
        plan.drop()
    common.warn(told)
    _say(head, result, launch_count, package, quick=how.quick, as_json=as_json)
    worse = any(row.outcome in ("worse", "lost") for row in result.rows) or gone
    status = exit_status(list(ran.values()), required=(), refused=session.refused)
    return EXIT_WORSE if worse or result.broken else status


# -- what is asked for -------------------------------------------------------------------------------------------------


def chosen(
    name: str, roots: Sequence[str]
) -> tuple[Suite, Catalog, tuple[Entry, ...], tuple[Problem, ...], Contract | None]:
    """The suite of that name with its targets, what of it is gone, which is told on stderr, and its contract.

    Raises:
        MeantError: there is no such suite, it does not load, or its contract does not.
        NotHereError: it has no targets.
    """
    from aisp.kernels.catalog import suites  # parses every suite: only for commands that need them
    from aisp.tui.suites import read_contract

    found, problems = suites.load_suites([Path(root).absolute() for root in roots])
    suite = found.get(name)
    if suite is None:
        broken = [problem for problem in problems if problem.path.stem == name]
        if broken:
            raise MeantError(f"the suite {name} does not load: {'; '.join(map(str, broken))}", kind="broken")
        raise common.unknown(f"no suite {name!r}", name, sorted(found), "`aisp suite` shows which there are")
    catalog = common.load_catalog(roots)
    entries, gone = suite.resolve(catalog)
    common.warn(gone)
    if not entries:
        raise NotHereError(f"no target of the suite {name} is there; `aisp list` shows which are")
    contract, why = read_contract(suite)
    if contract is None and why:
        raise MeantError(f"the contract of the suite {name} does not load: {why}", kind="broken")
    return suite, catalog, entries, gone, contract


def _plan(asked: Asked, resume: bool | None) -> Plan:
    """The plan to carry out: the unfinished one of the same work, or a new one. Another of the suite is given up."""
    from aisp.store.ulid import new_ulid
    from aisp.tui.cli import suite_plan

    last = suite_plan.unfinished(asked.suite)
    unfinished = None if last is None else suite_plan.Plan(last[0], asked)
    same = unfinished is not None and last == (unfinished.id, unfinished.batch.sha256)
    if resume and not same:
        other = " of the same targets and options" if last else ""
        raise click.UsageError(f"there is no unfinished run of {asked.suite}{other} to go on with; leave --resume out")
    if unfinished is not None:
        whole = (Path(asked.base) / unfinished.id).exists()  # it was killed when all was done
        if same and resume is not False and not whole:
            return unfinished
        if not whole:
            since = plain.local_time(unfinished.wall)
            common.note(f"the unfinished run of {since} is given up; what it measured stays in the store")
        unfinished.drop()
    return suite_plan.Plan(new_ulid(), asked)


# -- what it came to ---------------------------------------------------------------------------------------------------


def _say(head: Pass, result: Result, launch_count: Sequence[str], package: Path, *, quick: bool, as_json: bool) -> None:
    from aisp.store.results import suite_documents
    from aisp.tui.cli import suite_rows

    if as_json:
        summary = suite_documents.summary(head, result.rows, launch_count=launch_count)
        found = {"package": str(package), "regression": suite_documents.regressions(head, result.rows)}
        common.say_line(summary | found)
        return
    width = common.terminal_width()
    for line in suite_rows.lines(result, launch_count, name=head.suite, quick=quick, width=width):
        common.say_result([line], "slower" if " worse" in line or " lost" in line else "ok")
    common.say(f"   package: {clean_line(str(package), limit=2000)}")
