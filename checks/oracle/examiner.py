"""Poses cases and judges what rungs make of them: the oracle as one object, for the verifier and for scripts.

It holds the truth of the cases that were posed last, and each rung's outputs of them as long as a relation needs them.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle import comparator, relations, schema, values
from aisp.checks.oracle.comparator import ComparisonResult, Mismatch
from aisp.checks.oracle.schema import Case
from aisp.checks.oracle.truth import Oracle, Truth, narrow
from aisp.kernels import catalog
from aisp.kernels.catalog.model import JudgedAs, Target

if TYPE_CHECKING:
    import torch

KEPT = 16  # posed cases


@dataclass(slots=True)
class Posed:
    """A case and its truth.

    Attributes:
        inputs: by name, host memory, contiguous; gradients of the outputs behind them as "g_<output>".
        hashes: sha256 of each input's values.
        truth: None where it is computed stretch by stretch, when an answer is judged.
        stretches: start and length along the independent axis of those.
        note: how the truth is computed where memory is short.
        impossible: why the case does not have the relation that was asked for; "" where it has.
        answers: by rung, its outputs, for relations.
    """

    case: Case
    inputs: dict[str, torch.Tensor]
    hashes: dict[str, str]
    truth: Truth | None
    impossible: str = ""
    stretches: tuple[tuple[int, int], ...] = ()
    note: str = ""
    answers: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)


class Examiner:
    """Poses cases of one target and judges what rungs return."""

    def __init__(
        self,
        target: Target,
        reference: Callable[..., Any],
        make: values.Maker | None,
        device: str,
        *,
        pose: values.Maker | None = None,
    ) -> None:
        """`reference` is reference.py's run, `make` and `pose` those of inputs.py where there are any."""
        self._target = target
        self._device = device
        self._make = make
        self._pose = pose
        self._oracle = Oracle(target, reference, device)
        self._posed: OrderedDict[tuple[object, ...], Posed] = OrderedDict()

    def pose(self, case: Case, seed: int, *, changed: bool = False) -> Posed:
        """Make a case's inputs and truth. With `changed`, as its relation changes it: the case itself comes first.

        Raises:
            InputsError, GrammarError, ReferenceFault, BudgetError, or what the reference raises.
        """
        target = self._target
        if changed:
            before = self._look_up(case, changed=False)
            other: dict[str, torch.Tensor] | str = "it is judged stretch by stretch"
            if not before.stretches:
                other = relations.changed(target, case, seed, self._only_inputs(before))
            if isinstance(other, str):
                posed = Posed(case, {}, {}, None, impossible=other)
            else:
                posed = Posed(case, other | self._gradients(case, seed), self._hashed(other), before.truth)
        else:
            _, blocks, note = self._oracle.place(case)  # before anything of that size is made
            inputs = self.inputs(case, seed)
            gradients = self._gradients(case, seed)
            posed = Posed(case, inputs | gradients, self._hashed(inputs), None, note=note)
            if blocks > 1 and all(target.fuzz.independent in spec.dims for spec in target.outputs):
                posed.stretches = self._stretches(case, blocks)
                self._truth_of(posed, seed, *posed.stretches[0])  # what is wrong with the reference shows at once
                self._posed.clear()  # nothing else of such a size may stay
            else:
                posed.truth = self._oracle.truth(case, inputs, self.made(case, seed), gradients)
        self._posed[self._key(case, changed)] = posed
        while len(self._posed) > KEPT:
            self._posed.popitem(last=False)
        return posed

    def judge(
        self, case: Case, seed: int, rung: str, outputs: Mapping[str, torch.Tensor], *, changed: bool = False
    ) -> tuple[ComparisonResult, ...]:
        """Results of what a rung returned for a case that was posed, by the derived policy.

        Of a changed case, only the relation is judged: its truth is not known.
        """
        posed = self._look_up(case, changed=False)
        if posed.stretches:
            return () if changed else self._judge_stretches(posed, seed, outputs)
        assert posed.truth is not None
        if not changed:
            results = comparator.judge(self._target, case, outputs, posed.truth.outputs, posed.inputs)
            if case.relation and all(result.right for result in results):
                posed.answers[rung] = {name: tensor.to("cpu").clone() for name, tensor in outputs.items()}
            return results
        before = posed.answers.get(rung)
        if before is None:
            return ()
        after = {name: tensor.to("cpu") for name, tensor in outputs.items()}
        for name, tensor in before.items():
            if name not in after or after[name].shape != tensor.shape or after[name].dtype != tensor.dtype:
                return (ComparisonResult(name, Mismatch.SHAPE, f"{name}: another form than in the call before"),)
        inexact = any(each.name == rung and each.inexact for each in self._target.rungs)
        broken = relations.judge(self._target, case, seed, before, after, posed.truth.outputs, inexact=inexact)
        return (broken,) if broken is not None else ()

    def naive(self, case: Case, outputs: Mapping[str, torch.Tensor]) -> dict[str, bool]:
        """What a naive harness says of these outputs. Of random outputs and positions it looks at nothing else."""
        posed = self._look_up(case, changed=False)
        if posed.truth is None:
            return {}
        plain = tuple(e for e in posed.truth.outputs if e.name not in self._target.judged)
        return comparator.naive(outputs, plain) if plain else self._naive_dropout(case, outputs, posed.truth)

    def _naive_dropout(self, case: Case, outputs: Mapping[str, torch.Tensor], truth: Truth) -> dict[str, bool]:
        """Somebody who tests a dropout looks at the share of zeros, to a tenth."""
        for expected in truth.outputs:
            judged = self._target.judged[expected.name]
            if judged.how is JudgedAs.DROPOUT and expected.name in outputs:
                keep = float(catalog.evaluate(judged.keep, case.axes))
                share = float((outputs[expected.name] != 0).double().mean()) if outputs[expected.name].numel() else keep
                return {"allclose": abs(share - keep) < 0.1, "assert_close": abs(share - keep) < 0.1}
        return {}

    def truth(self, case: Case, seed: int) -> Truth:
        """The truth of a case that was posed, in one piece. Raises LookupError."""
        posed = self._look_up(case, changed=False)
        if posed.truth is None:
            inputs = self._only_inputs(posed)
            posed.truth = self._oracle.truth(case, inputs, self.made(case, seed), self._gradients(case, seed))
        return posed.truth

    def recompute(self, case: Case, seed: int, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """The reference's outputs in fp64 for other inputs of a case's shapes."""
        return self._oracle.outputs(case, inputs, self.made(case, seed))

    # -- stretches -------------------------------------------------------------------------------------------------

    def _stretches(self, case: Case, blocks: int) -> tuple[tuple[int, int], ...]:
        extent = case.axes[self._target.fuzz.independent]
        each = math.ceil(extent / blocks)
        return tuple((start, min(each, extent - start)) for start in range(0, extent, each))

    def _truth_of(
        self, posed: Posed, seed: int, start: int, length: int
    ) -> tuple[Case, dict[str, torch.Tensor], Truth]:
        """A stretch as a case of its own, its inputs and its truth."""
        axis = self._target.fuzz.independent
        case = replace(posed.case, axes={**posed.case.axes, axis: length})
        inputs = {
            spec.name: narrow(spec, posed.inputs[spec.name], axis, start, length)
            for spec in self._target.inputs
            if not spec.made
        }
        return case, inputs, self._oracle.truth(case, inputs, self.made(posed.case, seed), {})

    def _judge_stretches(
        self, posed: Posed, seed: int, outputs: Mapping[str, torch.Tensor]
    ) -> tuple[ComparisonResult, ...]:
        """Judge as `comparator.judge`, up to the first stretch that is wrong."""
        axis, target = self._target.fuzz.independent, self._target
        if miscounted := comparator.count(outputs, [spec.name for spec in target.outputs]):
            return (miscounted,)
        for spec in target.outputs:
            dtype = schema.retyped(target, spec, posed.case.dtype)
            shape = catalog.shape(spec, posed.case.axes)
            if malformed := comparator.form(spec.name, outputs[spec.name], shape, dtype):
                return (malformed,)
        results: tuple[ComparisonResult, ...] = ()
        for start, length in posed.stretches:
            case, inputs, truth = self._truth_of(posed, seed, start, length)
            part = {
                spec.name: narrow(spec, outputs[spec.name], axis, start, length).contiguous() for spec in target.outputs
            }
            now = comparator.judge(target, case, part, truth.outputs, inputs)
            if not all(result.right for result in now):
                where = f"within {axis} {start}:{start + length}"
                return tuple(o if o.right else replace(o, detail=f"{o.detail} ({where})") for o in now)
            results = now if not results else tuple(itertools.starmap(_together, zip(results, now, strict=True)))
        return results

    # -- parts -----------------------------------------------------------------------------------------------------

    def _look_up(self, case: Case, *, changed: bool) -> Posed:
        try:
            return self._posed[self._key(case, changed)]
        except KeyError:
            raise LookupError(f"the case {case.text} was not posed, or too long ago") from None

    @staticmethod
    def _key(case: Case, changed: bool) -> tuple[object, ...]:
        return (case.strategy, case.number, case.text, changed)

    def _only_inputs(self, posed: Posed) -> dict[str, torch.Tensor]:
        names = {spec.name for spec in self._target.inputs}
        return {name: tensor for name, tensor in posed.inputs.items() if name in names}

    @staticmethod
    def _hashed(inputs: Mapping[str, torch.Tensor]) -> dict[str, str]:
        return {name: values.digest(tensor) for name, tensor in inputs.items()}

    def inputs(
        self, case: Case, seed: int, drawn_before: Mapping[str, torch.Tensor] | None = None
    ) -> dict[str, torch.Tensor]:
        """`values.inputs_of` a case, the posed ones among them."""
        return values.inputs_of(self._target, case, seed, self._pose, self._device, drawn_before)

    def made(self, case: Case, seed: int) -> dict[str, object]:
        """What inputs.py makes for a case: the same in the verifier and in every rung's process."""
        if self._make is None:
            return {}
        made_seed = values.made_seed(self._target, case, seed)
        return values.made_inputs(self._target, case, made_seed, self._device, self._make)

    def _gradients(self, case: Case, seed: int) -> dict[str, torch.Tensor]:
        if not self._target.fuzz.backward:
            return {}
        shapes = {spec.name: catalog.shape(spec, case.axes) for spec in self._target.outputs}
        return values.gradients_of(self._target, case, seed, shapes)


def _together(one: ComparisonResult, other: ComparisonResult) -> ComparisonResult:
    """Join the results of two stretches of an output that are both right."""
    return replace(
        one,
        max_error=max((e for e in (one.max_error, other.max_error) if e is not None), default=None),
        relative=max((e for e in (one.relative, other.relative) if e is not None), default=None),
        histogram=tuple(map(sum, zip(one.histogram, other.histogram, strict=True))),
        sha256="",
        statistics={},
    )
