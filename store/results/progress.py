"""How far a job is and how much longer it takes: what may be said of that while it goes on.

What is left is learned from the last good run like it on this machine. Where this one takes longer, that is said, and
never covered: what is left neither stays at nothing nor grows without `longer`. Without a run like it there is no
number at all, only what was counted: processes, or cases.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisp.store.record import Run
    from aisp.store.results.reading import Reading

SLACK = 0.1  # of the last time: what two runs of the same differ by, so that it is no longer one
LEAST_LEFT_S = 1.0  # less is not told as time: it is as long as the last time
MOST_SHARE = 0.97  # of a job that goes on


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is.

    Attributes:
        elapsed_s: since it left the queue; None while it waits.
        expected_s: what the last good one like it took; None where there was none.
        at: the process or case under way, from 1; 0 before the first.
        planned: how many of them there are at most; 0 where that is not known.
        fewer: whether it may end before all of them are taken.
        share: of its time that has passed, at most MOST_SHARE; None where nobody can say.
        left_s: what is left; None where nobody can say, or it is as long as the last time already.
        longer: whether it takes longer than the last time.
    """

    elapsed_s: float | None = None
    expected_s: float | None = None
    at: int = 0
    planned: int = 0
    fewer: bool = False
    share: float | None = None
    left_s: float | None = None
    longer: bool = False


@dataclass(slots=True)
class Pace:
    """What is known of a run's time beside its record.

    Attributes:
        expected_s: what the last good run like it took; None where there was none.
        expected_processes: fresh processes per arm that one took; 0 where that is not known.
        begun_ns: CLOCK_MONOTONIC when each process began, by its number from 1; what was not heard of is lacking.
    """

    expected_s: float | None = None
    expected_processes: int = 0
    begun_ns: dict[int, int] = field(default_factory=dict)

    def progress(self, run: Run, elapsed_s: float | None) -> Progress:
        """How far the run is, which left the queue `elapsed_s` ago."""
        start_ns = run.start_ns
        begun_s = {n: (at - start_ns) / 1e9 for n, at in self.begun_ns.items()} if start_ns is not None else {}
        looks = looks_of(run.manifest)
        return run_progress(elapsed_s, self.expected_s, self.expected_processes, begun_s, looks)


def looks_of(manifest: Mapping[str, Any]) -> tuple[int, ...]:
    """After how many processes a run may end, by the stop rule in its manifest; () where that says nothing."""
    rule = manifest.get("stop_rule")
    if not isinstance(rule, Mapping) or not isinstance(most := rule.get("replicas"), int):
        return ()
    looks = rule.get("looks")
    told = [look.get("replicas") for look in looks or () if isinstance(look, Mapping)]
    return tuple(sorted({most, *(look for look in told if isinstance(look, int) and look < most)}))


def run_progress(
    elapsed_s: float | None,
    expected_s: float | None,
    expected_processes: int,
    begun_s: Mapping[int, float],
    looks: tuple[int, ...],
) -> Progress:
    """How far a run is.

    What is left is what the last time had left at this moment. From the third process on there is a second witness:
    processes behind the first are alike, so those to come take as long as the one before this took. Where that is
    clearly more, or the last time is over, it takes longer than the last time.

    Args:
        elapsed_s: since it left the queue; None while it waits.
        expected_s, expected_processes: see Pace.
        begun_s: when each process began, by its number from 1, on the clock of `elapsed_s`.
        looks: after how many processes it may end, in order, the last for certain.
    """
    at, planned = max(begun_s, default=0), looks[-1] if looks else 0
    known = Progress(elapsed_s, expected_s, at, planned, len(looks) > 1)
    if elapsed_s is None or expected_s is None or expected_s <= 0:
        return known
    likely = expected_processes if len(looks) > 1 else planned
    by_pace_s = None
    if 3 <= at <= likely and at - 1 in begun_s:
        each_s = begun_s[at] - begun_s[at - 1]
        by_pace_s = (likely - at) * each_s + max(0.0, each_s - (elapsed_s - begun_s[at]))
    return _told(known, elapsed_s, expected_s, by_pace_s, surely_longer=0 < likely < at)


def counted_progress(done: int, planned: int, elapsed_s: float | None, per_s: float | None) -> Progress:
    """How far a job of equal pieces is, such as the cases of a fuzz, of which `per_s` are done in a second."""
    if planned <= 0:
        return Progress(elapsed_s, None, done)
    left_s = (planned - done) / per_s if per_s else None
    told_s = left_s if left_s is not None and left_s >= LEAST_LEFT_S else None
    return Progress(elapsed_s, None, min(done, planned), planned, share=min(done / planned, 1.0), left_s=told_s)


def all_of(runs: Sequence[Reading], elapsed_s: float, now_ns: int) -> tuple[float | None, float | None]:
    """The share that has passed of the time that all of these runs take, and what is left of it in seconds; None where
    nobody can say. A run like which there was none takes as long as the others do in the mean.

    Args:
        elapsed_s: since all of it began.
        now_ns: CLOCK_MONOTONIC.
    """
    ended = [run for run in runs if run.record.state.final]
    going = [run for run in runs if not run.record.state.final]
    if not going:
        return None, None
    known = [run.pace.expected_s for run in runs if run.pace.expected_s]
    known += [run.record.duration_ms / 1e3 for run in ended if run.record.duration_ms and not run.pace.expected_s]
    if not known:
        return min(len(ended) / len(runs), MOST_SHARE), None
    usual_s = statistics.fmean(known)
    told = [(run.progress(now_ns), run.pace.expected_s or usual_s) for run in going]
    least_s = (took_s - (one.elapsed_s or 0.0) if one.left_s is None else one.left_s for one, took_s in told)
    begun = sum(one.elapsed_s is not None for one, _ in told)
    left_s = sum(max(0.0, one_s) for one_s in least_s) / max(1, begun)  # as many at once as there are GPUs
    whole_s = elapsed_s + left_s
    return min(elapsed_s / whole_s, MOST_SHARE) if whole_s > 0 else 0.0, left_s


def _told(
    known: Progress, elapsed_s: float, expected_s: float, by_pace_s: float | None, *, surely_longer: bool
) -> Progress:
    slack_s, by_last_s = SLACK * expected_s + LEAST_LEFT_S, expected_s - elapsed_s
    longer = surely_longer or -by_last_s > slack_s or (by_pace_s is not None and by_pace_s > by_last_s + slack_s)
    left_s = None if surely_longer else by_pace_s if longer else by_last_s
    if left_s is not None and left_s < LEAST_LEFT_S:
        left_s = None
    whole_s = expected_s if left_s is None else elapsed_s + left_s
    return replace(known, share=min(elapsed_s / whole_s, MOST_SHARE), left_s=left_s, longer=longer)


# -- the steps of a run ------------------------------------------------------------------------------------------------

# By the names that the engine gives them, that records and JSON hold, in the order in which a run takes them.
STEP_WORDS: Mapping[str, str] = {
    "verifier": "start the verifier",
    "inputs": "make inputs",
    "warm worker": "start processes",
    "compile": "import and compile",
    "verify": "check values",
    "gate": "check other shapes",
    "warm-up": "warm up",
    "cooling": "wait for a cooler GPU",
    "measure": "measure",
    "challenge": "check timed calls",
    "outside": "time by the judge's clock",
    "trace": "record what the GPU does",
    "values": "check other values",
    "inspect": "collect what checks saw",
    "again": "ask again what looked suspect",
    "naive": "ask the naive harness",
    "verdict": "come to the verdict",
}


def step_words(name: str, arm: str = "") -> str:
    """A step in words, with the rung that it is about: "check values optimized". A name of none is its own word."""
    return f"{STEP_WORDS.get(name, name)} {arm}".rstrip()
