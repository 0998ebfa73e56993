"""`aisp suite list` and `aisp suite history`: which suites there are, and what their runs came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.suite_run import name_argument
from aisp.tui.cli.tree import EXIT_NO

if TYPE_CHECKING:
    from aisp.kernels.catalog.suites import Entry, Suite
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


@dataclass(frozen=True, slots=True)
class Listed:
    """A suite, its targets that are there, and its newest run; None where there is none."""

    suite: Suite
    entries: Sequence[Entry]
    last: Package | None


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

    found, problems = suites.load_suites([Path(root).absolute() for root in roots])
    for problem in problems:
        common.note(f"aisp: warning: {clean_line(str(problem), limit=1000)}")
    catalog = common.load_catalog(roots)
    base = base_folder(kept)
    listed = []
    for suite in found.values():
        here = kept_suites.read_index(base / suite.name).here
        listed.append(Listed(suite, suite.resolve(catalog)[0], here[-1] if here else None))
    common.answer(as_json, lambda: {"suites": [_as_json(one) for one in listed]}, _list_lines, listed)
    ctx.exit(0 if listed else EXIT_NO)


def _list_lines(listed: Sequence[Listed], *, width: int | None) -> list[str]:
    rows = []
    for one in listed:
        how = "quick" if one.suite.how.quick else "full"
        worse = one.last.summary["changes"].get("worse") if one.last else None
        last = "never" if one.last is None else plain.local_time(one.last.summary["wall"])
        row = [one.suite.name, str(len(one.entries)), how, last, str(worse) if worse is not None else plain.DASH]
        rows.append([clean_line(cell) for cell in (*row, one.suite.title, str(one.suite.path))])
    heads = ["suite", "targets", "mode", "last run", "worse", "what it is", "file"]
    return common.table(
        heads, rows, right=["targets", "worse"], width=width, shrink="what it is", drop=["file", "worse", "mode"]
    )


def _as_json(one: Listed) -> dict[str, Any]:
    suite = one.suite
    return {
        "name": suite.name,
        "title": suite.title,
        "file": str(suite.path),
        "quick": suite.how.quick,
        "contract": None if suite.contract is None else str(suite.contract),
        "targets": [
            {
                "target": entry.target.id,
                "case": entry.case or None,
                "rungs": list(entry.rungs),
                "layer": entry.layer,
                "bottleneck": entry.bottleneck or None,
                "launch_count": entry.launch_count,
            }
            for entry in one.entries
        ],
        "last": None if one.last is None else _run_json(one.last),
    }


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

    base = base_folder(kept)
    known, _ = suites.load_suites([Path(root).absolute() for root in roots])
    names = sorted({*known, *(path.name for path in base.iterdir() if path.is_dir())})
    if name not in names:
        raise common.unknown(f"no suite {clean_line(name)!r}", name, names, "`aisp suite list` shows which there are")
    found = kept_suites.read_index(base / name, None if kept else _machine())
    for sentence in found.told:
        common.note(f"aisp: warning: {sentence}")
    shown = found.here[-limit:]
    if as_json:
        common.say_document({"suite": name, "runs": [_run_json(one) for one in shown], "told": found.told})
    elif shown:
        common.say("\n".join(_history_lines(shown, width=common.terminal_width())))
    else:
        common.note(f"aisp: no run of {clean_line(name)} to show; `aisp suite run {clean_line(name)}` makes one")
    ctx.exit(0 if shown else EXIT_NO)


def _machine() -> dict[str, str] | None:
    """This machine, as the newest run that was made here names it; None where nothing was run."""
    from aisp.tui.cli import stored, suite_rows

    with stored.history() as opened:
        newest = opened.newest(1, all_findings=False)
        return suite_rows.machine_of(opened.facts(newest[0])) if newest else None


def _history_lines(shown: Sequence[Package], *, width: int | None) -> list[str]:
    from aisp.store.results.regression import Change  # numpy

    changes = ["not comp." if change is Change.NOT_COMPARABLE else change.value for change in Change]
    heads = ["when", "geometric mean [low..high]", "targets", "without launches", *changes, "busy", "run"]
    rows = []
    for one in shown:
        told = _run_json(one)
        mean, without = (_mapping(told[key]) for key in ("geometric_mean", "geometric_mean_without_launch_count"))
        rows.append(
            [
                plain.local_time(str(told["wall"])),
                plain.speedup(mean.get("value"), mean.get("low"), mean.get("high")),
                str(mean.get("count", plain.DASH)),
                plain.speedup(without.get("value")),
                *(str(one.summary["changes"].get(change, plain.DASH)) for change in Change),
                plain.DASH if told["busy"] is None else str(len(told["busy"])),
                one.id,
            ]
        )
    table = common.table(
        heads,
        [[clean_line(cell) for cell in row] for row in rows],
        right=["targets", *heads[4:-1]],
        width=width,
        drop=["without launches", "targets", "run", "first", "not comp.", "busy", "left out"],
    )
    worse = [clean_line(target) for target in _worse(shown[-1])]
    return table + (["", f"=> worse in the last: {', '.join(worse)}"] if worse else [])


def _worse(one: Package) -> list[str]:
    return [
        str(entry["target"]) for entry in one.regression["worse"] if isinstance(entry, Mapping) and "target" in entry
    ]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _run_json(one: Package) -> dict[str, Any]:
    """A package in short; the schema is in docs/commands.md."""
    summary = one.summary
    return {
        "id": one.id,
        "wall": summary["wall"],
        "machine": summary["machine"],
        "contract": summary.get("contract"),
        "geometric_mean": summary.get("geometric_mean"),
        "geometric_mean_without_launch_count": summary.get("geometric_mean_without_launch_count"),
        "changes": summary["changes"],
        "busy": summary.get("busy"),
        "worse": _worse(one),
        "package": str(one.folder),
    }
