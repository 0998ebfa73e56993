"""What must hold between two calls of the same rung, beyond both being right (schema.Relation).

The relations are tight where the tolerance is not: bits must repeat, a slice must not look at its neighbours, doubling
a linear input doubles every value. A rung that declares itself inexact (atomics) is held to the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aisp.checks.oracle.comparator import ComparisonResult, Expected, Mismatch, region
from aisp.checks.oracle.schema import Case, Layout, Relation, subseed
from aisp.checks.oracle.values import digest
from aisp.kernels import catalog
from aisp.kernels.catalog.model import JudgedAs, Target, TensorSpec

if TYPE_CHECKING:
    import torch

SHIFT_BY = 4.0  # a power of two: adding it to small whole numbers is exact in every dtype


def changed(target: Target, case: Case, seed: int, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor] | str:
    """The inputs of the second call, or why this case does not have the relation."""
    import torch

    made = {name: tensor.clone() for name, tensor in inputs.items()}
    sliced = case.relation in (Relation.SLICE, Relation.PERMUTE)
    if sliced and case.axes[target.fuzz.independent] < 2:
        return "there is one slice at most"
    match Relation(case.relation):
        case Relation.AGAIN:
            return made
        case Relation.SLICE:
            extent = case.axes[target.fuzz.independent]
            place = _place(target, case, seed, extent)
            touched = False
            for spec, dim in _along(target, made):
                # Where stride 0 makes all slices one, no slice can change alone.
                one = dim == 0 and case.layouts.get(spec.name) is Layout.EXPANDED
                if not one and made[spec.name].dtype.is_floating_point and made[spec.name].numel():
                    part = made[spec.name].select(dim, place)
                    part.copy_(part.flip(-1) if part.dim() else part)
                    part.mul_(0.5)
                    touched = True
            return made if touched else "no floating input has slices of its own along the axis"
        case Relation.PERMUTE:
            order = torch.tensor(_order(target, case, seed))
            for spec, dim in _along(target, made):
                made[spec.name] = made[spec.name].index_select(dim, order).contiguous()
            return made
        case Relation.DOUBLE:
            name = target.fuzz.linear[case.number % len(target.fuzz.linear)]
            limit = torch.finfo(made[name].dtype).max / 8
            if made[name].numel() and float(made[name].to(torch.float64).abs().max()) > limit:
                return "doubling would overflow"
            made[name] = made[name] * 2
            return made
        case Relation.SHIFT:
            name = target.fuzz.shift[case.number % len(target.fuzz.shift)]
            made[name] = made[name] + SHIFT_BY
            return made
        case Relation.RESEED:
            for judged in target.judged.values():
                if judged.how is JudgedAs.DROPOUT:
                    made[judged.seed] = made[judged.seed] + 1
            return made


def judge(
    target: Target,
    case: Case,
    seed: int,
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
    truth: tuple[Expected, ...],
    *,
    inexact: bool,
) -> ComparisonResult | None:
    """What contradicts the relation first; None where it holds. Gradients are not looked at.

    Args:
        before, after: outputs of the case itself and of the changed one, host memory, right form.
        truth: of the case itself.
    """
    import torch

    relation = Relation(case.relation)
    for spec in target.outputs_of(len(truth)):
        one, two = before[spec.name], after[spec.name]
        expected = next(e for e in truth if e.name == spec.name)
        allowed = None if expected.allowed is None else expected.allowed.to("cpu")
        if relation is Relation.RESEED:
            if spec.name in target.judged and _telling(target, case, spec.name, one) and bool((one == two).all()):
                return ComparisonResult(spec.name, Mismatch.RELATION, f"{spec.name}: another seed made the same choice")
            continue
        want, ignore = one, torch.zeros(one.shape, dtype=torch.bool)
        if relation in (Relation.SLICE, Relation.PERMUTE):
            if target.fuzz.independent not in spec.dims:
                continue
            dim = spec.dims.index(target.fuzz.independent)
            if relation is Relation.SLICE:
                ignore.select(dim, _place(target, case, seed, case.axes[target.fuzz.independent])).fill_(True)
            else:
                want = one.index_select(dim, torch.tensor(_order(target, case, seed)))
        elif relation is Relation.DOUBLE:
            if not one.is_floating_point():
                continue
            want = one * 2
        wide_one, wide_two = want.to(torch.float64), two.to(torch.float64)
        apart = (wide_one - wide_two).abs()
        same = (wide_one == wide_two) | (torch.isnan(wide_one) & torch.isnan(wide_two))
        # Doubled numbers leave the subnormal range, shifted ones are rounded: there the tolerance holds, twice over.
        loose = inexact or relation is Relation.SHIFT
        if loose and allowed is not None and relation is not Relation.PERMUTE:
            same |= apart <= 2 * allowed
        elif relation is Relation.DOUBLE and one.is_floating_point():
            same |= apart <= 4 * float(torch.finfo(one.dtype).tiny)
        if relation is Relation.PERMUTE and inexact and allowed is not None:
            same |= apart <= 2 * float(allowed.max())
        if expected.name in target.judged and target.judged[expected.name].how is JudgedAs.INDICES:
            continue  # which of several ties is pointed at may change
        wrong = ~same & ~ignore
        if bool(wrong.any()):
            worst = float(torch.nan_to_num(apart[wrong], nan=0.0, posinf=0.0).max())
            detail = f"{spec.name}: {_BROKEN[relation]}; {int(wrong.sum())} of {wrong.numel()} elements, by {worst:.3g}"
            return ComparisonResult(
                spec.name,
                Mismatch.RELATION,
                detail,
                sha256=digest(two),
                region=region(wrong),
                statistics={"max": worst},
            )
    return None


def _telling(target: Target, case: Case, output: str, before: torch.Tensor) -> bool:
    """Whether two independent choices of what dropout keeps would agree by chance once in a billion cases at most."""
    keep = float(catalog.evaluate(target.judged[output].keep, case.axes))
    visible = int((before != 0).sum()) / keep if keep else 0.0
    alike = keep * keep + (1 - keep) * (1 - keep)
    return alike < 1 and visible * math.log(alike) < math.log(1e-9)


_BROKEN = {
    Relation.AGAIN: "the same call gave other bits (declare `inexact = true` for atomics)",
    Relation.SLICE: "a change of one slice of the inputs reached other slices",
    Relation.PERMUTE: "reordering the inputs' slices did not just reorder the outputs'",
    Relation.DOUBLE: "doubling a linear input did not double it exactly",
    Relation.SHIFT: "adding a constant to the input moved it",
}


def _along(target: Target, inputs: Mapping[str, torch.Tensor]) -> list[tuple[TensorSpec, int]]:
    """Inputs that have the independent axis, and which of their dimensions it is."""
    axis = target.fuzz.independent
    return [(spec, spec.dims.index(axis)) for spec in target.inputs if axis in spec.dims and spec.name in inputs]


def _place(target: Target, case: Case, seed: int, extent: int) -> int:
    return subseed(seed, target.id, case.strategy, case.number, "slice")[0] % extent


def _order(target: Target, case: Case, seed: int) -> list[int]:
    """Every slice moves by the same number of places."""
    extent = case.axes[target.fuzz.independent]
    by = 1 + _place(target, case, seed, extent)
    return [(index + by) % extent for index in range(extent)] if extent else []
