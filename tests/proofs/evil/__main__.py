"""`python -m tests.proofs evil matrix|protections`: plays the fault matrix, and tells what was seen.

matrix        play every scene that this machine can; docs/reliability/matrix_cpu.json, or matrix_gpu.json
protections   take protections out of a copy of the sources, and record which scenes notice; protections.json

--only ROW ...   scenes of these rows, shown and not recorded
--again ROW ...  scenes of these rows; what is recorded of them is replaced, and they are listed as played again
--gpu            scenes that need a GPU, and those alone
--rows FILE      put what came of each scene there too
--out FOLDER     where the records are, docs/reliability
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aisp.engine.telemetry import Nvml
from tests.engine.harness import EngineUnderTest, sharing
from tests.proofs.evil import matrix, protections, report
from tests.proofs.evil.matrix import Fault
from tests.proofs.evil.stage import Stage, play


async def play_all(faults: Sequence[Fault], home: Path, **settings: str) -> list[dict[str, Any]]:
    """What came of each fault; one that went wrong is told with its words and the rest goes on.

    Args:
        settings: variables of the engine that scenes share.
    """
    shared = EngineUnderTest(home / "shared", **settings)
    rows = []
    for fault in faults:
        stage = Stage(home / fault.id / "scene", shared, _maker(home / fault.id))
        stage.home.mkdir(parents=True)
        row: dict[str, Any] = {"row": fault.row, "name": fault.name, "what": fault.what, "expected": fault.expected}
        if fault.stubbed:
            row["stubbed"] = fault.stubbed
        started = time.monotonic()
        try:
            if fault.own:
                outcome = await play(fault, stage)
            else:
                async with sharing(shared):
                    outcome = await play(fault, stage)
            row |= {"passed": True} | asdict(outcome)
        except Exception as error:
            row |= {
                "passed": False,
                "seen": f"{type(error).__name__}: {str(error) or _line(error)}"[:400],
                "took_s": time.monotonic() - started,
            }
            traceback.print_exc()
            _give_up(stage)
        row["seen"] = row["seen"].replace(str(home), "<tmp>")
        rows.append(row)
        print(f"{'ok ' if row['passed'] else 'BAD'} {fault.id} ({row['took_s']:.1f} s): {row['seen']}", flush=True)
        shutil.rmtree(home / fault.id, ignore_errors=True)
    try:
        shared.close()
    except AssertionError as error:  # what a scene that broke left behind; else a scene broke that did not notice
        print(f"BAD the shared engine: {error}", flush=True)
        if all(row["passed"] for row in rows):
            raise
    return rows


def _line(error: Exception) -> str:
    """The line that raised it, for an assertion without words."""
    return traceback.extract_tb(error.__traceback__)[-1].line or ""


def _maker(home: Path) -> Any:
    made: list[int] = []

    def make(**settings: str) -> EngineUnderTest:
        made.append(0)
        return EngineUnderTest(home / f"e{len(made)}", **settings)

    return make


def _give_up(stage: Stage) -> None:
    """Engines of a scene that failed are ended, whatever they left."""
    for engine in stage.made:
        if engine.process is not None and engine.process.poll() is None:
            engine.kill()
        for process in engine.strays():
            process.kill()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs evil", description="The fault matrix.")
    parser.add_argument("what", choices=("matrix", "protections"))
    parser.add_argument("--only", type=int, nargs="+", default=[], metavar="ROW")
    parser.add_argument("--again", type=int, nargs="+", default=[], metavar="ROW")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, default=report.DATA, metavar="FOLDER")
    given = parser.parse_args()
    if given.what == "protections":
        with tempfile.TemporaryDirectory(prefix="evil_") as home:
            told = protections.take_out(Path(home))
        report.write(given.out, "protections", {"protections": told})
        return 0 if all(item["noticed"] for item in told) else 1
    nvml = Nvml()
    if given.gpu and not nvml.count:
        parser.error(f"--gpu needs a GPU: {nvml.note}")
    few = {*given.only, *given.again}
    chosen = [f for f in matrix.load() if f.gpu == given.gpu and (not few or f.row in few)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="evil_") as home:
        # Where some kernels never end the others on the GPU have to share what is left of its time.
        rows = asyncio.run(play_all(chosen, Path(home), **({"AISP_PROGRESS_LIMIT_S": "15"} if given.gpu else {})))
    if given.rows is not None:
        given.rows.write_text(json.dumps(rows), "utf-8")
    name = f"matrix_{'gpu' if given.gpu else 'cpu'}"
    if given.again:
        data = report.load(given.out)[name]
        anew = {row["name"]: row for row in rows}
        known = {row["name"]: row for row in data["rows"]}
        data["rows"] = sorted((known | anew).values(), key=lambda row: (row["row"], row["name"]))
        data["again"] = sorted({*data.get("again", []), *(anew.keys() & known.keys())})
        report.write(given.out, name, data)
    elif not given.only:
        device = nvml.devices()[0].name if given.gpu else "CPU"
        data = {"device": device, "took_s": round(time.monotonic() - started, 1), "rows": rows}
        report.write(given.out, name, data)
    return 0 if all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
