"""What a solution can be sent in for (`Definition`), and targets as clients of flashinfer-bench know them: a definition
for each, a workload for each case.

The uuid of a target's workload follows from its id and the case's name, so that it is the same in every life of the
server.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from aisp.engine.doors import api
from aisp.engine.doors.serve import solutions
from aisp.engine.doors.serve.bodies import Solution
from aisp.kernels.catalog.model import Case, Target, TensorSpec
from aisp.kernels.catalog.sources import read_sources
from aisp.store import identity
from aisp.store.content import snapshot_hash

_NAMESPACE = uuid.UUID("6f1f3c0e-6f6a-5c3e-9a55-2d6c1f0a7b11")  # of this project alone


class Definition(Protocol):
    """What is computed, and in which workloads. All methods may read files; those that raise, raise RefusalError."""

    @property
    def name(self) -> str:
        """By which it is known, in every life of the server."""

    @property
    def rung(self) -> str:
        """What a solution is called in the target in which it is judged."""

    def summary(self) -> dict[str, Any]:
        """A line of `GET /definitions`."""

    def document(self) -> Any:
        """The whole of it, for JSON."""

    def workloads(self, device: str = "") -> list[dict[str, Any]]:
        """Those that are evaluated on "cuda" or "cpu" where a client names none; every one without a device.

        `uuid` and `case` are in each: the name of the target's case.
        """

    def sources(self) -> str:
        """A hash of all that a judgement depends on beside the solution."""

    def files_of(self, solution: Solution) -> dict[str, bytes]:
        """What is kept of a solution, which one that cannot be judged is not."""

    def misspelt(self, files: Mapping[str, bytes]) -> str:
        """Why Python cannot compile a source of the solution that was kept, with its line; "" where it can."""

    def made(self, files: Mapping[str, bytes]) -> Target:
        """The target in which the solution that was kept is judged, where the engine finds it. Raises api.RefusedError
        as well."""


@dataclass(frozen=True, slots=True)
class OfTarget:
    """A target of the catalogue; a solution stands beside its rungs."""

    target: Target

    @property
    def name(self) -> str:
        """The target's id."""
        return self.target.id

    @property
    def rung(self) -> str:
        return api.CANDIDATE

    def summary(self) -> dict[str, Any]:
        return {"name": self.target.id, "description": self.target.title}

    def document(self) -> Any:
        target = self.target
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

    def workloads(self, device: str = "") -> list[dict[str, Any]]:
        return [
            {
                "uuid": uuid_of(self.target, case),
                "axes": dict(case.axes),
                "inputs": {spec.name: {"type": "random"} for spec in self.target.inputs},
                "case": case.name,
            }
            for case in (timed_cases(self.target, device) if device else self.target.cases)
        ]

    def sources(self) -> str:
        return snapshot_hash(read_sources(self.target))

    def files_of(self, solution: Solution) -> dict[str, bytes]:
        return solutions.files_of(solution, self.target)

    def misspelt(self, files: Mapping[str, bytes]) -> str:
        return solutions.misspelt(files)

    def made(self, files: Mapping[str, bytes]) -> Target:
        return api.beside(self.target, files)


def uuid_of(target: Target, case: Case) -> str:
    """The workload's uuid."""
    return derived(target.id, case.name)


def derived(definition: str, workload: str) -> str:
    """A uuid that follows from two names."""
    told = f"{definition}\n{workload}".encode("utf-8", "backslashreplace").decode()
    return str(uuid.uuid5(_NAMESPACE, told))


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


def digest(targets: Sequence[Target], others: Sequence[str] = ()) -> str:
    """Tells one set of definitions and workloads from another; `others` are digests of those that are no targets."""
    told: list[Any] = [
        [target.id, target.title, [[case.name, dict(case.axes)] for case in target.cases]]
        + [[spec.name, spec.dtype, list(spec.dims)] for spec in (*target.inputs, *target.outputs)]
        for target in targets
    ]
    told += others
    return identity.digest(msgspec.json.encode(told))


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    told = " ".join([spec.distribution, *sorted(flag.value for flag in spec.flags)]).strip()
    return {"shape": list(spec.dims) if spec.shaped else None, "dtype": spec.dtype, "description": told or None}
