"""A/A: identical kernels compared by the real engine with the full protocol. Every FASTER or SLOWER is a mistake.

Each of ten kernels becomes a target whose rungs all do the same as its baseline; one run compares all of them, in fresh
processes and with the A/A arm, as any run does. The comparisons of one run share their baseline's samples, so they are
not independent: a baseline that happens to be slow in its processes shows in all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.proofs.agreement import targets
from tests.proofs.agreement.common import Document, bench_run, engine_home, log, parser, rule_of, run_program, taking
from tests.proofs.agreement.truth import truths

RESERVE_S = 15.0


def take(
    works: Sequence[targets.Work],
    root: Path,
    environ: Mapping[str, str],
    *,
    rungs: int,
    replicas: int,
    budget_s: float,
    device: str = "cuda",
    quick: bool = False,
) -> Document:
    """One run per kernel while the budget lasts, as the document's fields."""
    same = targets.same_rungs(rungs)
    more = {"replicas": replicas, "budget_s": budget_s, "device": device, "quick": quick}
    return {"rungs": rungs} | sitting(works, same, root, environ, **more)


def sitting(
    works: Sequence[targets.Work],
    rungs: dict[str, str],
    root: Path,
    environ: Mapping[str, str],
    *,
    replicas: int,
    budget_s: float,
    device: str,
    quick: bool,
) -> Document:
    """The truth of kernels, then one run of these rungs for each while the budget lasts, as a document's fields."""
    start = time.monotonic()
    written = {work.name: targets.write(root, work, rungs) for work in works}
    truth = truths(list(written.values()), environ) if device == "cuda" else {"error": f"no profiler of a {device}"}
    log(f"the profiler took {time.monotonic() - start:.0f} s {truth.get('error', '')}")
    runs: list[Document] = []
    left_out: list[str] = []
    longest_s, rule = 0.0, ""
    for work in works:
        left_s = budget_s - (time.monotonic() - start) - RESERVE_S
        if left_s < max(longest_s, 10.0):
            left_out.append(work.name)
            continue
        target = written[work.name]
        words = ("--targets", target.id, "--root", str(target.root), "--device", device, *taking(replicas, quick))
        ran, took_s, problem = bench_run(environ, *words, limit_s=left_s)
        if runs:  # the first one starts the engine, and is no measure of the others
            longest_s = max(longest_s, took_s)
        rule = rule or rule_of(environ)
        log(f"{work.name}: {took_s:.0f} s {problem or ''}")
        runs.append(digest(work, ran[0] if ran else None, took_s, problem) | {"truth_ms": truth.get(work.name, {})})
    return {
        "replicas": replicas,
        "quick": quick,
        "rule": rule,
        "truth_problem": truth.get("error", ""),
        "runs": runs,
        "left_out": left_out,
    }


def digest(work: targets.Work, run: Document | None, took_s: float, problem: str) -> Document:
    """What is kept of one run: its comparisons with the baseline, and how its arms were timed."""
    done = run is not None and run["status"] == "ok"  # a run cut short has fewer replicas than it says
    comparisons = [c for c in (run or {}).get("comparisons", ()) if done and "(A/A)" not in c["rung"]]
    arms = {arm["rung"]: arm for arm in (run or {}).get("arms", ())}
    base = arms.get("baseline", {})
    names = ("rung", "verdict", "speedup", "low", "high", "floor", "cycles", "p_value", "note")
    return {
        "name": work.name,
        "bound": work.bound,
        "language": work.language,
        "took_s": took_s,
        "problem": problem,
        "status": (run or {}).get("status", ""),
        "flags": (run or {}).get("flags", []),
        "timing": base.get("timing", ""),
        "calls": base.get("calls"),
        "median_ms": base.get("median_ms"),
        "sm_clock_mhz": base.get("sm_clock_mhz"),
        "samples": base.get("samples"),
        "steps_s": steps_s((run or {}).get("steps", ())),
        "arms": [outside_of(arm) for arm in arms.values()] if done else [],
        "comparisons": [{name: c.get(name) for name in names} for c in comparisons],
    }


def outside_of(arm: Document) -> Document:
    """An arm's time by its own clock and by the judge's."""
    quality = arm.get("quality") or {}
    own = {name: arm.get(name) for name in ("rung", "median_ms")}
    return own | {name: quality.get(name) for name in ("outside_ms", "outside_error", "inside")}


def steps_s(steps: Sequence[Document]) -> dict[str, float]:
    """Seconds per step of the whole run; of steps that arms take, summed over arms."""
    total: dict[str, float] = {}
    for step in steps:
        total[step["name"]] = total.get(step["name"], 0.0) + (step["duration_ms"] or 0.0) / 1e3
    return total


def part_of(text: str) -> tuple[int, int]:
    """ "2/3" as (2, 3).

    Raises:
        ValueError: not K/N with 1 <= K <= N.
    """
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise ValueError(f"{text!r} is no part; 1/2 is the first of two")
    return int(number), int(count)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    made = parser("aa", "Compare identical kernels with the full protocol.", budget_s=560)
    made.add_argument("--rungs", type=int, default=20, help="identical rungs per kernel, one comparison each (20)")
    made.add_argument("--replicas", type=int, default=0, help="fresh processes per rung; else in looks, as a full run")
    made.add_argument("--quick", action="store_true", help="quick runs")
    made.add_argument("--kernels", default="", help=f"which, by commas: {', '.join(w.name for w in targets.SAME)}")
    made.add_argument(
        "--part", default="1/1", metavar="K/N", help="every Nth kernel only, from the Kth: a sitting in parts"
    )
    given = made.parse_args(arguments)
    try:
        number, count = part_of(given.part)
    except ValueError as error:
        made.error(str(error))
    names = given.kernels.split(",") if given.kernels else [work.name for work in targets.SAME]
    if unknown := set(names) - {work.name for work in targets.SAME}:
        made.error(f"no such kernel: {', '.join(sorted(unknown))}")
    works = [work for work in targets.SAME if work.name in names][number - 1 :: count]

    def measure() -> tuple[Document, str, str]:
        from tests.proofs.agreement import report

        with engine_home() as (home, environ):
            found = take(
                works, home, environ, rungs=given.rungs, replicas=given.replicas, budget_s=given.budget,
                quick=given.quick,
            )  # fmt: skip
        file = "quick_aa" if given.quick else "aa"
        return found, file if count == 1 else f"{file}_{number}_of_{count}", report.aa_text([found])

    return run_program("aa", given, measure)


if __name__ == "__main__":
    sys.exit(main())
