"""`aisp suite list` and `aisp suite history`: which suites there are, and what their runs came to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisp.store.results.tables import documents
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.suite_run import name_argument
from aisp.tui.cli.tree import EXIT_NO

if TYPE_CHECKING:
    from aisp.store.results.tables.suites import RunOf
    from aisp.store.suites import Package
    from aisp.tui.cli.common import Function


def from_option(function: Function) -> Function:
    """`--from FOLDER`, as the argument `kept`."""
    return click.option(
        "--from",
        "kept",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False),
        help="Look for packages here, where `suite run --out` wrote them, instead of in the state folder.",
    )(function)


def base_folder(kept: str | None) -> Path:
    """Where suites' folders lie."""
    if kept:
        return Path(kept).absolute()
    from aisp.engine import paths  # makes the state folder, which packages elsewhere need not

    return paths.suites_dir()


# -- list --------------------------------------------------------------------------------------------------------------


@click.command()
@from_option
@common.roots_option
@common.json_option
@click.pass_context
def listing(ctx: click.Context, kept: str | None, roots: tuple[str, ...], as_json: bool) -> None:
    """List the suites that there are: their targets, their files, and when each was run last.

    The shipped ones, and with --root those in the folder `suites` there. `aisp suite run NAME` measures one.

    Exit status: 0; 1 there is none.
    """
    from aisp.kernels.catalog import suites
    from aisp.store import suites as kept_suites  # what packages are, and with it the rules of results
    from aisp.store.results.tables.suites import SUITES, Listed

    found, problems = suites.load_suites([Path(root).absolute() for root in roots])
    for problem in problems:
        common.note(f"aisp: warning: {clean_line(str(problem), limit=1000)}")
    catalog = common.load_catalog(roots)
    base = base_folder(kept)
    listed = []
    for suite in found.values():
        here = kept_suites.read_index(base / suite.name).here
        listed.append(Listed(suite, suite.resolve(catalog)[0], _run_of(here[-1]) if here else None))
    common.answer(as_json, lambda: {"suites": documents(SUITES, listed)}, plain.listing, SUITES, listed)
    ctx.exit(0 if listed else EXIT_NO)


# -- history -----------------------------------------------------------------------------------------------------------


@click.command()
@name_argument
@from_option
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N", help="At most N, the newest."
)
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, name: str, kept: str | None, limit: int, roots: tuple[str, ...], as_json: bool) -> None:
    """Show what the runs of the suite NAME came to, the newest last.

    A package that cannot be read, or that another machine wrote, is told on stderr, and the rest is shown.

    Exit status: 0; 1 it has no run that can be shown; 2 no such suite.
    """
    from aisp.kernels.catalog import suites
    from aisp.store import suites as kept_suites
    from aisp.store.results.tables.suites import RUNS

    base = base_folder(kept)
    known, _ = suites.load_suites([Path(root).absolute() for root in roots])
    names = sorted({*known, *(path.name for path in base.iterdir() if path.is_dir())})
    if name not in names:
        raise common.unknown(f"no suite {clean_line(name)!r}", name, names, "`aisp suite list` shows which there are")
    found = kept_suites.read_index(base / name, None if kept else _machine())
    for sentence in found.told:
        common.note(f"aisp: warning: {sentence}")
    shown = [_run_of(one) for one in found.here[-limit:]]
    if as_json:
        common.say_document({"suite": name, "runs": documents(RUNS, shown), "told": found.told})
    elif shown:
        worse = ", ".join(map(clean_line, shown[-1].worse))
        table = plain.listing(RUNS, shown, width=common.terminal_width())
        common.say("\n".join(table + (["", f"=> worse in the last: {worse}"] if worse else [])))
    else:
        common.note(f"aisp: no run of {clean_line(name)} to show; `aisp suite run {clean_line(name)}` makes one")
    ctx.exit(0 if shown else EXIT_NO)


def _machine() -> dict[str, str] | None:
    """This machine, as the newest run that was made here names it; None where nothing was run."""
    from aisp.tui import suites
    from aisp.tui.cli import stored

    with stored.history() as opened:
        newest = opened.newest(1, all_findings=False)
        return suites.machine_of(opened.facts(newest[0])) if newest else None


def _run_of(one: Package) -> RunOf:
    from aisp.store.results.tables.suites import RunOf

    entries = [entry for entry in one.regression["worse"] if isinstance(entry, Mapping) and "target" in entry]
    return RunOf(one.id, one.folder, one.summary, [str(entry["target"]) for entry in entries])
