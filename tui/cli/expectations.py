"""`aisp dev expectations`: what each lesson predicted before it was measured, beside what was measured last; and on
request what is expected of a GPU, which aisp.tui.cli.agreed tells.

What counts, and which run is looked at, is said in store.results.prediction. A measurement that answers nothing is
shown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisp.kernels.catalog.expected import Scope
from aisp.store.results.expected import Met
from aisp.store.results.hardware import is_meant
from aisp.store.results.overview import Lesson
from aisp.store.results.tables import documents
from aisp.store.results.tables.agreed import LEAST
from aisp.store.results.tables.lessons import PREDICTIONS, held_lines
from aisp.tui import plain
from aisp.tui.cli import agreed, common, resolve

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target


@click.command()
@common.selectors_argument
@click.option("--hardware", metavar="NAME", help="The GPU that is meant (h100); that of the newest full run else.")
@click.option(
    "--min-speedup",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="List the targets whose best speed-up there lies below X.",
)
@click.option("--strict", is_flag=True, help="Hold the newest runs against what was agreed to for this model of GPU.")
@click.option("--portable", is_flag=True, help="Hold them against what was agreed to for any GPU.")
@click.option("--refresh", is_flag=True, help="Make new ranges out of runs, and show the difference to agree to.")
@click.option(
    "--from",
    "kept",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the runs of this document of `dev results --json`, not the store's. Repeatable.",
)
@common.out_option("into", "--into", "Refresh this file.", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Agree to the whole difference.")
@click.option("--accept-portable", is_flag=True, help="Let runs with the policy portable make ranges too.")
@common.roots_option
@common.json_option
def command(
    selectors: tuple[str, ...],
    hardware: str | None,
    min_speedup: float | None,
    strict: bool,
    portable: bool,
    refresh: bool,
    kept: tuple[Path, ...],
    into: Path | None,
    yes: bool,
    accept_portable: bool,
    roots: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the predicted range of each target's speed-up beside what was measured last on that hardware; or ask of a
    GPU whether it still is as it was agreed to be.

    Exit status: 0 nothing was missed; 1 something was, lies below the least speed-up, or was not agreed to; 2 wrong
    usage; 3 the store cannot be read, or the file not be written.
    """
    if not refresh and (into or yes or accept_portable):
        raise click.UsageError("--out, --yes and --accept-portable go with --refresh")
    if (refresh and strict) or (min_speedup is not None and (refresh or strict or portable)):
        raise click.UsageError("--refresh makes a strict file, or with --portable that one; --min-speedup stands alone")
    asked = refresh or strict or portable or min_speedup is not None
    if kept and not asked:
        raise click.UsageError("--from goes with --refresh, --strict, --portable or --min-speedup")
    catalog = common.load_catalog(roots)
    targets = resolve.targets(selectors, roots, catalog=catalog)[0] if selectors else list(catalog.targets)
    if not asked:
        return predictions(targets, hardware, as_json=as_json)
    with runs(kept) as known:
        if refresh:
            scope = Scope.PORTABLE if portable else Scope.STRICT
            fresh = agreed.refresh(
                known,
                catalog,
                targets,
                hardware,
                scope=scope,
                roots=roots,
                into=into,
                accept_portable=accept_portable,
            )
            return agreed.tell_refresh(fresh, scope, yes=yes, as_json=as_json)
        meant = agreed.meant_hardware(known, targets, hardware)
        if min_speedup is not None:
            least = agreed.least(known, targets, meant, min_speedup)
            below = [one.target.id for one in least if one.below]
            told = {"hardware": meant, "min_speedup": min_speedup, "below": below, "targets": documents(LEAST, least)}
            common.answer(as_json, lambda: told, agreed.least_lines, least, meant, min_speedup)
            return 1 if any(one.below for one in least) else 0
        there = agreed.read_files(roots, None if selectors else catalog)
        scopes = [scope for scope, wanted in ((Scope.STRICT, strict), (Scope.PORTABLE, portable)) if wanted]
        held = agreed.hold(known, targets, meant, there, scopes)
    if as_json:
        common.say_document(agreed.held_json(held, meant))
    elif held:
        common.say("\n".join(agreed.held_lines(held, width=common.terminal_width())))
    for scope in {*scopes} - {one.scope for one, _ in held}:
        makes = f"aisp dev expectations --refresh{' --portable' if scope is Scope.PORTABLE else ''}"
        common.note(f"no {scope} file speaks of {meant}; `{makes}` makes one out of its runs")
    missed = any(one.met.missed or one.met is Met.APART for _, targets_held in held for one in targets_held)
    return 1 if missed or not any(targets_held for _, targets_held in held) else 0


@contextlib.contextmanager
def runs(kept: Sequence[Path]) -> Iterator[agreed.Known]:
    """The runs of these documents, of the store where there are none."""
    if kept:
        from aisp.tui.cli import results  # the page's module: only where a document is read

        yield agreed.OfDocuments([results.read(path) for path in kept])
        return
    with common.history() as opened:
        yield agreed.OfStore(opened)


def predictions(targets: Sequence[Target], hardware: str | None, *, as_json: bool) -> int:
    """What was predicted of these targets, of this hardware where it is given, beside what was measured; the exit
    status."""
    wanted = [
        target
        for target in targets
        if target.expect is not None and (hardware is None or is_meant(hardware, [target.expect.on]))
    ]
    with common.history() as opened:
        in_force = opened.marks.in_force
        found = [Lesson(one, held=in_force(bytes(one.folder)), answer=opened.answer(one)) for one in wanted]

    def lines(width: int | None) -> list[str]:
        table = [*plain.listing(PREDICTIONS, found, width=width), *held_lines(found)]
        return table if found else ["no target predicts anything; `expect` in lesson.md does"]

    common.answer(as_json, lambda: {"targets": documents(PREDICTIONS, found)}, lines)
    return 1 if any(one.answer is not None and one.answer.met is False for one in found) else 0
