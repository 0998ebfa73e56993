"""The profiler's kernel times of targets: `python -m tests.proofs.agreement.truth FOLDER...`, as JSON.

{target: {rung: ms per call}}, median over calls that baseline and rungs made in turn. Of rungs that all do the same,
the baseline stands for all.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tests.proofs.agreement import targets
from tests.proofs.agreement.common import ROOT, Document

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target

WALL_S = 0.6
LEAST_CALLS = 40
TRUTH_S = 90.0


def truths(found: Sequence[Target], environ: Mapping[str, str]) -> Document:
    """Per target and rung the profiler's kernel time in ms, by a process of its own; {"error": ...} where it failed."""
    words = [sys.executable, "-m", "tests.proofs.agreement.truth", *(str(target.folder) for target in found)]
    try:
        done = subprocess.run(
            words, cwd=ROOT, env=dict(environ), capture_output=True, text=True, timeout=TRUTH_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {TRUTH_S:.0f} s"}
    if done.returncode:
        return {"error": " / ".join(done.stderr.splitlines()[-3:])}
    told: Document = json.loads(done.stdout.splitlines()[-1])
    return told


def work_of(folder: Path) -> ModuleType:
    """The module work.py of a folder, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"work_of_{folder.name}", folder / "work.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder / 'work.py'} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """See the module."""
    from aisp.checks.oracle.schema import Case
    from aisp.checks.oracle.values import inputs_of
    from aisp.kernels import catalog
    from aisp.kernels.catalog.model import Target
    from tests.proofs.agreement.profiling import Profiler, typical_ms

    profiler = Profiler()
    told: dict[str, dict[str, float]] = {}
    for folder in map(Path, sys.argv[1:]):
        target = catalog.load_target(folder, root=folder.parent, chapter=targets.CHAPTER)
        if not isinstance(target, Target):
            raise ValueError("; ".join(str(problem) for problem in target))
        module = work_of(folder)
        inputs = [value.cuda() for value in inputs_of(target, Case.of_set(target.case("default"), 0), 1).values()]
        slower = {rung.name for rung in target.rungs} >= set(targets.SLOWER)
        factors = {"baseline": 1.0, **targets.SLOWER} if slower else {"baseline": None}
        calls = [functools.partial(module.work, *inputs, *([f] if f else [])) for f in factors.values()]
        for call in calls:
            call()
        profiler.profiled(calls, wall_s=0.0)  # the first session pays for the profiler's start
        seen = profiler.profiled(calls, wall_s=WALL_S, least=LEAST_CALLS)
        told[target.name] = {rung: typical_ms(of_rung) for rung, of_rung in zip(factors, seen, strict=True)}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
