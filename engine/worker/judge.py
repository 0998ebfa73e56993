"""The verifier's role: makes the inputs from the seed, computes the fp64 reference, judges what workers produced.

Expected values exist in this process alone; it forbids other processes of the same user to read its memory.
"""

from __future__ import annotations

import copy
import ctypes
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks import inputs as checks_inputs
from checks.compare import Comparison, Finding, compare, form
from engine.protocol import jobs, reports
from engine.worker import tensors
from engine.worker.loading import LessonError, callable_of, import_module
from kernels import catalog
from kernels.catalog.model import Flag, Target

if TYPE_CHECKING:
    import torch

PR_SET_DUMPABLE = 4


class Judge:
    """Serves the jobs of one run's verifier. See engine.protocol.jobs for each."""

    def __init__(self, job: jobs.Load, target: Target) -> None:
        import torch

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._torch = torch
        self._target = target
        self._device = job.device
        self._folder = Path(os.fsdecode(job.folder))
        self._reference: Any = callable_of(import_module(self._folder, "reference"), "run")
        self._inputs: dict[tuple[str, int], dict[str, torch.Tensor]] = {}
        self._made: dict[str, dict[str, object]] = {}
        self._expected: dict[tuple[str, int], tuple[torch.Tensor, ...]] = {}

    def make_inputs(self, job: jobs.MakeInputs) -> reports.InputsMade:
        """Make a set and put it where workers can read it. Static inputs are written with set 0 only."""
        case = self._target.case(job.case)
        made = checks_inputs.grammar_inputs(self._target, case, job.seed, job.set_index)
        self._inputs[job.case, job.set_index] = made
        if case.name not in self._made and any(spec.made for spec in self._target.inputs):
            make: Any = callable_of(import_module(self._folder, "inputs"), "make")
            given = checks_inputs.made_inputs(self._target, case, job.seed, self._device, make)
            self._made[case.name] = {name: self._exact(value) for name, value in given.items()}
        static = {spec.name for spec in self._target.inputs if Flag.STATIC in spec.flags}
        written = {name: t for name, t in made.items() if job.set_index == 0 or name not in static}
        return reports.InputsMade(blob=tensors.write(job.blob.path, written))

    def _exact(self, value: object) -> object:
        """A deep copy in fp64: tensors, modules, and containers of them; everything else as it is."""
        torch = self._torch
        if isinstance(value, torch.Tensor):
            kept = value.detach().clone()
            return kept.to(torch.float64) if kept.is_floating_point() else kept
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).double()
        if isinstance(value, dict):
            return {key: self._exact(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._exact(item) for item in value)
        return copy.deepcopy(value)

    def expect(self, job: jobs.Expect) -> reports.Expected:
        """Compute the reference for a set, in fp64 on this run's device."""
        torch, target = self._torch, self._target
        case = target.case(job.case)
        arrived = self._inputs.pop((job.case, job.set_index))
        arguments: list[object] = []
        for spec in target.inputs:
            if spec.made:
                arguments.append(copy.deepcopy(self._made[case.name][spec.name]))
                continue
            tensor = arrived[spec.name].to(self._device)
            # An fp64 copy, so that a reference that writes into its inputs spoils nothing.
            arguments.append(tensor.to(torch.float64) if tensor.is_floating_point() else tensor.clone())
        with torch.no_grad():
            returned = self._reference(*arguments)
        outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        if len(outputs) != len(target.outputs):
            raise LessonError(f"reference.py returned {len(outputs)} outputs, lesson.md declares {len(target.outputs)}")
        held = 0
        for spec, output in zip(target.outputs, outputs, strict=True):
            wanted = catalog.shape(spec, case.axes)
            if not isinstance(output, torch.Tensor) or tuple(output.shape) != tuple(wanted):
                found = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
                raise LessonError(f"reference.py: {spec.name} is {found}, lesson.md declares {list(wanted)}")
            held += output.numel() * output.element_size()
        self._expected[job.case, job.set_index] = tuple(output.to(self._device) for output in outputs)
        return reports.Expected(nbytes=held)

    def compare(self, job: jobs.Compare) -> reports.Compared:
        """Judge one call's outputs. The first output that is not right decides the finding."""
        target = self._target
        case = target.case(job.case)
        expected = self._expected[job.case, job.set_index]
        given = tensors.read(job.outputs)
        if len(given) != len(target.outputs):
            return reports.Compared(
                right=False,
                finding=Finding.COUNT,
                max_error=None,
                detail=f"{len(given)} outputs arrived, lesson.md declares {len(target.outputs)}",
            )
        worst: float | None = None
        bad: Comparison | None = None
        for spec, slot, actual, want in zip(target.outputs, job.outputs.slots, given, expected, strict=True):
            shape = catalog.shape(spec, case.axes)
            judged = form(spec.name, tuple(slot.shape), slot.dtype, tuple(shape), spec.dtype)
            if judged.right:
                tolerance = target.tolerance[spec.dtype]
                # A copy of its own: the worker could still write into the shared file.
                private = actual.to(self._device) if self._device != "cpu" else actual.clone()
                judged = compare(spec.name, private, want, tolerance=tolerance)
            if judged.max_error is not None:
                worst = max(worst or 0.0, judged.max_error)
            if not judged.right and bad is None:
                bad = judged
        return reports.Compared(
            right=bad is None,
            finding=bad.finding if bad else Finding.NOTHING,
            max_error=worst if worst is not None and math.isfinite(worst) else None,
            detail=bad.detail if bad else "",
        )
