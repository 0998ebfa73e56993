"""Which rungs an edit touches: only these are run again. Reads files, runs nothing."""

from __future__ import annotations

import re
from pathlib import Path

from aisp.kernels.catalog.model import Target
from aisp.kernels.catalog.sources import read_bytes


def affected(target: Target, changed: set[str]) -> tuple[str, ...]:
    """Rungs to run again after these files changed; empty for all honest ones.

    A rung's own file affects that rung and the honest ones that import it; CUDA sources affect the CUDA rungs;
    everything else (the reference, shared modules, lesson.md) affects all.
    """
    names: set[str] = set()
    by_file = {f"{rung.name}.py": rung.name for rung in target.rungs}
    for file in changed:
        if file in by_file:
            names.add(by_file[file])
        elif file.endswith((".cu", ".cuh", ".h")):
            names |= {rung.name for rung in target.honest_rungs if rung.kind == "cuda"}
        else:
            return ()
    honest = {rung.name for rung in target.honest_rungs}
    grown = True
    while grown:
        importers = {file for file in target.files if file.endswith(".py") and _imports(target.folder / file, names)}
        if not importers <= by_file.keys():
            return ()
        dependents = {by_file[file] for file in importers} & honest
        grown = not dependents <= names
        names |= dependents
    if target.rungs[0].name in names:
        return ()
    return tuple(rung.name for rung in target.rungs if rung.name in names)


def _imports(path: Path, modules: set[str]) -> bool:
    """Whether a Python file has an import line for one of these modules. One that cannot be read has none."""
    try:
        text = read_bytes(str(path)).decode("utf-8", "replace")
    except OSError:
        return False
    return any(module in modules for module in re.findall(r"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE))
