"""`aisp bench suite`: one number over many targets, from the last full run of each: the geometric mean of their
speed-ups with its interval, and which verdicts stay when so many are looked at together.

Only runs on one kind of hardware are put together: a mean over an H100 and a laptop is of neither. Every target
that is left out is named with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.results import standing
from aisp.store.results.hardware import is_meant
from aisp.store.results.hardware import names as hardware_names
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common

if TYPE_CHECKING:
    from aisp.engine.suite import Entry, Score
    from aisp.kernels.catalog.model import Target
    from aisp.store import History

LOOK_BACK_RUNS = 200
"""How many of a target's runs are looked through for a full one on the hardware."""


@dataclass(frozen=True, slots=True)
class Part:
    """A target with the run that speaks for it; `left_out` says why none does."""

    target: str
    run: Reading | None = None
    left_out: str = ""


@click.command()
@click.option(
    "--targets",
    "selectors",
    multiple=True,
    metavar="ID[,ID...]",
    help="Target ids, a chapter (ch07), or all, which is the default. Repeatable.",
)
@click.option(
    "--on", "hardware", metavar="NAME", help="Hardware whose runs count (H100, CPU); that of the newest full run else."
)
@common.roots_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context, selectors: tuple[str, ...], hardware: str | None, roots: tuple[str, ...], as_json: bool
) -> None:
    """Put the last full run of each target together: geometric mean, and the verdicts that stay.

    The speed-up of a target is that of its best optimized rung over the first baseline. Which FASTER and SLOWER stay
    is Benjamini and Hochberg's question: of all that is called different at most 5 % may be chance.

    Exit status: 0; 1 no target has a full run that counts; 2 a target that never ran.
    """
    from aisp.tui.cli import stored  # the store and numpy

    known = {target.id: target for target in common.load_catalog(roots).targets}
    with stored.history() as opened:
        wanted = choose([*opened.board(all_findings=False), *opened.attempts()], selectors)
        named, parts = gather(opened, wanted, hardware, known)
    score = together(parts)
    if as_json:
        common.say_document(as_document(named, parts, score))
    elif score.count:
        common.say("\n".join(lines(named, parts, score, width=common.terminal_width())))
    else:
        for line in left_out_lines(parts, score):
            common.note(line)
        common.note("aisp: no full run that counts is stored; `aisp bench run --targets all` makes some")
    ctx.exit(0 if score.count else 1)


def choose(stored: Sequence[str], selectors: Sequence[str]) -> list[str]:
    """The stored targets that `selectors` mean, each once; wrong usage where one means nothing."""
    known = sorted(set(stored))
    words = [word.strip() for text in selectors for word in text.split(",") if word.strip()] or ["all"]
    chosen: dict[str, None] = {}
    for word in words:
        found = [t for t in known if word in ("all", t, t.rpartition(":")[0])]
        if not found and word != "all":
            import difflib  # only on the error path

            near = difflib.get_close_matches(word, known, n=2, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "`aisp bench history` shows what was run"
            raise click.UsageError(f"no run of {word!r} is stored; {hint}")
        chosen |= dict.fromkeys(found)
    return list(chosen)


def gather(
    opened: History, targets: Iterable[str], hardware: str | None, known: Mapping[str, Target]
) -> tuple[str, list[Part]]:
    """The hardware that the runs must be on, and per target its newest full run there of its usual case; of any case
    where the target is not `known` any more."""
    from aisp.tui.cli import stored  # already imported with the store

    full: dict[str, list[tuple[list[str], Reading]]] = {}
    of_another: set[str] = set()  # targets with full runs of other cases
    newest = ("", "")  # id, which sorts by creation, and hardware
    kept = stored.marks()
    for target in targets:
        full[target] = []
        lesson = known.get(target)
        on_host = lesson is not None and lesson.on_host
        for record in opened.newest(LOOK_BACK_RUNS, target, all_findings=False):
            if record.quick or not standing.is_result(record):
                continue
            if lesson is not None and record.case != lesson.usual_case(record.device).name:
                of_another.add(target)
                continue
            names = hardware_names(record.device, stored.environment(opened, record), on_host=on_host)
            full[target].append((names, stored.view(record, kept)))
            newest = max(newest, (record.id, names[0]))
    named = hardware or newest[1]
    parts = []
    for target, runs in full.items():
        run = next(
            (run for names, run in runs if (names[0] == named if hardware is None else is_meant(hardware, names))), None
        )
        if run is None:
            what = "no full run of its usual case" if target in of_another else "no full run"
            parts.append(Part(target, left_out=f"{what} on {named}" if named else what))
        else:
            parts.append(Part(target, run, why_not(run)))
    return named, parts


def why_not(run: Reading) -> str:
    """Why a run cannot count in a suite; "" where it does."""
    if run.record.state != State.OK:
        return run.record.state
    if run.best is None and run.bars:
        return "; ".join(mark.sentence for mark in run.bars)
    if run.record.validity in (Validity.SUSPECT, Validity.CAUGHT):
        return f"its times are {run.record.validity}"
    if run.best is None:
        return "it has no speed-up"
    return ""


def entry(run: Reading) -> Entry:
    """What a run that counts brings into the suite: its best rung."""
    from aisp.engine.suite import Entry  # standard library alone, and only where a suite is asked for

    best = run.best
    assert best is not None
    return Entry(
        target=run.record.target,
        rung=best.rung,
        verdict=best.verdict,
        speedup=best.speedup,
        low=best.low,
        high=best.high,
        p_value=best.p_value,
    )


def together(parts: Iterable[Part]) -> Score:
    """The score over the parts that count."""
    from aisp.engine.suite import score

    return score([entry(part.run) for part in parts if part.run is not None and not part.left_out])


def of_runs(runs: Iterable[Reading]) -> list[Part]:
    """The runs of one `bench run` as parts of a suite."""
    return [Part(run.record.target, run, why_not(run)) for run in runs]


def summary_lines(score: Score, *, head: str = "", tail: str = "") -> list[str]:
    """ "=> geometric mean 1.84x [1.62..2.09] over 12 targets", and which verdicts stay. `head` and `tail` stand around
    the first line's text."""
    mean = plain.speedup(score.geometric_mean, score.low, score.high)
    targets = f"{score.count} target" + ("s" if score.count != 1 else "")
    found = [f"=> {head}geometric mean {mean} over {targets}{tail}"]
    called = len(score.confirmed) + len(score.not_confirmed)
    if called:
        how = f"Benjamini-Hochberg, {plain.percent(score.level)}"
        found.append(f"   {len(score.confirmed)} of {called} FASTER or SLOWER confirmed ({how})")
    return found


def left_out(parts: Iterable[Part], score: Score) -> list[tuple[str, str]]:
    """Targets that do not count, with the reason; those without a run that counts first."""
    found = {part.target: part.left_out for part in parts if part.left_out}
    for target, reason in score.left_out:
        found.setdefault(target, reason)
    return list(found.items())


def left_out_lines(parts: Iterable[Part], score: Score) -> list[str]:
    """A line per reason, with the targets that it leaves out."""
    by_reason: dict[str, list[str]] = {}
    for target, reason in left_out(parts, score):
        by_reason.setdefault(clean_line(reason, limit=2000), []).append(clean_line(target))
    return [f"left out, {reason}: {', '.join(targets)}" for reason, targets in by_reason.items()]


def lines(named: str, parts: Sequence[Part], score: Score, *, width: int | None) -> list[str]:
    """The suite for people."""
    rows = []
    skipped = {target for target, _ in left_out(parts, score)}
    for part in parts:
        best = part.run.best if part.run else None
        if part.run is None or best is None or part.target in skipped:
            continue
        row = [
            part.target,
            best.rung,
            plain.speedup(best.speedup, best.low, best.high),
            best.verdict,
            stays(part.target, best.verdict, score),
            plain.DASH if best.p_value is None else f"{best.p_value:.2g}",
            plain.local_time(part.run.record.wall),
        ]
        rows.append([clean_line(cell) for cell in row])
    heads = ["target", "rung", "speed-up [low..high]", "verdict", "confirmed", "p", "when"]
    return [
        f"last full runs on {clean_line(named)}",
        "",
        *plain.table(heads, rows, right=["p"], width=width, shrink="target", drop=["when", "p", "rung"]),
        "",
        *left_out_lines(parts, score),
        *summary_lines(score),
    ]


def stays(target: str, verdict: str, score: Score) -> str:
    """Whether a verdict stays among many: "yes", "no", a dash where there was nothing to confirm."""
    if verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return plain.DASH
    return "yes" if target in score.confirmed else "no" if target in score.not_confirmed else plain.DASH


def as_document(named: str, parts: Sequence[Part], score: Score) -> dict[str, Any]:
    """The suite for JSON; the schema is in docs/commands.md."""
    skipped = left_out(parts, score)
    gone = {target for target, _ in skipped}
    results = []
    for part in parts:
        best = part.run.best if part.run else None
        if part.run is None or best is None or part.target in gone:
            continue
        answer = stays(part.target, best.verdict, score)
        results.append(
            {
                "target": part.target,
                "run_id": part.run.id,
                "wall": part.run.record.wall,
                "rung": best.rung,
                "speedup": best.speedup,
                "low": best.low,
                "high": best.high,
                "p_value": best.p_value,
                "verdict": best.verdict,
                "confirmed": {"yes": True, "no": False}.get(answer),
            }
        )
    return {
        "on": named or None,
        "count": score.count,
        "geometric_mean": score.geometric_mean,
        "low": score.low,
        "high": score.high,
        "level": score.level,
        "confirmed": list(score.confirmed),
        "not_confirmed": list(score.not_confirmed),
        "left_out": [{"target": target, "reason": reason} for target, reason in skipped],
        "results": results,
    }
