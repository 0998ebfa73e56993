"""`python -m tests.proofs many`: how many candidates an hour are judged, and whether any is lost or judged twice.

An engine with a state folder of its own judges candidates that sum the rows of a matrix, on the CPU, or with --triton
by a kernel of their own each, on the GPUs that there are. One in ten dies (of a signal, by leaving with status 0, of an
exception, before it is even parsed), one in fifty hangs, one in fifty is wrong. `aisp judge` is killed with
SIGKILL while it works, and given again. Prints one JSON object with what was asked for, what came of it, and the
machine's load meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aisp.store.candidates import Candidates, CandidateState
from aisp.store.results.candidate import Outcome
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.tui.fake_engine import start_aisp

KINDS: Mapping[str, str] = {
    "right": "def run(x):\n    return x.sum(-1)\n",
    "wrong": "def run(x):\n    return x[:, 1:].sum(-1)\n",
    "hangs": "def run(x):\n    while True:\n        pass\n",
    "segv": "import os\n\n\ndef run(x):\n    os.kill(os.getpid(), 11)\n",
    "leaves": "import os\n\nos._exit(0)\n\n\ndef run(x):\n    return x\n",
    "raises": "def run(x):\n    raise ValueError('no')\n",
    "unparsed": "def run(x:\n    return x\n",
}
EXPECTED: Mapping[str, frozenset[str]] = {
    "right": frozenset({"faster", "slower", "same", "undecided", "right"}),
    "wrong": frozenset({"wrong"}),
    "hangs": frozenset({"stuck"}),
    "segv": frozenset({"crashed"}),
    "leaves": frozenset({"died"}),
    "raises": frozenset({"error"}),
    "unparsed": frozenset({"error"}),
}
"""By kind: the words that an outcome of it may have."""
TRITON = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rows_{number}(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range({first}, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * N + at, mask=at < N, other=0.0)
    tl.store(y + row, tl.sum(total))


def run(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    rows_{number}[(x.shape[0],)](x, y, x.shape[1], BLOCK={block}, num_warps={warps})
    return y
"""
"""What is right or wrong with --triton: no two kernels have one name, so that each is compiled."""
EACH_HUNDRED = ("hangs",) * 2 + ("wrong",) * 2 + ("segv",) * 3 + ("leaves",) * 3 + ("raises",) * 2 + ("unparsed",) * 2
LOOK_S = 0.5
REST_S, MOST_STOPS = 10.0, 20


def kinds(count: int) -> Iterator[str]:
    """The kind of each candidate, the broken ones spread evenly."""
    step = 100 // len(EACH_HUNDRED)
    for number in range(count):
        place, rest = divmod(number % 100, step)
        yield EACH_HUNDRED[place] if rest == 0 and place < len(EACH_HUNDRED) else "right"


def source(kind: str, number: int, *, triton: bool) -> str:
    """A candidate of this kind, like no other one."""
    if triton and kind in ("right", "wrong"):
        first = int(kind == "wrong")
        return TRITON.format(number=number, first=first, block=64 << number % 6, warps=1 << number // 6 % 4)
    return f"NUMBER = {number}\n{KINDS[kind]}"


def write(folder: Path, count: int, *, triton: bool) -> dict[str, str]:
    """Write so many candidates, no two alike; the kind of each by name."""
    made = {f"{kind}_{number:04}.py": kind for number, kind in enumerate(kinds(count))}
    folder.mkdir()
    for number, (name, kind) in enumerate(made.items()):
        (folder / name).write_text(source(kind, number, triton=triton))
    return made


def target(root: Path) -> Path:
    """The target: sums of rows, in 64 parts by the baseline; 64 MiB of them on a GPU."""
    files = {
        "reference.py": "def run(x):\n    return x.sum(-1)\n",
        "baseline.py": "def run(x):\n    total = x[:, ::64].sum(-1)\n    for part in range(1, 64):\n"
        "        total += x[:, part::64].sum(-1)\n    return total\n",
        "optimized.py": "def run(x):\n    return x.sum(-1)\n",
    }
    made = write_target(
        root,
        files,
        axes="{ M = 4096, N = 4096 }",
        inputs='x = "float32 [M, N] normal"',
        outputs='y = "float32 [M]"',
        cases='[[cases]]\nname = "cpu"\naxes = { M = 256, N = 256 }',
    )
    return made.folder


def judge(
    engine: EngineUnderTest, folder: Path, target_folder: Path, words: list[str], out: Path
) -> subprocess.Popen[str]:
    """`aisp judge`, with its lines going into a file, and what it says beside them into one that ends in .err."""
    environment = {name: value for name, value in (os.environ | engine.environment).items() if value}
    given = [str(folder), "--against", str(target_folder), "--json", *words]
    with out.open("w") as lines, out.with_suffix(".err").open("w") as said:
        return start_aisp("judge", *given, env=environment, stdout=lines, stderr=said)


def ended(engine: EngineUnderTest) -> int:
    """Rows that have an outcome."""
    path = Path(engine.environment["AISP_STATE"]) / "candidates.db"
    if not path.exists():
        return 0
    with Candidates(path) as table:
        return table.counts()[CandidateState.DONE]


def prove(home: Path, count: int, *, kills: int, patience_s: float, full: bool, triton: bool) -> dict[str, Any]:
    """Judge so many candidates; what came of it."""
    engine = EngineUnderTest(home / "engine")
    made = write(home / "candidates", count, triton=triton)
    folder = target(home / "targets")
    device = "cuda" if triton else "cpu"
    words = ["--device", device, "--patience", str(patience_s), *([] if full else ["--quick"])]
    began_s = time.monotonic()
    loads, killed = [os.getloadavg()[0]], 0
    stops: list[str] = []  # the last line of each
    asyncio.run(engine.start())
    try:
        for number in itertools.count():
            out = home / f"lines{number}"
            driver = judge(engine, home / "candidates", folder, words, out)
            kill_at = count * (killed + 1) // (kills + 1) if killed < kills else count + 1
            while driver.poll() is None and ended(engine) < kill_at:
                time.sleep(LOOK_S)
            loads.append(os.getloadavg()[0])
            if driver.poll() is not None:
                if ended(engine) >= count or len(stops) == MOST_STOPS:
                    break
                # The engine started no process for a while, or had no GPU: the command says so and ends.
                said = out.with_suffix(".err").read_text().strip().splitlines() or [f"exit status {driver.returncode}"]
                stops.append(said[-1])
                print(f"stopped: {said[-1]}", file=sys.stderr)
                time.sleep(REST_S)
                continue
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            killed += 1
        took_s = time.monotonic() - began_s
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        with engine.history() as history:
            records = [run for name in history.targets() for run in history.history(name, limit=1000)]
    finally:
        engine.terminate()
    told = {line["candidate"]: line for line in lines if line["level"] == "quick" and line["outcome"] is not None}
    judged = Counter(arm.rung for run in records if run.quick for arm in run.arms if arm.rung.startswith("optimized_k"))
    groups = Counter(sum(arm.rung.startswith("optimized_k") for arm in run.arms) for run in records if run.quick)
    words_of = {name: word(line) for name, line in told.items()}
    surprising = {
        name: told[name]["outcome"]
        for name, kind in made.items()
        if name in told and words_of[name] not in EXPECTED[kind]
    }
    return {
        "candidates": count,
        "outcomes": len(told),
        "lost": sorted(set(made) - set(told))[:20],
        "lost_count": len(set(made) - set(told)),
        "driver_killed": killed,
        "driver_stopped_by_itself": len(stops),
        "why_it_stopped": stops,
        "known_to_the_last_driver": sum(line["known"] for line in told.values()),
        "in_more_than_one_run": sum(runs > 1 for runs in judged.values()),
        "otherwise_than_expected": surprising,
        "words": dict(Counter(f"{kind}: {words_of[name]}" for name, kind in made.items() if name in told)),
        "runs_by_candidates_in_them": dict(sorted(groups.items())),
        "patience_s": patience_s,
        "took_s": round(took_s, 1),
        "candidates_per_hour": round(count / took_s * 3600),
        "processors": os.cpu_count(),
        "load": [round(load, 1) for load in loads],
        "exit_status": driver.returncode,
    }


def word(line: Mapping[str, Any]) -> str:
    """How a candidate ended, as the table has it."""
    return Outcome.of_document(line["outcome"]).word


def main() -> int:
    """0 where every candidate has the outcome that it should, none lost."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs many",
        description="Judge many candidates, a part of them broken, with a driver that is killed on the way.",
    )
    parser.add_argument("--candidates", type=int, default=1000, metavar="N")
    parser.add_argument("--kills", type=int, default=2, metavar="N", help="how often the driver is killed")
    parser.add_argument("--patience", type=float, default=5.0, metavar="S", help="seconds without a sign of progress")
    parser.add_argument("--full", action="store_true", help="also give the finalists their full runs")
    parser.add_argument("--triton", action="store_true", help="a Triton kernel in each, on the GPUs that there are")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="many-") as home:
        found = prove(
            Path(home),
            asked.candidates,
            kills=asked.kills,
            patience_s=asked.patience,
            full=asked.full,
            triton=asked.triton,
        )
    print(json.dumps(found, indent=1))
    return int(bool(found["lost_count"] or found["otherwise_than_expected"]))


if __name__ == "__main__":
    sys.exit(main())
