"""Many targets at once: which run speaks for each, the geometric mean of their speed-ups, and which verdicts stay when
so many are asked for.

Only runs on one kind of hardware are put together: a mean over an H100 and a laptop is of neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.store.outcomes import Verdict
from aisp.store.results import hardware, outcome, standing
from aisp.store.results.outcome import Stage

if TYPE_CHECKING:
    from aisp.store.record import Comparison, Run
    from aisp.store.results.beside import Counted
    from aisp.store.results.reading import Reading
    from aisp.store.results.regression import Row

LEVEL = 0.05
NORMAL_95 = 1.959963984540054
CALLED = (Verdict.FASTER, Verdict.SLOWER)  # verdicts that claim a difference


# -- which run speaks for a target -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Full:
    """A full run that says something of its target, what it ran on, and what that is called, the best name first."""

    run: Reading
    facts: Mapping[str, object]
    names: Sequence[str]


def full_runs(
    records: Iterable[Run],
    read: Callable[[Run], Reading],
    facts: Callable[[Run], Mapping[str, object]],
    *,
    on_host: bool,
) -> list[Full]:
    """Those of these runs that are full ones and say something, in their order.

    Args:
        read: a run as it may be shown.
        facts: its environment.
        on_host: whether their target is a lesson of the host.
    """
    told = [(record, facts(record)) for record in records if not record.quick and standing.is_result(record)]
    return [Full(read(run), known, hardware.names(run.device, known, on_host=on_host)) for run, known in told]


def newest_hardware(runs: Iterable[Full]) -> str:
    """What the newest of these runs was on; "" without any."""
    return max(((one.run.id, one.names[0]) for one in runs), default=("", ""))[1]  # ids sort by creation


def on_hardware(runs: Iterable[Full], asked: str | None, named: str) -> list[Full]:
    """Those that ran on what was asked for; where nothing was, on the hardware named so."""
    return [one for one in runs if (one.names[0] == named if asked is None else hardware.is_meant(asked, one.names))]


@dataclass(frozen=True, slots=True)
class Part:
    """A target with the run that speaks for it; `left_out` says why none does."""

    target: str
    run: Reading | None = None
    left_out: str = ""

    @property
    def best(self) -> Comparison | None:
        """What it brings into the suite: its run's best rung against the first baseline."""
        return self.run.best if self.run is not None and not self.left_out else None


def part_of(run: Reading) -> Part:
    """A run as a part of a suite."""
    return Part(run.record.target, run, why_not(run))


def part_of_row(row: Row) -> Part:
    """A target in a run of a suite as a part of the suite's number."""
    if row.now is None or row.left_out:
        return Part(row.target, row.now.run if row.now is not None else None, row.left_out or "no run")
    return Part(row.target, row.now.run, why_not(row.now.run))


def why_not(run: Reading) -> str:
    """Why a run cannot count in a suite; "" where it does."""
    return unbelieved(run) or ("" if run.best is not None else "it has no speed-up")


def unbelieved(run: Reading) -> str:
    """Why nothing that a run measured may be relied on; "" where it may, be there a speed-up or none."""
    ended = outcome.of_run(run)
    if ended.outcome.believed:
        return ""
    if ended.bar is not None:
        return ended.bar.sentence
    return f"its times are {ended.word}" if ended.stage is Stage.CHECKS else ended.state


# -- all of them together ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Score:
    """A suite in one number, with the verdicts that stay.

    Attributes:
        count: comparisons in the mean.
        geometric_mean, low, high: of the speed-ups, with its 95 % interval; None where count is 0.
        left_out: (target, reason) of those that have no speed-up to bring in.
        confirmed, not_confirmed: targets called FASTER or SLOWER that stay so, or do not, at `level`.
        level: expected share of wrong ones among the confirmed, at most.
    """

    count: int
    geometric_mean: float | None
    low: float | None
    high: float | None
    left_out: tuple[tuple[str, str], ...]
    confirmed: tuple[str, ...]
    not_confirmed: tuple[str, ...]
    level: float

    def as_json(self) -> dict[str, float | None]:
        """The number with its interval, and over how many targets."""
        return {"count": self.count, "geometric_mean": self.geometric_mean, "low": self.low, "high": self.high}


def together(parts: Iterable[Part]) -> Score:
    """The score over the parts that count."""
    return score((part.target, best) for part in parts if (best := part.best) is not None)


def score(entries: Iterable[tuple[str, Comparison | Counted]]) -> Score:
    """The geometric mean of these targets' comparisons with its interval, and the verdicts that stay.

    The mean of n speed-ups s_i is exp(m), m = sum(log s_i) / n. Each s_i counts as log-normal with the standard error
    e_i = log(high_i / low_i) / (2 * 1.96); the interval is exp(m -+ 1.96 e), e = sqrt(sum(e_i^2)) / n. It says how well
    the mean over these targets is known, not how other targets would fare. SAME and UNDECIDED count like the rest: a
    suite of winners is not a suite.

    Benjamini & Hochberg (Controlling the false discovery rate, 1995) is asked over every comparison that was made, also
    those that claim nothing: were it asked over the claims alone, each of which has a small p-value already, it would
    confirm them all. A claim without a p-value counts as 1.
    """
    logs: list[float] = []
    errors: list[float] = []
    left_out: list[tuple[str, str]] = []
    asked: list[tuple[str, str, float]] = []
    for target, item in entries:
        if item.verdict == Verdict.NONE or item.speedup is None:
            left_out.append((target, "no speed-up"))
            continue
        figures = [one for one in (item.speedup, item.low, item.high) if one is not None and 0 < one < math.inf]
        if len(figures) < 3:
            left_out.append((target, "no interval"))
            continue
        speedup, low, high = figures
        logs.append(math.log(speedup))
        errors.append(math.log(high / low) / (2 * NORMAL_95))
        asked.append((target, item.verdict, 1.0 if item.p_value is None else item.p_value))
    threshold = benjamini_hochberg([p_value for *_, p_value in asked], LEVEL)
    called = [(target, p_value <= threshold) for target, verdict, p_value in asked if verdict in CALLED]
    confirmed = tuple(target for target, stays in called if stays)
    not_confirmed = tuple(target for target, stays in called if not stays)
    if not logs:
        return Score(0, None, None, None, tuple(left_out), confirmed, not_confirmed, LEVEL)
    mean = math.fsum(logs) / len(logs)
    margin = NORMAL_95 * math.sqrt(math.fsum(error**2 for error in errors)) / len(logs)
    ends = (math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))
    return Score(len(logs), *ends, tuple(left_out), confirmed, not_confirmed, LEVEL)


def benjamini_hochberg(p_values: Sequence[float], level: float) -> float:
    """The greatest p-value that is still a discovery; below 0, which no p-value is, where none is.

    The k-th smallest of n is the last one that is at most level * k / n.
    """
    ordered = sorted(p_values)
    passing = [p for rank, p in enumerate(ordered, start=1) if p <= level * rank / len(ordered)]
    return passing[-1] if passing else -1.0


def left_out(parts: Iterable[Part], score: Score) -> dict[str, str]:
    """Targets that do not count, with the reason; those without a run that counts first."""
    found = {part.target: part.left_out for part in parts if part.left_out}
    return found | {target: reason for target, reason in score.left_out if target not in found}


def counted(parts: Iterable[Part], score: Score) -> list[tuple[Reading, Comparison, bool | None]]:
    """The runs that count, each with its best rung's comparison, and whether its verdict stays among many; None where
    there was nothing to confirm."""
    stays = dict.fromkeys(score.confirmed, True) | dict.fromkeys(score.not_confirmed, False)
    skipped = {target for target, _ in score.left_out}
    shown = [part for part in parts if part.target not in skipped]
    return [(part.run, best, stays.get(part.target)) for part in shown if part.run and (best := part.best) is not None]
