"""The profiler's kernel times of slowed targets: `python -m tests.proofs.agreement.slowed_truth FOLDER...`, as JSON.

{target: {rung: ms per call}}, median over calls that baseline and rungs made in turn.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

from tests.proofs.agreement import targets
from tests.proofs.agreement.profiling import Profiler, typical_ms

WALL_S = 0.6
LEAST_CALLS = 40


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
    import torch

    from aisp.kernels import catalog
    from aisp.kernels.catalog.model import Target

    profiler = Profiler()
    told: dict[str, dict[str, float]] = {}
    for folder in map(Path, sys.argv[1:]):
        target = catalog.load_target(folder, root=folder.parent, chapter=targets.CHAPTER)
        if not isinstance(target, Target):
            raise ValueError("; ".join(str(problem) for problem in target))
        module = work_of(folder)
        x = torch.randn(target.case("default").axes["N"], device="cuda")
        factors = {"baseline": 1.0, **targets.SLOWER}
        calls = [functools.partial(module.work, x, factor) for factor in factors.values()]
        for call in calls:
            call()
        profiler.profiled(calls, wall_s=0.0)  # the first session pays for the profiler's start
        seen = profiler.profiled(calls, wall_s=WALL_S, least=LEAST_CALLS)
        told[target.name] = {rung: typical_ms(of_rung) for rung, of_rung in zip(factors, seen, strict=True)}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
