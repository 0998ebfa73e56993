"""Laying out the target of a problem and an answer as the command does, and using its modules as a run does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aisp.kernels import catalog
from aisp.kernels.catalog.formats.shared import Dialect
from aisp.kernels.catalog.model import Target
from tests.imported import python


def laid_out(folder: Path, dialect: Dialect, candidate: Path, problem: Path) -> Path:
    """The target of the two."""
    parts = dialect.against(candidate, problem)
    assert not parts.problems, "\n".join(map(str, parts.problems))
    place = folder / "laid" / "of_ours" / "answer"
    place.mkdir(parents=True)
    for name, data in parts.files.items():
        (place / name).write_bytes(data)
    return place


def loaded(place: Path) -> Target:
    """The target as it is read."""
    found = catalog.load([place])
    assert not found.problems, "\n".join(map(str, found.problems))
    return found.targets[0]


def told(dialect: Dialect, candidate: Path, problem: Path) -> str:
    """What is said of a pair that cannot be taken."""
    parts = dialect.against(candidate, problem)
    assert not parts.files
    return "\n".join(f"{each.path.name}: {each.key}: {each.message}; {each.fix}" for each in parts.problems)


USED = """\
import importlib, json, sys
import torch
sys.path.insert(0, sys.argv[1])
axes, names = json.loads(sys.argv[2]), json.loads(sys.argv[3])
import inputs, reference, baseline, optimized, rule

def made(axes):
    torch.manual_seed(3)
    found = dict(inputs.pose(axes, "cpu", torch.Generator().manual_seed(3)))
    torch.manual_seed(3)
    return found | (inputs.make(axes, "cpu", None) if hasattr(inputs, "make") else {})

def called(module, given):
    call = getattr(module, "run", None) or module.prepare(*given)
    found = call(*given)
    return found if isinstance(found, (tuple, list)) else [found]

def shown(tensor):
    few = tensor.tolist() if tensor.numel() < 9 else None
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), few]

result = []
for one in axes:
    by_name = made(one)
    by_name |= {name: torch.tensor([5]) for name in names if name not in by_name}  # the seed
    given = [by_name[name] for name in names]
    wide = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in given]
    for value in wide:
        if isinstance(value, dict):
            state = value["state"].items()
            value["state"] = {k: v.double() if v.is_floating_point() else v for k, v in state}
    truth, base, other = called(reference, wide), called(baseline, given), called(optimized, given)
    result.append({
        "inputs": {name: shown(v) for name, v in by_name.items() if isinstance(v, torch.Tensor)},
        "truth": [shown(v) for v in truth],
        "baseline": rule.judge(by_name, base, truth),
        "optimized": rule.judge(by_name, other, truth),
        "dtypes": [str(v.dtype).removeprefix("torch.") for v in base],
    })
print("\\n" + json.dumps(result))
"""


def used(place: Path, *axes: dict[str, int]) -> list[dict[str, Any]]:
    """For each case: the inputs and the truth as [dtype, shape, values of a few], and what the problem's own rule says
    of the baseline and of the answer."""
    names = [spec.name for spec in loaded(place).inputs]
    done = python(USED, str(place), json.dumps(axes), json.dumps(names))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found
