"""What bending one's own clock gains: rungs that do the baseline's work and whose process takes time as shorter by a
known part, with every check taken out but the judge's clock (docs/threat_model.md).

    python -m tests.proofs bent [--device cpu|cuda] [--runs N] [--quick]

Prints for each part how often the rung ended in which way, its own ratio and the judge's. Ends with status 1 where one
was FASTER in a valid run. The rungs of all parts, one that bends nothing among them, share each run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from aisp.checks import registry
from aisp.store.outcomes import FindingStatus, State, Validity, Verdict
from aisp.store.record import Run
from aisp.store.results.outside import outside_of
from tests.engine.targets import write_target
from tests.proofs.audit.gallery import PATIENCE_S, engine

PARTS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.2, 0.5)
CHECK = "timing.wall_clock"
RUNG = """import sys

import torch

timers = sys.modules["aisp.engine.worker.timers"]
if timers._saved is not None:
    handles = timers._saved.torch
    elapsed_ms = handles.elapsed_ms
    handles.elapsed_ms = lambda start, end: elapsed_ms(start, end) * {left}
else:
    clock_ns = timers._perf_counter_ns
    timers._perf_counter_ns = lambda: int(clock_ns() * {left})


def run(x):
    return torch.mm(x, x)
"""
PLAIN = "import torch\n\n\ndef run(x):\n    return torch.mm(x, x)\n"
CASES = '[[cases]]\nname = "cpu"\naxes = { N = 384 }\n'


def name_of(part: float) -> str:
    """The rung that bends its clock by a part: 0.005 is `optimized_bent_0_5`."""
    return f"optimized_bent_{part:.1%}".removesuffix("%").replace(".", "_")


def outcome(record: Run, rung: str) -> str:
    """The verdict; what took it away, where something did."""
    arm = next(arm for arm in record.arms if arm.rung == rung)
    if arm.state is not State.OK:
        return arm.state.value
    told = [f for f in record.findings if f.arm == rung and f.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)]
    if told:
        return f"{told[0].status.value} by {told[0].check}"
    return next((c.verdict.value for c in record.comparisons if c.rung == rung), "none")


async def _main(arguments: argparse.Namespace) -> int:
    rows: dict[float, list[tuple[str, float, float | None]]] = {part: [] for part in PARTS}
    ends: dict[float, str] = {}
    faster = 0
    without = [check.id for check in registry.checks() if check.id != CHECK and not check.refuses]
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{name_of(part)}.py": RUNG.format(left=1 - part) for part in PARTS} | {"baseline.py": PLAIN}
        files |= {"reference.py": PLAIN, "optimized.py": PLAIN}
        target = write_target(
            Path(folder) / "mine", files, axes="{ N = 1024 }", flops="2 * N * N * N",
            inputs='x = "float32 [N, N] normal"', outputs='y = "float32 [N, N]"', cases=CASES,
        )  # fmt: skip
        async with engine() as under_test:
            for _ in range(arguments.runs):
                result = await under_test.run(
                    target.root, target.id, patience_s=PATIENCE_S, device=arguments.device, without=without,
                    rungs=[name_of(part) for part in PARTS],
                    quick=arguments.quick,
                )  # fmt: skip
                record = result.record
                arms = {arm.rung: arm for arm in record.arms}
                for part in PARTS:
                    name = name_of(part)
                    compared = next((c for c in record.comparisons if c.rung == name), None)
                    if compared is None or compared.speedup is None:
                        ends[part] = arms[name].reason or record.reason or outcome(record, name)
                        continue
                    judge = outside_of(arms[name], arms[compared.baseline])
                    told = outcome(record, name)
                    rows[part].append((told, compared.speedup, None if judge is None else judge.ratio))
                    faster += told == Verdict.FASTER.value and record.validity is not Validity.SUSPECT
    print("bent by | ended as | its own ratio | the judge's")
    for part, seen in rows.items():
        if not seen:
            print(f"{part:.1%} | no comparison: {ends[part]}")
            continue
        tally = ", ".join(f"{told} {count}" for told, count in Counter(told for told, _, _ in seen).most_common())
        judged = [ratio for _, _, ratio in seen if ratio is not None]
        own = statistics.median(ratio for _, ratio, _ in seen)
        print(f"{part:.1%} | {tally} | {own:.3f} | {f'{statistics.median(judged):.3f}' if judged else '-'}")
    return int(faster > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs bent")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    sys.exit(asyncio.run(_main(parser.parse_args())))
