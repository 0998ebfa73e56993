"""Kernels slowed by a known 1, 2, 5 and 10 %: what does the full protocol find, and does its interval hold the truth?

The rungs of a target do 1.01, 1.02, 1.05 and 1.10 times the baseline's work. How much longer that takes is not quite as
much, since a kernel also has to begin and to end: the truth is the ratio of the profiler's kernel times, taken before
the runs with baseline and rungs in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.proofs.agreement import targets
from tests.proofs.agreement.aa import sitting
from tests.proofs.agreement.common import (
    Document,
    engine_home,
    parser,
    run_program,
)


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
            options = {"replicas": given.replicas, "budget_s": given.budget, "quick": given.quick}
            found = sitting(works, targets.slower_rungs(), home, environ, device="cuda", **options)
        return found, "quick_slowed" if given.quick else "slowed", report.slowed_text([found])

    return run_program("slowed", given, measure)


if __name__ == "__main__":
    sys.exit(main())
