"""The truth of a case, and how far from it a good implementation may be.

The reference runs in fp64. The error allowed for an element i of an output in a dtype of unit roundoff u (half the
distance from 1 to the next number; 2**-24 for fp32, 2**-11 for fp16, 2**-8 for bf16) follows from the computation:

    allowed_i = 1.5 u |t_i|  +  (u/2 + 16 u32 + 8 e32 + 3 e_dtype) s_i  +  (u/4 + 16 u32) r  +  f_i  +  least

    t_i      the truth
    s_i      max(|t_i|, kappa_i): kappa_i is how far t_i moves when every input element moves by a relative step of
             random sign and size, per step: for a dot product the root of the sum of |a|^2 |b|^2, for a softmax its
             condition. Found by running the fp64 reference on moved inputs (first-order stochastic rounding: Parker's
             Monte Carlo arithmetic applied to the inputs alone). Steps of one size would cancel where the terms do, in
             three of eight draws of a b - c d, and every element would be allowed more for the few that seem to have
             no condition. None is near zero, or a single term would seem to have none
    e32      worst error of the reference run in fp32 beyond the output's own rounding, in units of s_i
    e_dtype  the same for the reference run in the case's dtype, that is, for eager PyTorch (capped: where eager is
             useless, it is no yardstick). For both, casts of the reference to fp64 do not widen (eager.py)
    r        the RMS of the whole truth: what cancels on the way (x - max, 1 + erf) is rounded at its own scale
    f_i      how far t_i moves when subnormal inputs are taken for zero, as fp32 hardware may
    least    two of the dtype's least steps, or 16 times the least normal fp32 number: sums of what is flushed to zero

so that an output of zeros never passes, a kernel that accumulates in fp16 where eager does not is found out, and one
that rounds where eager rounds is right. Where lesson.md states a tolerance for the output's dtype in this case, it is
allowed as well; a stated 0 means that the output must equal the truth, rounded, bit for bit. Values at a timed shape
have min(n u32, 2**-8) s_i allowed as well, for a sum of n terms one after the other.

Cost: seven runs of the reference, one more where inputs are subnormal. One that needs more memory than is free is
computed in blocks along the independent axis where the target has one, else on the CPU, and says so. (The examiner
judges such a case stretch by stretch, since its outputs alone, in fp64 and with their errors, are too large as well.)
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle.comparator import Expected, as_far_off, rms
from aisp.checks.oracle.eager import unwidened
from aisp.checks.oracle.schema import Case, retyped
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target, TensorSpec
from aisp.kernels.catalog.tensors import ANY, refusal

if TYPE_CHECKING:
    import torch

U32 = 2.0**-24
STEP = 2.0**-22  # relative move of inputs: far above fp64's rounding, far below where curvature shows
MOVES = 4
LEAST_STEP = 0.5  # the greatest is one more
STEPS_RMS = math.sqrt(13 / 12)  # of steps between 0.5 and 1.5
OWN_ROUNDING = 1.5
SLACK_DTYPE = 0.5
SLACK_FP32 = 16.0
FLOOR_DTYPE = 0.25
FLUSHED = 16.0  # in least normal numbers: every term of a sum may be flushed to zero on its way
YARD_FP32 = 8.0
YARD_DTYPE = 3.0
MOST_SEQUENTIAL = 2.0**-8  # of what is added up: an approximation that shows is refused however long the sum
MOST_YARD_DTYPE = 16.0  # in units of the dtype's u
WORKING_COPIES = 8  # of inputs and outputs in fp64 that a reference is expected to hold at its worst
# Where a run of the reference was measured: copies of the outputs in fp64 that stand beside it, of `least` and `truth`.
LEAST_COPIES, TRUTH_COPIES = 6, 12
SHARE_OF_FREE = 0.6


class ReferenceFault(Exception):
    """The reference broke its contract; the message says how and what would mend it."""


class BudgetError(Exception):
    """The reference does not fit into the memory that is free, not even in blocks or on the CPU."""


@dataclass(frozen=True, slots=True)
class Truth:
    """All outputs of a case, the declared ones first, then gradients as "d_<input>"; and how they were computed."""

    outputs: tuple[Expected, ...]
    note: str = ""


def working_bytes(target: Target, axes: Mapping[str, int]) -> int:
    """What a reference is expected to take at its worst, in fp64. Tensors of unknown shape count nothing."""
    specs = [spec for spec in (*target.inputs, *target.outputs) if spec.shaped]
    return sum(math.prod(catalog.shape(spec, axes)) for spec in specs) * 8 * WORKING_COPIES


class Oracle:
    """Runs one target's reference."""

    def __init__(
        self, target: Target, reference: Callable[..., Any], device: str, *, terms: int = 0, run_bytes: int = 0
    ) -> None:
        """For one target.

        Args:
            reference: reference.py's run.
            device: where cases are computed where they fit.
            terms: with it, the error of a sum of so many in sequence is allowed as well.
            run_bytes: what one run in fp64 was seen to take there, for the one shape that is asked about; 0: not known.
        """
        import torch  # only verifiers know the truth

        self._torch = torch
        self._target = target
        self._reference = reference
        self._device = device
        self._terms = terms
        self._run_bytes = run_bytes

    def truth(
        self,
        case: Case,
        inputs: Mapping[str, torch.Tensor],
        made: Mapping[str, object],
        gradients: Mapping[str, torch.Tensor],
    ) -> Truth:
        """The truth for these inputs.

        Args:
            case: decides dtypes and shapes.
            inputs: by name, host memory, exactly what rungs get.
            made: what inputs.py made, in the dtype that rungs get.
            gradients: "g_<output>" for backward, {} where gradients are not judged.

        Raises:
            ReferenceFault: its outputs have another number or shape than declared, or it is not deterministic.
            BudgetError: too large for this machine.
            Exception: whatever the reference raises.
        """
        where, blocks, note = self.place(case)
        torch = self._torch
        runs = _Runs(self, case, inputs, made, gradients, where, blocks)
        wide = runs.run(torch.float64)
        self._check(case, wide, len(gradients) > 0)
        again = runs.run(torch.float64) if case.number % 8 == 0 and not case.name else wide
        if not same_outputs(wide, again):
            raise ReferenceFault(
                "reference.py gives other values for the same inputs; take out what is random in it, "
                "or seed it from an input"
            )
        single = runs.quietly(torch.float32)
        own = runs.quietly(None)
        kappas = self._kappas(runs, wide)
        flushed = runs.run(torch.float64, flush=True) if _subnormal(inputs) else wide
        outputs = []
        for index, (name, declared) in enumerate(self._names(case, gradients, len(wide))):
            value = wide[index]
            dtype = declared if declared != ANY else named(own[index] if own else value)
            if "float" not in dtype:
                outputs.append(Expected(name, value, dtype, None, own[index] if own else None))
                continue
            fp32 = single[index] if single else None
            eager = own[index] if own else None
            allowed = self._allowed(dtype, value, kappas[index], fp32, eager)
            if allowed is not None and flushed is not wide:
                allowed = allowed + torch.nan_to_num((flushed[index] - value).abs(), nan=0.0, posinf=0.0)
            expected = Expected(name, value, dtype, allowed, eager)
            # Whoever posed a problem of another format gave no tolerance for a truth in fp64.
            outputs.append(expected if self._target.rule is None else as_far_off(expected))
        return Truth(tuple(outputs), note)

    def least(self, case: Case, inputs: Mapping[str, torch.Tensor], made: Mapping[str, object]) -> Truth:
        """Values as of `truth` by one run of the reference, with an error allowed that is never more than there:
        without what the conditioning and the yardsticks add. What it accepts is right; what it refuses is to be judged
        by `truth`. Raises as `truth`."""
        where, blocks, note = self.place(case, LEAST_COPIES)
        torch = self._torch
        wide = _Runs(self, case, inputs, made, {}, where, blocks).run(torch.float64)
        self._check(case, wide, backward=False)
        outputs = []
        dtypes = self.dtypes(case, inputs, made, wide)
        for value, dtype, (name, _) in zip(wide, dtypes, self._names(case, {}, len(wide)), strict=True):
            allowed = None
            if "float" in dtype:
                allowed = self._allowed(dtype, value, torch.zeros((), device=value.device), None, None)
            outputs.append(Expected(name, value, dtype, allowed, None))
        return Truth(tuple(outputs), note)

    def at_once(
        self, case: Case, inputs: Mapping[str, torch.Tensor], made: Mapping[str, object], *, own: bool = False
    ) -> list[torch.Tensor]:
        """The reference's outputs in fp64 by one run on the oracle's device, whatever memory that takes; `own`: in the
        dtypes of the inputs instead.

        Raises:
            ReferenceFault: they have another number or shape than declared.
        """
        dtype = None if own else self._torch.float64
        outputs = _Runs(self, case, inputs, made, {}, self._device, 1).run(dtype)
        self._check(case, outputs, backward=False)
        return outputs

    def dtypes(
        self,
        case: Case,
        inputs: Mapping[str, torch.Tensor],
        made: Mapping[str, object],
        outputs: Sequence[torch.Tensor],
        *,
        own: bool = False,
    ) -> list[str]:
        """The dtype that each output must have: the declared one, or where none is, the one that the reference gives it
        for inputs as rungs get them; of `outputs`, which it gave in fp64, where it cannot be run in that dtype, and
        with `own`, where they are what it gives by itself."""
        declared = [retyped(self._target, spec, case.dtype) for spec in self._target.outputs_of(len(outputs))]
        if ANY not in declared:
            return declared
        eager = None if own else self.eager(case, inputs, made)
        pairs = zip(declared, eager or outputs, strict=True)
        return [dtype if dtype != ANY else named(output) for dtype, output in pairs]

    def eager(
        self, case: Case, inputs: Mapping[str, torch.Tensor], made: Mapping[str, object]
    ) -> Sequence[torch.Tensor] | None:
        """The reference's outputs in the dtypes of the inputs; None where it cannot be run in them."""
        return _Runs(self, case, inputs, made, {}, self._device, 1).quietly(None)

    def outputs(self, case: Case, inputs: Mapping[str, torch.Tensor], made: Mapping[str, object]) -> list[torch.Tensor]:
        """The reference's outputs in fp64 alone, without anything about errors."""
        where, blocks, _ = self.place(case)
        return _Runs(self, case, inputs, made, {}, where, blocks).run(self._torch.float64)

    # -- tolerance -------------------------------------------------------------------------------------------------

    def _allowed(
        self,
        dtype: str,
        truth: torch.Tensor,
        kappa: torch.Tensor,
        fp32: torch.Tensor | None,
        eager: torch.Tensor | None,
    ) -> torch.Tensor | None:
        torch = self._torch
        stated = self._target.tolerance[dtype] if dtype in self._target.stated else None
        if stated == 0:
            return None
        kind = getattr(torch, dtype)
        u = unit_roundoff(dtype)
        size = torch.nan_to_num(truth.abs(), nan=0.0, posinf=0.0)
        scale = torch.maximum(size, kappa)
        e32 = _yard(fp32, truth, scale, u if dtype != "float64" else 0.0, kind)
        own = min(_yard(eager, truth, scale, u, kind), MOST_YARD_DTYPE * u) if dtype != "float32" else 0.0
        if dtype == "float64":  # no wider run to compare with: its own rounding, some steps deep
            e32, slack = 0.0, SLACK_FP32 * 4 * u
        else:
            slack = SLACK_DTYPE * u + SLACK_FP32 * U32
        whole = rms(size)
        allowed = OWN_ROUNDING * u * size + (slack + YARD_FP32 * e32 + YARD_DTYPE * own) * scale + _least(kind)
        allowed = allowed + (FLOOR_DTYPE * u + (SLACK_FP32 * U32 if dtype != "float64" else slack)) * whole
        allowed = allowed + sequential(dtype, self._terms) * scale
        if stated is not None:
            allowed = torch.maximum(allowed, stated * torch.clamp(size, min=whole))
        return allowed

    def _kappas(self, runs: _Runs, wide: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """By output: how far it moves per relative step of its inputs; zero where that cannot be told."""
        torch = self._torch
        sums = [torch.zeros_like(w, dtype=torch.float64) for w in wide]
        for move in range(MOVES):
            moved = runs.run(torch.float64, move=move)
            for index, (one, other) in enumerate(zip(wide, moved, strict=True)):
                if one.is_floating_point() and one.shape == other.shape:
                    apart = torch.nan_to_num((other - one).abs(), nan=0.0, posinf=0.0) / STEP
                    sums[index] = torch.maximum(sums[index], apart)
        return sums

    # -- form ------------------------------------------------------------------------------------------------------

    def _names(self, case: Case, gradients: Mapping[str, object], count: int) -> list[tuple[str, str]]:
        """Name and dtype of everything that is judged, of so many values."""
        target = self._target
        specs = target.outputs_of(0 if gradients else count)
        pairs = [(spec.name, retyped(target, spec, case.dtype)) for spec in specs]
        if gradients:
            pairs += [
                (f"d_{spec.name}", retyped(target, spec, case.dtype)) for spec in target.inputs if differentiable(spec)
            ]
        return pairs

    def _check(self, case: Case, outputs: Sequence[Any], backward: bool) -> None:
        declared = self._target.outputs_of(0 if backward else len(outputs))
        expected = len(declared) + (sum(differentiable(s) for s in self._target.inputs) if backward else 0)
        if len(outputs) != expected:
            raise ReferenceFault(f"reference.py returned {len(outputs)} outputs, lesson.md declares {len(declared)}")
        for spec, output in zip(declared, outputs, strict=False):
            is_tensor = isinstance(output, self._torch.Tensor)
            if spec.open and not is_tensor:
                raise ReferenceFault(f"reference.py: {spec.name} is {type(output).__name__}, not a tensor")
            wanted = list(output.shape) if spec.open else list(catalog.shape(spec, case.axes))
            if not is_tensor or list(output.shape) != wanted:
                actual = list(output.shape) if is_tensor else type(output).__name__
                raise ReferenceFault(f"reference.py: {spec.name} is {actual}, lesson.md declares {wanted}")
            if (refused := refusal(named(output))) and not (self._target.rule and self._target.rule.alone):
                # As another type its imaginary part would be lost without a word.
                raise ReferenceFault(f"reference.py: {spec.name} is {refused}")

    # -- memory ----------------------------------------------------------------------------------------------------

    def place(self, case: Case, copies: int = TRUTH_COPIES) -> tuple[str, int, str]:
        """Where to compute, in how many blocks along the independent axis, and what to say of it.

        Args:
            copies: of the outputs that stand beside a run, where it is known what a run takes.

        Raises:
            BudgetError: nowhere.
        """
        needed = working_bytes(self._target, case.axes)
        if self._run_bytes:
            outputs = sum(math.prod(catalog.shape(spec, case.axes)) for spec in self._target.outputs if spec.shaped)
            needed = min(needed, self._run_bytes + copies * 8 * outputs)
        free = free_bytes(self._device) * SHARE_OF_FREE
        if needed <= free:
            return self._device, 1, ""
        blocks = math.ceil(needed / max(free, 1.0))
        axis = self._target.fuzz.independent
        reason = f"the reference needs some {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free for it"
        if axis and 1 < blocks <= case.axes[axis] and not self._target.fuzz.backward:
            return self._device, blocks, f"{reason}: computed in {blocks} blocks of {axis}"
        if self._device != "cpu" and needed <= free_bytes("cpu") * SHARE_OF_FREE:
            return "cpu", 1, f"{reason} on the GPU: computed on the CPU"
        raise BudgetError(f"{reason}; use smaller axes")

    @property
    def reference(self) -> Callable[..., Any]:
        """reference.py's run."""
        return self._reference

    @property
    def target(self) -> Target:
        """Whose."""
        return self._target


class _Runs:
    """Runs of the reference on one case's inputs, in any precision."""

    def __init__(
        self,
        oracle: Oracle,
        case: Case,
        inputs: Mapping[str, torch.Tensor],
        made: Mapping[str, object],
        gradients: Mapping[str, torch.Tensor],
        device: str,
        blocks: int,
    ) -> None:
        import torch

        self._torch = torch
        self._oracle = oracle
        self._target = oracle.target
        self._case = case
        self._inputs = inputs
        self._made = made
        self._gradients = gradients
        self._device = device
        self._blocks = blocks

    def quietly(self, dtype: torch.dtype | None) -> list[torch.Tensor] | None:
        """What an eager implementation in that dtype gives, whether or not the reference widens by itself.

        None where PyTorch has no such operator for that dtype: then there is no such yardstick.
        """
        for way in (unwidened, contextlib.nullcontext):
            with contextlib.suppress(RuntimeError, NotImplementedError, TypeError), way():
                return self.run(dtype)
        return None

    def run(self, dtype: torch.dtype | None, move: int | None = None, *, flush: bool = False) -> list[Any]:
        """Outputs and gradients with every floating input in `dtype` (None: as rungs get it), where `move` says so
        moved by relative steps of random sign and size, with `flush` without what is subnormal."""
        if self._blocks == 1:
            return self._once(self._inputs, dtype, move, flush)
        axis = self._target.fuzz.independent
        extent = self._case.axes[axis]
        each = math.ceil(extent / self._blocks)
        parts = []
        for start in range(0, extent, each):
            narrowed = {
                spec.name: narrow(spec, self._inputs[spec.name], axis, start, min(each, extent - start))
                for spec in self._target.inputs
                if not spec.made
            }
            parts.append(self._once(narrowed, dtype, move, flush))
        joined = []
        for index, spec in enumerate(self._target.outputs):
            dim = spec.dims.index(axis) if axis in spec.dims else None
            pieces = [part[index] for part in parts]
            joined.append(self._torch.cat(pieces, dim) if dim is not None else pieces[0])
        return joined

    def _once(
        self, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype | None, move: int | None, flush: bool
    ) -> list[Any]:
        torch = self._torch
        arguments: list[Any] = []
        leaves: list[Any] = []
        for position, spec in enumerate(self._target.inputs):
            if spec.made:
                arguments.append(exact(self._made[spec.name], dtype))
                continue
            tensor = inputs[spec.name].detach().to(self._device)
            floating = tensor.is_floating_point()
            if flush and floating:
                tensor = torch.where(tensor.abs() < torch.finfo(tensor.dtype).tiny, torch.zeros_like(tensor), tensor)
            # A copy in any case: a reference may write into its inputs.
            tensor = tensor.to(dtype if floating and dtype is not None else tensor.dtype, copy=True)
            if move is not None and floating:
                generator = torch.Generator("cpu").manual_seed(move * 1009 + position)
                drawn = 2.0 * torch.rand(tuple(tensor.shape), generator=generator).to(self._device) - 1.0
                steps = drawn + torch.where(drawn < 0, -LEAST_STEP, LEAST_STEP)
                tensor = tensor * (1.0 + STEP / STEPS_RMS * steps.to(tensor.dtype))
            if self._gradients and differentiable(spec):
                tensor.requires_grad_(True)
                leaves.append(tensor)
                tensor = tensor.clone() if "mutable" in spec.flags else tensor
            arguments.append(tensor)
        if not self._gradients:
            with torch.no_grad():
                returned = self._oracle.reference(*arguments)
            return list(returned) if isinstance(returned, (tuple, list)) else [returned]
        returned = self._oracle.reference(*arguments)
        outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        pairs = [
            (output, self._gradients[f"g_{spec.name}"].to(self._device).to(output.dtype))
            for spec, output in zip(self._target.outputs, outputs, strict=True)
            if f"g_{spec.name}" in self._gradients and output.requires_grad
        ]
        if not pairs:
            raise ReferenceFault("reference.py: no output depends on a floating input; take `backward` out of [fuzz]")
        grads = torch.autograd.grad([o for o, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True)
        filled = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]
        return [output.detach() for output in outputs] + filled


def named(tensor: torch.Tensor) -> str:
    """The name of its dtype."""
    return str(tensor.dtype).removeprefix("torch.")


def differentiable(spec: TensorSpec) -> bool:
    """Whether an input's gradient is judged where [fuzz] says `backward`."""
    return not spec.made and "float" in spec.dtype


def sequential(dtype: str, terms: int) -> float:
    """Error of a sum of so many terms, one after the other in fp32 (in fp64 for an fp64 output), relative to what is
    added up: terms * u, Higham's a-priori bound, and no more than MOST_SEQUENTIAL."""
    return min(terms * (U32 if dtype != "float64" else unit_roundoff(dtype)), MOST_SEQUENTIAL)


def unit_roundoff(dtype: str) -> float:
    """Half the distance from 1 to the next number of a floating dtype."""
    import torch

    return float(torch.finfo(getattr(torch, dtype)).eps) / 2


def free_bytes(device: str) -> float:
    """Memory that can be had on "cuda" or "cpu", in bytes."""
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        return float(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - a line of a kernel's file
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def exact(value: object, dtype: torch.dtype | None) -> object:
    """A deep copy with floating tensors in `dtype`: tensors, modules, containers of them; None leaves dtypes alone."""
    import torch

    if isinstance(value, torch.Tensor):
        kept = value.detach().clone()
        return kept.to(dtype) if dtype is not None and kept.is_floating_point() else kept
    if isinstance(value, torch.nn.Module):
        copied = copy.deepcopy(value)
        return copied.to(dtype) if dtype is not None else copied
    if isinstance(value, dict):
        return {key: exact(item, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(exact(item, dtype) for item in value)
    return copy.deepcopy(value)


def _subnormal(inputs: Mapping[str, torch.Tensor]) -> bool:
    """Whether any input has a number that hardware may take for zero."""
    import torch

    for tensor in inputs.values():
        if tensor.dtype in (torch.float32, torch.bfloat16) and tensor.numel():
            size = tensor.abs()
            if bool(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).any()):
                return True
    return False


def _yard(
    yardstick: torch.Tensor | None, truth: torch.Tensor, scale: torch.Tensor, rounding: float, kind: torch.dtype
) -> float:
    """Worst error of a yardstick beyond the output's own rounding, in units of the scale; 0 where there is none."""
    import torch

    if yardstick is None or yardstick.shape != truth.shape or not truth.numel():
        return 0.0
    rounded = yardstick.to(kind).to(torch.float64)
    error = ((rounded - truth).abs() - rounding * truth.abs() - _least(kind)) / scale
    usable = torch.isfinite(error) & torch.isfinite(rounded)
    return max(0.0, float(error[usable].max())) if bool(usable.any()) else 0.0


def _least(kind: torch.dtype) -> float:
    """Absolute error that every implementation may make: subnormal results are rounded, or flushed where fp32 is."""
    import torch

    info = torch.finfo(kind)
    if kind in (torch.float32, torch.bfloat16):
        return FLUSHED * float(info.tiny)
    return 2.0 * float(getattr(info, "smallest_normal", info.tiny)) * float(info.eps)


def narrow(spec: TensorSpec, tensor: torch.Tensor, axis: str, start: int, length: int) -> torch.Tensor:
    """A stretch of a tensor along an axis; all of it where it does not have the axis."""
    return tensor.narrow(spec.dims.index(axis), start, length) if axis in spec.dims else tensor


def same_outputs(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    """Bit for bit but for the sign of zero; NaN where NaN stands."""
    return all(
        a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in zip(one, other, strict=True)
    )
