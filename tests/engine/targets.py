"""Small targets on disk, for tests that need one without an engine."""

from __future__ import annotations

from pathlib import Path

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target

LESSON = """\
+++
title = "Twice a matrix"
techniques = ["none"]
goal = "{goal}"
needs = {needs}
axes = {axes}
flops = "{flops}"
{more}
[inputs]
{inputs}
[outputs]
{outputs}
{cases}
+++

# Twice a matrix
"""


def write_target(
    root: Path,
    files: dict[str, str],
    *,
    name: str = "one",
    goal: str = "speed",
    needs: str = "{ }",
    axes: str = "{ N = 16 }",
    flops: str = "0",
    more: str = "",
    inputs: str = 'x = "float32 [N] normal"',
    outputs: str = 'y = "float32 [N]"',
    cases: str = "",
) -> Target:
    """Write `root`/`name` and load it as the catalogue does. A reference and a baseline are made if not given."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    lesson = LESSON.format(
        goal=goal, needs=needs, axes=axes, flops=flops, more=more, inputs=inputs, outputs=outputs, cases=cases
    )
    given = {"reference.py": "def run(x):\n    return x * 2\n", "baseline.py": "def run(x):\n    return x * 2\n"}
    for file, text in {**given, "optimized.py": given["baseline.py"], **files, "lesson.md": lesson}.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    target = catalog.load_target(folder, root=root, chapter=root.name)
    assert isinstance(target, Target), "; ".join(str(problem) for problem in target)
    return target
