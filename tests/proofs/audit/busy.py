"""How often a quick CPU run calls identical code faster or slower, on the machine as it is and with burners beside it.

`python -m tests.proofs busy [--runs 20] [--burners 2] [--speedup 1.15]` makes two lessons whose rung is the
baseline's very code, a softmax and a product. A third one's baseline does the same work more often than its rung. It
runs each quickly, again and again, first alone and then beside as many processes that never rest. It prints the
verdicts of valid runs, the ratios, the floors and how long threads stood in line, and ends with status 1 where
identical code was FASTER or SLOWER more often than in one run of twenty.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aisp.store.outcomes import FindingStatus, Validity, Verdict
from aisp.store.record import Run
from tests.engine.targets import write_target
from tests.proofs.audit.gallery import USUAL_REPLICAS, engine

LEVEL = 0.05
STEPS = 100  # of the work that a rung does in one call of the third lesson
SOURCES = {
    "rows": "import torch\n\ndef run(x):\n    return torch.softmax(x, 1)\n",
    "products": "import torch\n\ndef run(x):\n    return (x @ x.T)[:, :1] + x\n",
    "faster": (
        "import torch\n\ndef run(x):\n    for _ in range({steps}):\n        y = torch.sin(x[0])\n    return y + x\n"
    ),
}


@dataclass
class Seen:
    """What became of the runs of one lesson under one load."""

    verdicts: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, record: Run) -> None:
        """Count one run; a verdict counts where the run is valid."""
        found = next((c for c in record.comparisons if c.rung == "optimized"), None)
        if found is None or found.speedup is None or record.validity is not Validity.VALID:
            doubts = [f.check for f in record.findings if f.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)]
            why = ", ".join(doubts) or record.reason
            self.verdicts[f"{record.state.value} {record.validity.value} ({why})"] += 1
            return
        self.verdicts[found.verdict.value] += 1
        self.ratios.append(found.speedup)
        self.floors.append(found.floor or 0.0)
        self.notes.append(found.note)

    @property
    def claims(self) -> int:
        """How often one side was said to be better."""
        return self.verdicts[Verdict.FASTER.value] + self.verdicts[Verdict.SLOWER.value]

    def line(self) -> str:
        """For people."""
        said = ", ".join(f"{name} {count}" for name, count in self.verdicts.most_common())
        if not self.ratios:
            return said
        floors = sorted(self.floors)
        note = next((note for note in reversed(self.notes) if "busy" in note), "")
        return (
            f"{said}; ratios {min(self.ratios):.3f} to {max(self.ratios):.3f}, "
            f"floors {floors[0]:.1%}, {floors[len(floors) // 2]:.1%}, {floors[-1]:.1%}" + (f"; {note}" if note else "")
        )


@contextlib.contextmanager
def burners(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


async def _main(arguments: argparse.Namespace) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="aisp-busy-") as folder:
        root = Path(folder) / "busy"
        form = {
            "axes": "{ M = 256, N = 512 }",
            "inputs": 'x = "float32 [M, N] normal"',
            "outputs": 'y = "float32 [M, N]"',
            "cases": '[[cases]]\nname = "cpu"\naxes = { M = 256, N = 512 }\n',
        }
        for name, source in SOURCES.items():
            rung = source.format(steps=STEPS)
            base = source.format(steps=round(STEPS * arguments.speedup))
            files = {"reference.py": rung, "baseline.py": base, "optimized.py": rung}
            write_target(root, files, name=name, **form)
        for load in (0, arguments.burners):
            for name in SOURCES:
                seen, start = Seen(), time.monotonic()
                async with engine() as under_test:
                    with burners(load):
                        for _ in range(arguments.runs):
                            result = await under_test.run(root, f"busy:{name}", device="cpu", replicas=USUAL_REPLICAS)
                            seen.take(result.record)
                each_s = (time.monotonic() - start) / arguments.runs
                print(
                    f"{name:10} {load} burners, {arguments.runs} runs, {each_s:.1f} s each: {seen.line()}", flush=True
                )
                if name != "faster" and seen.claims > max(1, math.floor(LEVEL * arguments.runs)):
                    wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs busy", description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--speedup", type=float, default=1.15)
    sys.exit(asyncio.run(_main(parser.parse_args())))
