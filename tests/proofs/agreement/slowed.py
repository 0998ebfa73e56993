"""Kernels slowed by a known 1, 2, 5 and 10 %: what does the full protocol find, and does its interval hold the truth?

The rungs of a target do 1.01, 1.02, 1.05 and 1.10 times the baseline's work. How much longer that takes is not quite as
much, since a kernel also has to begin and to end: the truth is the ratio of the profiler's kernel times, taken before
the runs with baseline and rungs in turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.proofs.agreement import targets
from tests.proofs.agreement.aa import digest
from tests.proofs.agreement.common import (
    Document,
    bench_run,
    engine_home,
    log,
    parser,
    rule_of,
    run_program,
    taking,
)
from tests.proofs.agreement.truth import truths

RESERVE_S = 15.0


def take(
    root: Path,
    environ: Mapping[str, str],
    works: Sequence[targets.Work],
    *,
    replicas: int,
    budget_s: float,
    quick: bool = False,
) -> Document:
    """The truth, then one run per kernel while the budget lasts, as the document's fields."""
    start = time.monotonic()
    written = {work.name: targets.write(root, work, targets.slower_rungs()) for work in works}
    truth = truths(list(written.values()), environ)
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
        words = ("--targets", target.id, "--root", str(target.root), "--device", "cuda", *taking(replicas, quick))
        told, took_s, problem = bench_run(environ, *words, limit_s=left_s)
        if runs:  # the first one starts the engine, and is no measure of the others
            longest_s = max(longest_s, took_s)
        rule = rule or rule_of(environ)
        log(f"{work.name}: {took_s:.0f} s {problem or ''}")
        kept = digest(work, told[0] if told else None, took_s, problem)
        runs.append(kept | {"truth_ms": truth.get(work.name, {})})
    return {
        "replicas": replicas,
        "quick": quick,
        "rule": rule,
        "truth_problem": truth.get("error", ""),
        "runs": runs,
        "left_out": left_out,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    made = parser("slowed", "Compare kernels with the same kernels slowed by a known part.", budget_s=560)
    made.add_argument("--replicas", type=int, default=0, help="fresh processes per rung; else in looks, as a full run")
    made.add_argument("--quick", action="store_true", help="quick runs")
    made.add_argument("--kernels", default="", help=f"which, by commas: {', '.join(w.name for w in targets.SLOWED)}")
    given = made.parse_args(arguments)
    names = given.kernels.split(",") if given.kernels else [work.name for work in targets.SLOWED]
    if unknown := set(names) - {work.name for work in targets.SLOWED}:
        made.error(f"no such kernel: {', '.join(sorted(unknown))}")
    works = [work for work in targets.SLOWED if work.name in names]

    def measure() -> tuple[Document, str, str]:
        from tests.proofs.agreement import report

        with engine_home() as (home, environ):
            found = take(home, environ, works, replicas=given.replicas, budget_s=given.budget, quick=given.quick)
        return found, "quick_slowed" if given.quick else "slowed", report.slowed_text([found])

    return run_program("slowed", given, measure)


if __name__ == "__main__":
    sys.exit(main())
