"""Poses cases and judges what rungs make of them: the oracle as one object, for the verifier and for scripts.

It holds the truth of the cases that were posed last, and each rung's outputs of them as long as a relation needs them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checks import inputs as checks_inputs
from checks.compare import Finding
from checks.oracle import judging, relations, schema, values
from checks.oracle.judging import Opinion
from checks.oracle.schema import Case
from checks.oracle.truth import Oracle, Truth
from kernels import catalog
from kernels.catalog.model import JudgedAs, Target

if TYPE_CHECKING:
    import torch

KEPT = 16  # posed cases


@dataclass(slots=True)
class Posed:
    """A case and its truth.

    Attributes:
        inputs: by name, host memory, contiguous; gradients of the outputs behind them as "g_<output>".
        hashes: sha256 of each input's values.
        impossible: why the case does not have the relation that was asked for; "" where it has.
        answers: by rung, its outputs, for relations.
    """

    case: Case
    inputs: dict[str, torch.Tensor]
    hashes: dict[str, str]
    truth: Truth | None
    impossible: str = ""
    answers: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)


class Examiner:
    """Of one target."""

    def __init__(
        self,
        target: Target,
        reference: Callable[..., Any],
        make: Callable[..., Mapping[str, object]] | None,
        device: str,
    ) -> None:
        """`reference` is reference.py's run, `make` inputs.py's make where there is one."""
        self._target = target
        self._device = device
        self._make = make
        self._oracle = Oracle(target, reference, device)
        self._posed: OrderedDict[tuple[object, ...], Posed] = OrderedDict()

    def pose(self, case: Case, seed: int, *, changed: bool = False) -> Posed:
        """Make a case's inputs and truth. With `changed`, as its relation changes it: the case itself comes first.

        Raises:
            InputsError, GrammarError, ReferenceFault, BudgetError, or what the reference raises.
        """
        target = self._target
        if changed:
            before = self._known(case, changed=False)
            other = relations.changed(target, case, seed, self._only_inputs(before))
            if isinstance(other, str):
                posed = Posed(case, {}, {}, None, impossible=other)
            else:
                posed = Posed(case, other | self._gradients(case, seed), self._hashed(other), before.truth)
        else:
            self._oracle.place(case)  # before anything of that size is made
            inputs = values.inputs_of(target, case, seed)
            gradients = self._gradients(case, seed)
            truth = self._oracle.truth(case, inputs, self._made(case, seed), gradients)
            posed = Posed(case, inputs | gradients, self._hashed(inputs), truth)
        self._posed[self._key(case, changed)] = posed
        while len(self._posed) > KEPT:
            self._posed.popitem(last=False)
        return posed

    def judge(
        self, case: Case, seed: int, rung: str, outputs: Mapping[str, torch.Tensor], *, changed: bool = False
    ) -> tuple[Opinion, ...]:
        """Opinions on what a rung returned for a case that was posed.

        Of a changed case, only the relation is judged: its truth is not known.
        """
        posed = self._known(case, changed=False)
        assert posed.truth is not None
        if not changed:
            found = judging.judge(self._target, case, outputs, posed.truth.outputs, posed.inputs)
            if case.relation and all(opinion.right for opinion in found):
                posed.answers[rung] = {name: tensor.to("cpu").clone() for name, tensor in outputs.items()}
            return found
        before = posed.answers.get(rung)
        if before is None:
            return ()
        after = {name: tensor.to("cpu") for name, tensor in outputs.items()}
        for name, tensor in before.items():
            if name not in after or after[name].shape != tensor.shape or after[name].dtype != tensor.dtype:
                return (Opinion(name, Finding.SHAPE, f"{name}: another form than in the call before"),)
        inexact = any(known.name == rung and known.inexact for known in self._target.rungs)
        broken = relations.judge(self._target, case, seed, before, after, posed.truth.outputs, inexact=inexact)
        return (broken,) if broken is not None else ()

    def naive(self, case: Case, outputs: Mapping[str, torch.Tensor]) -> dict[str, bool]:
        """What a careless oracle says of these outputs. Of random outputs and positions it looks at nothing else."""
        posed = self._known(case, changed=False)
        assert posed.truth is not None
        plain = tuple(e for e in posed.truth.outputs if e.name not in self._target.judged)
        return judging.naive(outputs, plain) if plain else self._naive_dropout(case, outputs, posed.truth)

    def _naive_dropout(self, case: Case, outputs: Mapping[str, torch.Tensor], truth: Truth) -> dict[str, bool]:
        """Somebody who tests a dropout looks at the share of zeros, to a tenth."""
        for expected in truth.outputs:
            judged = self._target.judged[expected.name]
            if judged.how is JudgedAs.DROPOUT and expected.name in outputs:
                keep = float(catalog.evaluate(judged.keep, case.axes))
                share = float((outputs[expected.name] != 0).double().mean()) if outputs[expected.name].numel() else keep
                return {"allclose": abs(share - keep) < 0.1, "assert_close": abs(share - keep) < 0.1}
        return {}

    def truth(self, case: Case) -> Truth:
        """The truth of a case that was posed. Raises LookupError."""
        found = self._known(case, changed=False).truth
        assert found is not None
        return found

    def recompute(self, case: Case, seed: int, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """The reference's outputs in fp64 for other inputs of a case's shapes."""
        return self._oracle.outputs(case, inputs, self._made(case, seed))

    # -- parts -----------------------------------------------------------------------------------------------------

    def _known(self, case: Case, *, changed: bool) -> Posed:
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

    def _made(self, case: Case, seed: int) -> dict[str, object]:
        if self._make is None:
            return {}
        return made_for(self._target, case, seed, self._device, self._make)

    def _gradients(self, case: Case, seed: int) -> dict[str, torch.Tensor]:
        if not self._target.fuzz.backward:
            return {}
        shapes = {spec.name: catalog.shape(spec, case.axes) for spec in self._target.outputs}
        return values.gradients_of(self._target, case, seed, shapes)


def made_for(
    target: Target, case: Case, seed: int, device: str, make: Callable[..., Mapping[str, object]]
) -> dict[str, object]:
    """What inputs.py makes for a case: the same in the verifier and in every rung's process."""
    return checks_inputs.made_inputs(target, schema.as_named(case), seed, device, make)
