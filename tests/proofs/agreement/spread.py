"""Forked and started processes: do the medians of replicas differ as much from one another in either?

Forks of one nursery share their addresses. If that took away a spread that users meet, intervals would be too narrow.
Each lesson's baseline runs in ten processes of either kind, with its A/A arm beside it, as quick runs with so many
replicas. What is compared is how the replicas of an arm spread: of its median time, and of its ratio to its double in
the same process slots, from which a drift of the machine has gone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aisp.engine.nursery import SWITCH
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Role, Target
from aisp.store.reader import History
from tests.proofs.agreement.aa import part_of
from tests.proofs.agreement.common import Document, bench_run, engine_home, log, parser, run_program

REPLICAS = 10
RESERVE_S = 20.0


def chosen(count: int, device: str) -> list[Target]:
    """So many shipped lessons for one device, evenly over the catalogue."""
    kinds = {"torch"} if device == "cpu" else {"torch", "triton", "cuda"}
    able = [
        target
        for target in catalog.load().targets
        if target.ranks == 1 and next(r for r in target.rungs if r.role is Role.BASELINE).kind.value in kinds
    ]
    return [able[int(place)] for place in np.linspace(0, len(able) - 1, count)]


def medians_ms(state: Path, run_id: str) -> dict[str, list[float]]:
    """By arm, the median of each replica's samples that count."""
    with History(state / "aisp.db") as history:
        samples = history.samples(run_id)
    found = {}
    for arm, kept in samples.items():
        counts = kept.discarded == 0
        replicas = np.unique(kept.replica[counts])
        found[arm] = [float(np.median(kept.device_ms[counts & (kept.replica == number)])) for number in replicas]
    return found


def take(targets: Sequence[Target], *, device: str, budget_s: float) -> Document:
    """Each lesson both ways, one way after the other, while the budget lasts, as the document's fields."""
    start = time.monotonic()
    rows: list[Document] = []
    longest_s = 0.0
    with engine_home() as (one, forking), engine_home() as (other, starting):
        ways = {"forked": (one, forking | {SWITCH: "1"}), "started": (other, starting | {SWITCH: "0"})}
        for target in targets:
            began = time.monotonic()
            if budget_s - (began - start) - RESERVE_S < longest_s:
                break
            row: Document = {"target": target.id}
            for way, (home, environ) in ways.items():
                words = ("--targets", target.id, "--rungs", "baseline", "--device", device, "--quick")
                told, took_s, problem = bench_run(environ, *words, "--replicas", str(REPLICAS), limit_s=180.0)
                good = told and told[0]["status"] == "ok"
                row[way] = {
                    "took_s": took_s,
                    "problem": problem,
                    "medians_ms": medians_ms(home / "state", told[0]["run_id"]) if good else {},
                }
            rows.append(row)
            longest_s = max(longest_s, time.monotonic() - began)
            log(f"{target.id}: {row['forked']['took_s']:.0f} s, {row['started']['took_s']:.0f} s")
    return {"replicas": REPLICAS, "device": device, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    made = parser("spread", "Replicas in forked and in started processes.", budget_s=560)
    made.add_argument("--lessons", type=int, default=20, metavar="N", help="how many (20)")
    made.add_argument(
        "--part", type=part_of, default=(1, 1), metavar="K/N", help="every Nth of them only, from the Kth"
    )
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = made.parse_args(arguments)
    number, count = given.part

    def measure() -> tuple[Document, str, str]:
        from tests.proofs.agreement import report

        targets = chosen(given.lessons, given.device)[number - 1 :: count]
        found = take(targets, device=given.device, budget_s=given.budget)
        name = f"spread_{given.device}" + ("" if count == 1 else f"_{number}_of_{count}")
        return found, name, report.spread_text([found])

    return run_program("spread", given, measure, needs_gpu=given.device == "cuda")


if __name__ == "__main__":
    sys.exit(main())
