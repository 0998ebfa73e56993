"""`aisp history`: a target's earlier runs, everybody's newest, or one run whole, from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from aisp.engine.documents import run_json
from aisp.store.commitment import kept
from aisp.store.outcomes import FindingStatus
from aisp.store.record import Comparison
from aisp.store.results import repeating
from aisp.store.results.comparison import flat
from aisp.store.results.outside import outside_of
from aisp.store.results.progress import step_words
from aisp.store.results.reading import Reading
from aisp.store.results.tables import shown
from aisp.store.results.tables.runs import RUNS, Listed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.follow import result_lines
from aisp.tui.earlier import foreign_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisp.tui.cli.stored import Opened


@click.command()
@click.argument("wanted", metavar="[TARGET|RUN]", required=False, shell_complete=common.complete_groups_and_runs)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many runs.")
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, wanted: str | None, limit: int, roots: tuple[str, ...], as_json: bool) -> None:
    """Show the newest runs of TARGET, or of all targets, newest first; or one RUN whole.

    A run is named by its id or the beginning of it. TARGET is an id, a name that one target alone has, a chapter or a
    glob. The store is asked before the catalogue: a target that was deleted keeps its history.

    Exit status: 0; 1 nothing was run yet; 2 no such run or target.
    """
    with common.history() as opened:
        targets: list[str] = []
        if wanted is not None:
            found = opened.meant(wanted, roots)
            if isinstance(found, str):
                show(opened, found, as_json=as_json)
                return
            targets = [name for named in found for name in named]
        # Every check's answer is a millisecond per run, and the table shows those alone that doubt.
        names: list[str | None] = [*targets] or [None]
        records = [record for name in names for record in opened.newest(limit, name, all_findings=as_json)]
        records = sorted(records, key=lambda record: record.id, reverse=True)[:limit]
        runs = [opened.read(record) for record in records]
        others = [] if as_json else [one for name in names for one in opened.foreign(name, limit)]
        foreign = [Listed(Reading(one), foreign_machine(opened, one)) for one in others]
        listed = sorted([*map(Listed, runs), *foreign], key=lambda one: one.run.id, reverse=True)[:limit]
    if as_json:
        common.say_document({"runs": [run_json(run) for run in runs]})
    elif listed:
        common.say("\n".join(lines(listed, with_target=len(targets) != 1, width=common.terminal_width())))
    else:
        named = clean_line(targets[0] if len(targets) == 1 else wanted or "")
        what = f"no run of {named}" if named else "no run"
        within = [word for root in roots for word in ("--root", root)]
        makes = repeating.shell("aisp", "run", named or "TARGET", *within)
        common.note(f"{what} is stored yet; `{makes}` makes one")
    ctx.exit(0 if listed else 1)


def lines(runs: Sequence[Listed], *, with_target: bool, width: int | None) -> list[str]:
    """The table for people, and what is held against rungs."""
    told = [clean_line(f"{one.run.record.target}: {bar.sentence}", limit=2000) for one in runs for bar in one.run.bars]
    columns = shown(RUNS, *(() if with_target else ("target",)))
    return [*plain.listing(columns, runs, width=width, tabs=False), *([""] if told else []), *dict.fromkeys(told)]


def show(opened: Opened, run_id: str, *, as_json: bool) -> None:
    """Print one run with everything that is kept of it but its single samples. Raises LookupError for an unknown
    id."""
    record = opened.run(run_id)
    run, environment = opened.read(record), opened.facts(record)
    more = {"manifest": record.manifest, "commitment_kept": kept(record), "environment": environment}
    common.answer(as_json, lambda: {**run_json(run), **more}, whole_lines, run, record.manifest, environment)


def whole_lines(
    run: Reading, manifest: Mapping[str, object], environment: Mapping[str, object], *, width: int | None
) -> list[str]:
    """One run for people: what `run` printed, then samples, comparisons, steps, plan and machine."""
    parts = [
        result_lines(run, environment, width=width),
        _samples(run, width=width),
        _comparisons(run, width=width),
        _unavailable(run, width=width),
        plain.table(
            ["step", "arm", "took"],
            [
                [step_words(step.name), step.arm, plain.duration((step.duration_ms or 0.0) / 1e3)]
                for step in run.record.steps
            ],
            right=["took"],
            width=width,
            shrink="arm",
        )
        if run.record.steps
        else [],
        _facts("planned", manifest, width=width),
        _facts("ran on", environment, width=width),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part).splitlines()


def _samples(run: Reading, *, width: int | None) -> list[str]:
    """What each arm's samples say of themselves, the A/A arm's too."""
    rows = []
    for arm in run.record.arms:
        quality = arm.quality
        if quality is None:
            continue
        modes = plain.DASH
        if quality.low_mode_ms is not None:
            low, high = plain.number(quality.low_mode_ms), plain.number(quality.high_mode_ms)
            modes = f"{low}, {high} ({plain.percent(quality.high_share)})"
        row = [
            arm.rung,
            plain.count(arm.sample_count),
            plain.percent(quality.drift, 1),
            plain.DASH if quality.autocorrelation is None else f"{quality.autocorrelation:.2f}",
            modes,
            plain.percent(quality.throttled_share, 1),
            _short(quality.resolution_ms),
            _short(quality.overhead_ms),
        ]
        rows.append([clean_line(cell) for cell in row])
    if not rows:
        return []
    heads = ["samples of", "n", "drift", "lag 1", "modes ms (slower)", "throttled", "step", "pair"]
    return plain.table(
        heads,
        rows,
        right=["n", "drift", "lag 1", "throttled", "step", "pair"],
        width=width,
        shrink="samples of",
        drop=["pair", "step"],
    )


def _short(time_ms: float | None) -> str:
    return plain.quantity(None if time_ms is None else time_ms / 1e3, "s")


def _comparisons(run: Reading, *, width: int | None) -> list[str]:
    """Every comparison in time and in cycles, the A/A arm's and those with further baselines too."""
    if not run.comparisons:
        return []
    rows = []
    for c in run.comparisons:
        row = [
            c.rung,
            c.baseline,
            plain.speedup(c.speedup, c.low, c.high),
            plain.speedup(c.cycles, c.cycles_low, c.cycles_high),
            _by_the_judge(run, c),
            plain.percent(c.floor, 2),
            plain.DASH if c.p_value is None else f"{c.p_value:.2g}",
            c.verdict if c.verdict.known else plain.DASH,
        ]
        rows.append([clean_line(cell) for cell in row])
    heads = ["rung", "against", "in time", "in cycles", "by the judge", "floor", "p", "verdict"]
    return plain.table(
        heads,
        rows,
        right=["floor", "p"],
        width=width,
        shrink="rung",
        drop=["against", "floor", "in cycles", "by the judge"],
    )


def _by_the_judge(run: Reading, item: Comparison) -> str:
    """The ratio by the judge's clock, or that there is none."""
    rung, base = run.arm(item.rung), run.arm(item.baseline)
    if rung is None or base is None or item.speedup is None:
        return plain.DASH
    found = outside_of(rung, base)
    return plain.DASH if found is None else plain.speedup(found.ratio, found.low, found.high)


def _unavailable(run: Reading, *, width: int | None) -> list[str]:
    """Checks without an answer, and why; the caught and suspect ones were told above."""
    why: dict[tuple[str, str], None] = {}
    for finding in run.found(FindingStatus.UNAVAILABLE):
        why.setdefault((finding.check, clean_line(finding.evidence, limit=2000)))
    return plain.table(["without an answer", "why"], list(why), width=width, shrink="why") if why else []


def _facts(head: str, facts: Mapping[str, Any], *, width: int | None) -> list[str]:
    rows = [[clean_line(key), clean_line(str(value), limit=2000)] for key, value in sorted(flat(facts).items())]
    return plain.table([head, ""], rows, width=width, shrink="") if rows else []
