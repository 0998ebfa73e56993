"""`aisp suite` without a name, with --history and with --compare: which suites there are, what their runs came to, and
two of them target by target, of this machine or of others.

What may be compared is said in store.results.beside: the same target, case, mode and driver, timed in the same way. The
hardware may differ, and then the ratio is of the two. A ratio is the time in A over the time in B, with the widest
interval that both intervals allow; it has neither the machine nor the day taken out, as a verdict would need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from aisp.store.given import regular_bytes
from aisp.store.results import beside
from aisp.store.results.beside import Row
from aisp.store.results.expected import Sighting
from aisp.store.results.tables import documents
from aisp.store.results.tables.beside import ROWS
from aisp.store.suites import MOST_BYTES
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, NotHereError

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


# -- two runs ----------------------------------------------------------------------------------------------------------

LEAST_ID = 4  # characters of an id that may stand for it


class _Target(msgspec.Struct, frozen=True):
    """What this reads of an entry of `runs.json` beside the run."""

    target: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Two packages, the rung of each target that both have, and the targets that one alone has."""

    a: Package
    b: Package
    rows: list[Row]
    only_a: list[str]
    only_b: list[str]


def both(first: str, second: str, kept: str | None, *, as_json: bool) -> int:
    """Put two runs of suites side by side, of folders of packages or ids of runs; the exit status."""
    found = compare(*(find(word, kept) for word in (first, second)))
    common.answer(as_json, lambda: _as_json(found), lines, found)
    return EXIT_GOOD if any(row.speedup is not None for row in found.rows) else EXIT_NO


def find(word: str, kept: str | None) -> Package:
    """The package in that folder, or of that id.

    Raises:
        UsageError: there is none, or several begin so.
        NotHereError: it cannot be read; the message says why.
    """
    from aisp.store import suites  # what packages are

    folder = Path(word).absolute()
    if folder.is_dir():
        candidates = [folder]
    elif len(word) >= LEAST_ID:
        named = (path for path in base_folder(kept).glob("*/*") if path.name.startswith(word.upper()))
        candidates = [path for path in named if path.is_dir()]
    else:
        candidates = []
    if len(candidates) != 1:
        known = "is none" if not candidates else f"are {len(candidates)}"
        how = "give a package's folder or the id of a suite's run; `aisp suite --history NAME` shows them"
        raise click.UsageError(f"there {known} of {word!r}: {how}")
    (place,) = candidates
    found = suites.read_index(place.parent)
    package = next((one for one in (*found.here, *found.elsewhere) if one.folder == place), None)
    if package is None:
        why = [told for told in found.problems if told.startswith(f"{clean_line(place.name)}: ")]
        raise NotHereError(why[0] if why else f"{place} holds no package")
    return package


def compare(a: Package, b: Package) -> Compared:
    """The targets of both."""
    ran = [_runs(one) for one in (a, b)]
    both = [target for target in ran[0] if target in ran[1]]
    rows = [_row(target, ran[0][target], ran[1][target]) for target in both]
    named = ([str(e["target"]) for e in p.summary["targets"] if isinstance(e, dict) and "target" in e] for p in (a, b))
    return Compared(a, b, rows, *([name for name in names if name not in both] for names in named))


def _runs(one: Package) -> dict[str, Sighting]:
    from aisp.tui.cli.suite_rows import RUNS  # with the store

    file = one.folder / RUNS
    try:
        entries = msgspec.json.decode(regular_bytes(file, MOST_BYTES, follow=True), type=dict[str, Any]).get("targets")
        if not isinstance(entries, list):
            raise NotHereError(f"{file} lists no targets")
        return {msgspec.convert(e, _Target).target: msgspec.convert(e, Sighting) for e in entries}
    except OSError as error:
        raise NotHereError(common.cannot("read", file, error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise NotHereError(f"{file} is not what a run of a suite writes: {error}") from None


def _row(target: str, a: Sighting, b: Sighting) -> Row:
    found = {row.rung: row for row in beside.rows(target, a, b)}
    names = [name for name in (b.best.rung, a.best.rung) if name in found]
    rows = [found[name] for name in names] or list(found.values())
    row = next((row for row in rows if row.speedup is not None), rows[0] if rows else None)
    if row is None:
        return Row(target, b.case, "", None, None, reason="no rung was timed")
    if a.quick is not b.quick:
        modes = " and ".join("quick" if one.quick else "full run" for one in (a, b))
        return replace(row, speedup=None, low=None, high=None, reason=f"mode: {modes}")
    return row


def lines(found: Compared, *, width: int | None) -> list[str]:
    text = [f"{name}  {_head(one)}" for name, one in (("A", found.a), ("B", found.b))]
    if rows := [row for row in found.rows if row.speedup is not None]:
        text += ["", *plain.listing(ROWS, rows, width=width)]
    text.append("")
    notes = [(row.target, f"not comparable, {row.reason}") for row in found.rows if row.speedup is None]
    for name, only in (("A", found.only_a), ("B", found.only_b)):
        notes += [(target, f"a result in {name} alone") for target in only]
    told = common.by_reason(notes)
    score = beside.mean(found.rows)
    mean = plain.speedup(score.geometric_mean, score.low, score.high)
    told.append(
        f"=> B is {mean} as fast as A: the geometric mean over {plain.counted(score.count, 'target')}"
        if score.count
        else "=> nothing can be compared"
    )
    return text + (plain.wrapped(told, width) if width is not None else told)


def _head(one: Package) -> str:
    machine = one.summary["machine"]
    on = " on ".join(str(machine[key]) for key in ("gpu", "host") if machine.get(key))
    facts = (plain.local_time(one.summary["wall"]), one.summary["suite"], on or str(machine.get("cpu") or ""), one.id)
    return "  ".join(clean_line(fact) for fact in facts if fact)


def _as_json(found: Compared) -> dict[str, Any]:
    heads = (("a", found.a), ("b", found.b))
    return {
        **{name: {key: one.summary[key] for key in ("id", "suite", "wall", "machine")} for name, one in heads},
        **beside.mean(found.rows).as_json(),
        "targets": documents(ROWS, found.rows),
        "only_a": found.only_a,
        "only_b": found.only_b,
    }
