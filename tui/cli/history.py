"""`aisp history`: a target's earlier runs, everybody's newest, or one run whole, from the store."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from aisp.engine.documents import run_json
from aisp.store.commitment import kept
from aisp.store.outcomes import FindingStatus
from aisp.store.record import Arm, Comparison
from aisp.store.results import repeating
from aisp.store.results.comparison import flat
from aisp.store.results.outside import outside_of
from aisp.store.results.progress import step_words
from aisp.store.results.reading import Reading
from aisp.store.results.tables import Column, at, printed, shown
from aisp.store.results.tables.runs import RUNS, Listed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.follow import result_lines
from aisp.tui.cli.tree import EXIT_GOOD
from aisp.tui.earlier import foreign_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisp.tui.cli.stored import Opened


@click.command()
@click.argument("wanted", metavar="[TARGET|RUN]", required=False, shell_complete=common.complete_groups_and_runs)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many runs.")
@common.roots_option
@common.json_option
def command(wanted: str | None, limit: int, roots: tuple[str, ...], as_json: bool) -> int:
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
                return EXIT_GOOD
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
        within = [word for root in roots for word in ("--root", root)]
        makes = repeating.shell("aisp", "run", named or "TARGET", *within)
        common.note(f"no run{named and f' of {named}'} is stored yet; `{makes}` makes one")
    return 0 if listed else 1


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
    arms = [arm for arm in run.record.arms if arm.quality is not None]
    # The caught and suspect ones were told above.
    why = dict.fromkeys((one.check, one.evidence) for one in run.found(FindingStatus.UNAVAILABLE))
    parts = [
        result_lines(run, environment, width=width),
        plain.listing(SAMPLES, arms, width=width, tabs=False) if arms else [],
        plain.listing(COMPARISONS, [(run, one) for one in run.comparisons], width=width, tabs=False)
        if run.comparisons
        else [],
        plain.listing(_pairs("without an answer", "why"), why, width=width, tabs=False) if why else [],
        plain.listing(STEPS, run.record.steps, width=width, tabs=False) if run.record.steps else [],
        _facts("planned", manifest, width=width),
        _facts("ran on", environment, width=width),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part).splitlines()


def _modes(arm: Arm) -> str | None:
    if arm.quality is None or arm.quality.low_mode_ms is None:
        return None
    low, high = plain.number(arm.quality.low_mode_ms), plain.number(arm.quality.high_mode_ms)
    return f"{low}, {high} ({plain.percent(arm.quality.high_share)})"


def _span(name: str) -> Callable[[Arm], str]:
    return lambda arm: plain.quantity(None if (ms := at(f"quality.{name}")(arm)) is None else ms / 1e3, "s")


SAMPLES = (
    printed("samples of", at("rung"), shrink=True),
    printed("n", lambda arm: plain.count(arm.sample_count), right=True),
    printed("drift", lambda arm: plain.percent(arm.quality.drift, 1), right=True),
    printed("lag 1", lambda arm: None if (lag := arm.quality.autocorrelation) is None else f"{lag:.2f}", right=True),
    printed("modes ms (slower)", _modes),
    printed("throttled", lambda arm: plain.percent(arm.quality.throttled_share, 1), right=True),
    printed("step", _span("resolution_ms"), right=True, drop=2),
    printed("pair", _span("overhead_ms"), right=True, drop=1),
)
"""What each arm's samples say of themselves, the A/A arm's too."""


def _by_the_judge(one: tuple[Reading, Comparison]) -> str | None:
    run, item = one
    rung, base = run.arm(item.rung), run.arm(item.baseline)
    if rung is None or base is None or item.speedup is None:
        return None
    found = outside_of(rung, base)
    return None if found is None else plain.speedup(found.ratio, found.low, found.high)


COMPARISONS = (
    printed("rung", lambda one: one[1].rung, shrink=True),
    printed("against", lambda one: one[1].baseline, drop=1),
    printed("in time", lambda one: plain.speedup(one[1].speedup, one[1].low, one[1].high)),
    printed("in cycles", lambda one: plain.speedup(one[1].cycles, one[1].cycles_low, one[1].cycles_high), drop=3),
    printed("by the judge", _by_the_judge, drop=4),
    printed("floor", lambda one: plain.percent(one[1].floor, 2), right=True, drop=2),
    printed("p", lambda one: None if one[1].p_value is None else f"{one[1].p_value:.2g}", right=True),
    printed("verdict", lambda one: one[1].verdict if one[1].verdict.known else None),
)
"""Every comparison in time and in cycles, the A/A arm's and those with further baselines too."""
STEPS = (
    printed("step", lambda step: step_words(step.name)),
    printed("arm", lambda step: step.arm or " ", shrink=True),  # of the whole run where it has none
    printed("took", lambda step: plain.duration((step.duration_ms or 0.0) / 1e3), right=True),
)


def _facts(head: str, facts: Mapping[str, Any], *, width: int | None) -> list[str]:
    return plain.listing(_pairs(head, ""), sorted(flat(facts).items()), width=width, tabs=False) if facts else []


def _pairs(first: str, second: str) -> list[Column[tuple[str, Any]]]:
    """Two columns of what each pair has."""
    return [printed(first, itemgetter(0)), printed(second, itemgetter(1), shrink=True)]
