"""What lessons came to by what limits them, out of a kept document of results: each lesson's own rung against its first
baseline and against the strongest opponent that ran, and how sharp the predictions were.

Only lessons whose goal is speed or latency count: one about memory is slower on purpose, and a null result is a draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aisp.kernels.catalog.model import Goal
from aisp.store.outcomes import Limiter, State, Validity, Verdict
from aisp.store.results import standing
from aisp.store.results.beside import Counted
from aisp.store.results.comparison import judge
from aisp.store.results.suite import Score, score

CLASSES = {
    Limiter.BYTES: "bytes", Limiter.FLOPS: "flops", Limiter.PCIE: "links", Limiter.NVLINK: "links",
    Limiter.LAUNCH: "latency", Limiter.HOST: "latency",
}  # fmt: skip
Rung = Mapping[str, Any]


class _Weighed(NamedTuple):
    rung: str
    median_ms: float | None
    peak_bytes: int | None


def ranked(run: Mapping[str, Any], goal: str) -> tuple[Rung | None, Rung | None]:
    """The rung that the lesson made itself and is about, and its strongest opponent; None where there is none."""
    rungs: dict[str, Rung] = {rung["rung"]: rung for rung in run["rungs"]}
    arms = [_Weighed(name, rung["median_ms"], rung["peak_bytes"]) for name, rung in rungs.items()]
    own = standing.own(arms, Goal(goal), run["best"])
    other = standing.opponent(arms, own.rung if own else "")
    return rungs[own.rung] if own else None, rungs[other.rung] if other else None


def against(other: Rung, own: Rung) -> Counted:
    """A rung's speed over another's of the same run: the widest interval that both allow, beyond the larger floor."""
    ends = [other["low_ms"], own["high_ms"], other["high_ms"], own["low_ms"]]
    low, high = (ends[0] / ends[1], ends[2] / ends[3]) if all(ends) else (None, None)
    floors = [floor for rung in (other, own) if (floor := rung.get("floor")) is not None]
    return Counted(other["median_ms"] / own["median_ms"], low, high, judge(low, high, max(floors, default=None))[0])


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson's own rung: its class, share of the speed of light, and what it is against baseline and opponent."""

    target: str
    kind: str
    light: float | None
    baseline: Counted
    opponent: Counted | None


def lessons(targets: Iterable[Mapping[str, Any]]) -> list[Lesson]:
    """Lessons that count, in the order of these targets."""
    found = []
    for target in targets:
        run, goal = target["runs"][0], target["goal"]
        own, other = ranked(run, goal)
        sound = (run["state"], run["validity"]) == (State.OK, Validity.VALID)
        if not sound or goal not in (Goal.SPEED, Goal.LATENCY) or own is None or not own["speedup"]:
            continue
        kind = CLASSES.get(own["limiter"], "")
        if goal == Goal.LATENCY and kind != "links":
            kind = "latency"
        base = Counted(own["speedup"], own["low"], own["high"], own["verdict"] or Verdict.UNDECIDED)
        found.append(Lesson(target["target"], kind, own["sol"], base, against(other, own) if other else None))
    return found


def summed(chosen: Sequence[Counted]) -> tuple[Score, list[int]]:
    """Their geometric mean, and how many are faster, the same, slower, and undecided."""
    counts = [sum(one.verdict == word for one in chosen) for word in (Verdict.FASTER, Verdict.SAME, Verdict.SLOWER)]
    return score((str(place), one) for place, one in enumerate(chosen)), [*counts, len(chosen) - sum(counts)]


def blind(targets: Iterable[Mapping[str, Any]]) -> int:
    """How many predictions of speed-ups were met for the reasons given: the first baseline's and the best rung's own
    times were predicted too, and lie in their ranges. A ratio alone is also met by errors that cancel, and by a rung
    that was added after a miss."""
    met = 0
    for target in targets:
        rungs = {rung["rung"]: rung.get("expect") or {} for rung in target["runs"][0]["rungs"]}
        both = [rungs.get(name, {}).get("met", {}).get("ms") for name in ("baseline", target["runs"][0]["best"])]
        met += bool(target["met"] and all(both))
    return met
