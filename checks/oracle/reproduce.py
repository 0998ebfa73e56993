"""What a failure's script calls: pose one case to one rung in this very process and print the judgement.

Unlike the engine it keeps nothing apart, so it is for looking, not for believing.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from aisp.checks.oracle.calling import attempt, keys_before
from aisp.checks.oracle.examiner import Examiner
from aisp.checks.oracle.schema import Case
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target


def show(folder: str, rung: str, device: str, seed: int, case: Mapping[str, Any]) -> bool:
    """Print what is wrong, and where. True where the rung is right on this case.

    Args:
        folder: of the target.
        rung: file name without .py.
        device: "cuda" or "cpu".
        case: checks.oracle.schema.Case.plain(); what it leaves out is plain.
    """
    path = Path(folder)
    target = catalog.load_target(path, root=path.parent, chapter=path.parent.name)
    if not isinstance(target, Target):
        raise SystemExit("; ".join(str(problem) for problem in target))
    posed_case = Case.of(case)
    inputs = _module(path, "inputs") if any(spec.made or spec.posed for spec in target.inputs) else None
    make, pose = getattr(inputs, "make", None), getattr(inputs, "pose", None)
    examiner = Examiner(target, _module(path, "reference").run, make, device, pose=pose)
    posed = examiner.pose(posed_case, seed)
    made = examiner.made(posed_case, seed)
    module = _module(path, rung)
    run, prepare = (getattr(module, name, None) for name in ("run", "prepare"))
    others = keys_before(target, posed_case, seed)
    outputs = attempt(target, run, prepare, posed_case, others, posed.inputs, made, device)
    right = True
    for result in examiner.judge(posed_case, seed, rung, outputs):
        right &= result.right
        sys.stdout.write(f"{result.name}: {'right' if result.right else result.detail}\n")
        if not result.right:
            sys.stdout.write("\n".join(result.region) + "\n")
    return right


def _module(folder: Path, name: str) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder / name}.py cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
