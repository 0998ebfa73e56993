"""`aisp suite` without a name, and with --history: which suites there are, and what their runs came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.store.results.tables import documents
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO

if TYPE_CHECKING:
    from aisp.store.results.tables.suites import RunOf
    from aisp.store.suites import Package


def base_folder(kept: str | None) -> Path:
    """Where suites' folders lie."""
    if kept:
        return Path(kept).absolute()
    from aisp.engine import paths  # makes the state folder, which packages elsewhere need not

    return paths.suites_dir()


# -- list --------------------------------------------------------------------------------------------------------------


def listing(kept: str | None, roots: Sequence[str], *, as_json: bool) -> int:
    """List the suites that there are: their targets, their files, and when each was run last. The exit status."""
    from aisp.kernels.catalog import suites
    from aisp.store import suites as kept_suites  # what packages are, and with it the rules of results
    from aisp.store.results.tables.suites import SUITES, Listed

    found, problems = suites.load_suites([Path(root).absolute() for root in roots])
    common.warn(problems)
    catalog = common.load_catalog(roots)
    base = base_folder(kept)
    listed = []
    for suite in found.values():
        here = kept_suites.read_index(base / suite.name).here
        listed.append(Listed(suite, suite.resolve(catalog)[0], _run_of(here[-1]) if here else None))
    common.answer(as_json, lambda: {"suites": documents(SUITES, listed)}, plain.listing, SUITES, listed)
    return EXIT_GOOD if listed else EXIT_NO


# -- history -----------------------------------------------------------------------------------------------------------


def history(name: str, kept: str | None, limit: int, roots: Sequence[str], *, as_json: bool) -> int:
    """Show what the runs of a suite came to, the newest last; the exit status.

    A package that cannot be read, or that another machine wrote, is told on stderr, and the rest is shown.
    """
    from aisp.kernels.catalog import suites
    from aisp.store import suites as kept_suites
    from aisp.store.results.tables.suites import RUNS

    base = base_folder(kept)
    known, _ = suites.load_suites([Path(root).absolute() for root in roots])
    names = sorted({*known, *(path.name for path in base.iterdir() if path.is_dir())})
    if name not in names:
        raise common.unknown(f"no suite {name!r}", name, names, "`aisp suite` shows which there are")
    found = kept_suites.read_index(base / name, None if kept else _machine())
    common.warn(found.problems)
    shown = [_run_of(one) for one in found.here[-limit:]]
    if as_json:
        common.say_document({"suite": name, "runs": documents(RUNS, shown), "told": found.problems})
    elif shown:
        worse = ", ".join(map(clean_line, shown[-1].worse))
        table = plain.listing(RUNS, shown, width=common.terminal_width())
        common.say("\n".join(table + (["", f"=> worse in the last: {worse}"] if worse else [])))
    else:
        common.note(f"no run of {name} to show; `aisp suite {name}` makes one")
    return EXIT_GOOD if shown else EXIT_NO


def _machine() -> dict[str, str] | None:
    """This machine, as the newest run that was made here names it; None where nothing was run."""
    from aisp.tui import suites

    with common.history() as opened:
        newest = opened.newest(1, all_findings=False)
        return suites.machine_of(opened.facts(newest[0])) if newest else None


def _run_of(one: Package) -> RunOf:
    from aisp.store.results.tables.suites import RunOf

    entries = [entry for entry in one.regression["worse"] if isinstance(entry, Mapping) and "target" in entry]
    return RunOf(one.id, one.folder, one.summary, [str(entry["target"]) for entry in entries])
