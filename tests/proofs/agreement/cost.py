"""What trust costs: the wall time of a verified comparison by aisp beside do_bench and a KernelBench-style check.

The same pair of kernels each time. aisp is asked through its command: process start, connection, verification, fresh
processes and verdict are all in the time. The others run in one process each, with and without its start and the
import of torch. Triton's cache on disk is warm for all.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aisp.kernels import catalog
from tests.proofs.agreement import targets
from tests.proofs.agreement.common import ROOT, Document, bench_run, engine_home, log, parser, run_program

LIMIT_S = 240.0
METHODS = ("do_bench", "kernelbench_style")


@dataclass(frozen=True, slots=True)
class Pair:
    """A baseline and one optimized rung."""

    target: str
    folder: Path
    root: Path | None  # None: the shipped collection


def short_pair(root: Path) -> Pair:
    """One fused kernel of 5 us against the two that eager PyTorch launches."""
    work = next(work for work in targets.SAME if work.name == "scale_4mb")
    rungs = {
        "baseline": "def run(x):\n    return x * 2 + 1\n",
        "optimized": "from work import work as run\n\n__all__ = ['run']\n",
    }
    target = targets.write(root, work, rungs)
    return Pair(target.id, target.folder, target.root)


def shipped_pair() -> Pair:
    """RMSNorm of 16384 x 8192."""
    target = catalog.load().find("ch14:rmsnorm")
    return Pair(target.id, target.folder, None)


def until_warm(environ: Mapping[str, str]) -> None:
    """Wait until the engine's standbys are ready, as they are while a person types."""
    from tests.proofs.bench.engines import until_warm as wait

    asyncio.run(wait(environ))


def by_aisp(pair: Pair, environ: Mapping[str, str], *, quick: bool) -> Document:
    """One comparison through the command."""
    words = ["--targets", pair.target, "--rungs", "optimized", "--device", "cuda"]
    words += ["--root", str(pair.root)] if pair.root else []
    told, took_s, problem = bench_run(environ, *words, *(["--quick"] if quick else []), limit_s=LIMIT_S)
    run = told[0] if told else {}
    compared: Document = next((c for c in run.get("comparisons", ()) if c["rung"] == "optimized"), {})
    return {
        "wall_s": took_s,
        "inside_s": (run.get("duration_ms") or 0.0) / 1e3 or None,
        "speedup": compared.get("speedup"),
        "low": compared.get("low"),
        "high": compared.get("high"),
        "verdict": compared.get("verdict", ""),
        "error": problem,
    }


def by_others(pair: Pair, environ: Mapping[str, str], method: str) -> Document:
    """One comparison by a script in a process of its own."""
    start = time.monotonic()
    words = [sys.executable, "-m", "tests.proofs.agreement.cost_script", method, str(pair.folder)]
    try:
        done = subprocess.run(
            words, cwd=ROOT, env=dict(environ), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"wall_s": None, "error": f"not done within {LIMIT_S:.0f} s"}
    took_s = time.monotonic() - start
    if done.returncode:
        return {"wall_s": took_s, "error": " / ".join(done.stderr.splitlines()[-3:])}
    told: Document = json.loads(done.stdout.splitlines()[-1])
    return {"wall_s": took_s, "error": "", **told}


def take(root: Path, environ: Mapping[str, str], *, repeats: int, budget_s: float) -> Document:
    """Every way on every pair, as the document's fields."""
    start = time.monotonic()
    rows: list[Document] = []

    def add(pair: Pair, way: str, found: Document) -> None:
        log(f"{pair.target}, {way}: {found['wall_s'] or 0.0:.1f} s {found['error']}")
        rows.append({"pair": pair.target, "way": way, **found})

    pairs = (shipped_pair(), short_pair(root))
    for number, pair in enumerate(pairs):
        for method in METHODS:
            by_others(pair, environ, method)  # fills Triton's cache on disk; not counted
        add(
            pair,
            "aisp quick, engine started by it" if not number else "aisp quick, first run",
            by_aisp(pair, environ, quick=True),
        )
    for repeat in range(repeats):
        for pair in pairs:
            if time.monotonic() - start > budget_s - 90:
                log(f"the budget ends this in repeat {repeat + 1}")
                break
            until_warm(environ)
            add(pair, "aisp quick", by_aisp(pair, environ, quick=True))
            for method in METHODS:
                add(pair, method, by_others(pair, environ, method))
            if not repeat:
                until_warm(environ)
                add(pair, "aisp full", by_aisp(pair, environ, quick=False))
    return {"repeats": repeats, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    made = parser("cost", "Wall time of a verified comparison beside bare ones.", budget_s=400)
    made.add_argument("--repeats", type=int, default=3, help="of everything but the full comparison (3)")
    given = made.parse_args(arguments)

    def measure() -> tuple[Document, str, str]:
        from tests.proofs.agreement import report

        with engine_home() as (home, environ):
            found = take(home, environ, repeats=given.repeats, budget_s=given.budget)
        return found, "cost", report.cost_text(found)

    return run_program("cost", given, measure)


if __name__ == "__main__":
    sys.exit(main())
