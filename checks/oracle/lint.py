"""Lints a task: could an answer that computes nothing pass on the target's own inputs? Asked before any is judged.

    zeros, constant, half      would an output of zeros, of the truth's mean, or with half of its rows undone pass?
    lower precision            would the reference run in the next narrower dtype pass?
    axes                       which sizes may vary, and which does the task's own code hold fixed?
    inputs matter              does the truth change when one input's values change?
    deterministic              does the reference repeat itself? (asked by the oracle of every eighth case)
    tolerance                  is the stated one looser than 1.5 times the 95th percentile of right rungs' errors?

`facts` runs in the verifier on a posed case, `items` turns what was gathered over all cases into sentences (no torch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle import comparator
from aisp.checks.oracle.comparator import Expected
from aisp.checks.oracle.fixed import Held
from aisp.checks.oracle.schema import Case
from aisp.kernels.catalog.model import Target

if TYPE_CHECKING:
    import torch

    from aisp.checks.oracle.examiner import Examiner

SAFETY = 1.5
PERCENTILE = 95
LOOSE = 4.0  # a stated tolerance up to this many times the calibrated one is no finding: machines differ
LEAST_ERRORS = 8  # right cases below which nothing is calibrated
NARROWER = {"float64": "float32", "float32": "bfloat16", "float16": "float8_e4m3fn", "bfloat16": "float8_e4m3fn"}
OTHERS = 1 << 21  # added to a case's number for other values of one input


@dataclass(frozen=True, slots=True)
class Item:
    """One answer of the linter: `status` is "ok", "weak" or "unknown"."""

    name: str
    status: str
    detail: str

    def plain(self) -> dict[str, Any]:
        """Plain data for events."""
        return asdict(self)


def facts(examiner: Examiner, target: Target, case: Case, seed: int) -> dict[str, Any]:
    """What answers that compute nothing would do on one posed case.

    zeros, constant, half: whether that answer would be judged right in every output.
    lower: the same of the reference run in a narrower dtype; absent where that is impossible.
    ignored: inputs whose other values leave every output as it was.
    elements: of the largest output; a case of a few elements proves little.
    """
    import torch

    truth = examiner.truth(case, seed)
    posed = examiner.inputs(case, seed)
    compared = tuple(e for e in truth.outputs if not e.name.startswith("d_"))

    def passes(answers: Mapping[str, torch.Tensor]) -> bool:
        whole = tuple(e for e in truth.outputs if e.name in answers)
        return all(opinion.right for opinion in comparator.judge(target, case, answers, whole, posed))

    def cast(expected: Expected, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("cpu").to(getattr(torch, expected.dtype))

    figures: dict[str, Any] = {"elements": max((e.value.numel() for e in compared), default=0)}
    figures["zeros"] = passes({e.name: cast(e, torch.zeros_like(e.value)) for e in compared})
    figures["constant"] = passes({e.name: cast(e, means(e.value)) for e in compared})
    figures["half"] = passes({e.name: cast(e, half(e.value)) for e in compared})
    lower = {e.name: _narrowed(e) for e in compared if e.dtype in NARROWER}
    if lower:
        rest = {e.name: cast(e, e.value) for e in compared if e.name not in lower}
        figures["lower"] = passes({**lower, **rest})
    figures["ignored"] = _ignored(examiner, target, case, seed, compared)
    return figures


def items(
    target: Target,
    gathered: Sequence[Mapping[str, Any]],
    errors: Mapping[str, Sequence[float]],
    drawn: Sequence[str],
    held: Sequence[Held],
) -> list[Item]:
    """Sentences about a target.

    Args:
        gathered: `facts` of each case that could be posed.
        errors: by dtype, errors of right rungs relative to max(RMS of the truth, |truth|), one a case and rung.
        drawn: axes whose sizes vary from case to case.
        held: axes that keep to some values, whatever the front matter leaves open.
    """
    large = [fact for fact in gathered if fact["elements"] >= 16]
    answers = [
        _answer("zeros", "an output of zeros", large),
        _answer("constant", "the truth's mean everywhere", large),
        _answer("half", "an output whose second half of rows is zero", large),
        _answer("lower", "the truth rounded to the next narrower dtype", [f for f in large if "lower" in f]),
        _axes(gathered, drawn, held),
        _inputs(target, gathered),
    ]
    return [*answers, *_tolerances(target, errors)]


def _answer(key: str, what: str, gathered: Sequence[Mapping[str, Any]]) -> Item:
    if not gathered:
        return Item(key, "unknown", f"no case could tell whether {what} would pass")
    passed = sum(bool(fact[key]) for fact in gathered)
    if passed == len(gathered):
        return Item(key, "weak", f"{what} would pass in all {passed} cases; give other values or a tighter tolerance")
    sentence = f"{what} would be refused in {len(gathered) - passed} of {len(gathered)} cases"
    return Item(key, "ok", sentence)


def _axes(gathered: Sequence[Mapping[str, Any]], drawn: Sequence[str], held: Sequence[Held]) -> Item:
    if not gathered:
        return Item("axes", "unknown", "no case could be posed")
    vary = f"sizes that vary: {', '.join(drawn)}" if drawn else "no size varies"
    return Item("axes", "ok", "; ".join([*(one.text for one in held), vary]))


def _inputs(target: Target, gathered: Sequence[Mapping[str, Any]]) -> Item:
    if not gathered:
        return Item("inputs", "unknown", "no case could be posed")
    drawn = [spec.name for spec in target.inputs if not spec.made and spec.distribution not in ("ones", "zeros")]
    never = [name for name in drawn if all(name in fact["ignored"] for fact in gathered)]
    if never:
        return Item("inputs", "weak", f"the reference ignores {', '.join(never)}: no case changed with it")
    return Item("inputs", "ok", f"every input matters: {', '.join(drawn) or 'there are none'}")


def _tolerances(target: Target, errors: Mapping[str, Sequence[float]]) -> list[Item]:
    findings: list[Item] = []
    for dtype in dict.fromkeys(spec.dtype for spec in target.outputs):
        if "float" not in dtype or dtype not in target.stated:
            continue
        stated, seen = target.tolerance[dtype], sorted(errors.get(dtype, ()))
        name = f"tolerance {dtype}"
        if stated == 0:
            findings.append(Item(name, "ok", "bit-equal is asked for"))
        elif len(seen) < LEAST_ERRORS:
            findings.append(Item(name, "unknown", f"{len(seen)} right cases are too few to calibrate {stated:g}"))
        else:
            calibrated = SAFETY * seen[min(len(seen) - 1, len(seen) * PERCENTILE // 100)]
            sentence = f"{stated:g} is stated, {calibrated:.2g} is calibrated over {len(seen)} right answers"
            status = "weak" if stated > LOOSE * calibrated else "ok"
            findings.append(Item(name, status, sentence))
    return findings


# -- naive answers -----------------------------------------------------------------------------------------------


def means(truth: torch.Tensor) -> torch.Tensor:
    """The mean of what is finite, in every place; of whole numbers the nearest one."""
    import torch  # only verifiers compare

    wide = truth.to(torch.float64)
    finite = wide[torch.isfinite(wide)]
    mean = finite.mean() if finite.numel() else wide.new_zeros(())
    return (mean if truth.is_floating_point() else mean.round()).expand(truth.shape).contiguous()


def half(truth: torch.Tensor) -> torch.Tensor:
    """The first half of the rows (of the elements, where there is one row or none), zeros behind it."""
    kept = truth.clone()
    rows = kept if kept.dim() and kept.shape[0] > 1 else kept.reshape(-1)
    rows[(len(rows) + 1) // 2 :] = 0
    return kept


def _narrowed(expected: Expected) -> torch.Tensor:
    """The truth, rounded to a narrower dtype on its way: what a kernel would give that computes in that one."""
    import torch

    narrow: torch.dtype = getattr(torch, NARROWER[expected.dtype])
    most = float(torch.finfo(narrow).max)
    value = expected.value.to("cpu")
    kept = torch.where(torch.isfinite(value), value.clamp(-most, most), value)
    return kept.to(torch.float32).to(narrow).to(torch.float32).to(getattr(torch, expected.dtype))


def _ignored(examiner: Examiner, target: Target, case: Case, seed: int, before: Sequence[Expected]) -> list[str]:
    """Inputs that may change, one alone, without changing any output."""
    import torch

    names: list[str] = []
    own = examiner.inputs(case, seed)
    others = examiner.inputs(replace(case, number=case.number + OTHERS), seed)
    for spec in target.inputs:
        if spec.made or torch.equal(own[spec.name], others[spec.name]):
            continue
        after = examiner.recompute(case, seed, {**own, spec.name: others[spec.name]})
        same = all(
            bool(((a == e.value) | ((a != a) & (e.value != e.value))).all())
            for a, e in zip(after, before, strict=False)
        )
        if same:
            names.append(spec.name)
    return names
