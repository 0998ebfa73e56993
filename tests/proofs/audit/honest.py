"""Every shipped lesson again and again: no honest rung may ever be caught or suspected.

`python -m tests.proofs honest --runs 20 [--device auto|cuda|cpu] [--target ID ...] [--full] [--json FILE]` prints
what each rung took by its own clock and by the judge's, what was held against a lesson, and how often; it ends with
status 1 where there was anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path

from aisp.kernels import catalog
from aisp.store.outcomes import FindingStatus
from tests import recordings
from tests.proofs.audit.gallery import USUAL_REPLICAS, clocks, engine, line

BAD = (FindingStatus.CAUGHT, FindingStatus.SUSPECT)


async def _main(arguments: argparse.Namespace) -> int:
    root = arguments.root or catalog.shipped_root()
    targets = [t for t in catalog.load([root]).targets if not arguments.target or t.id in arguments.target]
    told: list[dict[str, object]] = []
    statuses: Counter[str] = Counter()
    async with engine() as under_test:
        for target in targets:
            start = time.monotonic()
            against: Counter[str] = Counter()
            states: Counter[str] = Counter()
            evidence: dict[str, str] = {}
            spent_ms: Counter[str] = Counter()
            rungs: list[dict[str, object]] = []
            for _ in range(arguments.runs):
                options = {"device": arguments.device, "quick": not arguments.full, "replicas": USUAL_REPLICAS}
                result = await under_test.run(target.root, target.id, **options)
                record = result.record
                rungs += clocks(record)
                states[f"{record.state.value} {record.validity.value}"] += 1
                statuses.update(finding.status.value for finding in record.findings)
                for step in record.steps:
                    spent_ms[step.name] += step.duration_ms / arguments.runs
                for finding in record.findings:
                    if finding.status in BAD:
                        key = f"{finding.check} {finding.arm} {finding.status.value}"
                        against[key] += 1
                        evidence.setdefault(key, finding.evidence)
                for arm in record.arms:
                    if arm.state.value not in ("ok", "unavailable"):
                        against[f"{arm.rung} ended {arm.state.value}"] += 1
                        evidence.setdefault(f"{arm.rung} ended {arm.state.value}", arm.reason)
            each_s = (time.monotonic() - start) / max(arguments.runs, 1)
            print(f"{target.id:28} {arguments.runs} runs, {each_s:.1f} s each: {dict(states)}", flush=True)
            for row in rungs:
                print(line(row), flush=True)
            print("    ms a run: " + ", ".join(f"{name} {ms:.0f}" for name, ms in spent_ms.items()), flush=True)
            for key, count in against.most_common():
                print(f"    {count:3} x {key}: {evidence[key]}", flush=True)
            told.append(
                {"target": target.id, "runs": arguments.runs, "states": states, "against": against, "rungs": rungs}
            )
            if arguments.json is not None:  # after each, so that a call that is cut off leaves what it saw
                recordings.write(arguments.json, {"targets": told, "findings": statuses})
    print(f"findings: {dict(statuses)}")
    return int(any(entry["against"] for entry in told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs honest")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--root", type=Path, default=None)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(asyncio.run(_main(parser.parse_args())))
