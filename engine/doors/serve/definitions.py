"""Targets as clients of flashinfer-bench know them: a definition for each, a workload for each case.

A workload's uuid follows from the target's id and the case's name, so that it is the same in every life of the server.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from aisp.kernels.catalog.model import Case, Target, TensorSpec
from aisp.kernels.catalog.sources import read_sources

_NAMESPACE = uuid.UUID("6f1f3c0e-6f6a-5c3e-9a55-2d6c1f0a7b11")  # of this project alone


def uuid_of(target: Target, case: Case) -> str:
    """The workload's uuid."""
    return str(uuid.uuid5(_NAMESPACE, f"{target.id}\n{case.name}"))


def case_of(target: Target, workload: str) -> Case | None:
    """The case that a workload's uuid means; None where it is of another target."""
    return next((case for case in target.cases if uuid_of(target, case) == workload), None)


def timed_cases(target: Target, device: str) -> list[Case]:
    """The cases that a machine times, the usual one first.

    Args:
        device: "cuda" where there is a GPU, else "cpu".
    """
    usual = target.usual_case(device)
    if device == "cpu" and not target.on_host:
        return [usual] if usual.name == "cpu" else []
    return [usual, *(case for case in target.cases if case.timed and case.name not in (usual.name, "cpu"))]


def summary(target: Target) -> dict[str, Any]:
    """A line of `GET /definitions`."""
    return {"name": target.id, "description": target.title}


def definition(target: Target) -> dict[str, Any]:
    """A whole definition, with the text of its reference."""
    reference = read_sources(target).get("reference.py", b"")
    axes = sorted({axis for case in target.cases for axis in case.axes})
    fixed = {axis: {case.axes.get(axis) for case in target.cases} for axis in axes}
    return {
        "name": target.id,
        "op_type": target.name,
        "tags": [f"goal:{target.goal.value}", *(f"technique:{name}" for name in target.techniques)],
        "description": target.title,
        "axes": {
            axis: {"type": "const", "value": values.copy().pop()} if len(values) == 1 else {"type": "var"}
            for axis, values in fixed.items()
        },
        "inputs": {spec.name: _tensor(spec) for spec in target.inputs},
        "outputs": {spec.name: _tensor(spec) for spec in target.outputs},
        "reference": reference.decode("utf-8", "replace"),
        "constraints": [],
    }


def workload(target: Target, case: Case) -> dict[str, Any]:
    """One workload. Its values are drawn anew for every run; `case` is its name among the target's."""
    return {
        "uuid": uuid_of(target, case),
        "axes": dict(case.axes),
        "inputs": {spec.name: {"type": "random"} for spec in target.inputs},
        "case": case.name,
    }


def digest(targets: Sequence[Target]) -> str:
    """Tells one set of definitions and workloads from another."""
    told = [
        [target.id, target.title, [[case.name, dict(case.axes)] for case in target.cases]]
        + [[spec.name, spec.dtype, list(spec.dims)] for spec in (*target.inputs, *target.outputs)]
        for target in targets
    ]
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    told = " ".join([spec.distribution, *sorted(flag.value for flag in spec.flags)]).strip()
    return {"shape": list(spec.dims) if spec.shaped else None, "dtype": spec.dtype, "description": told or None}
