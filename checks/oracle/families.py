"""Which cases a run poses beyond those of its lesson: drawn shapes, and other families of values at the timed shape.

The shapes follow from the run's own seed, so nobody can list them: one with every axis odd where the axis may be, one
at an edge of what the axes allow (the least, or the greatest that is declared), and one more for a rung whose own
`supports` admits neither. They are small, because somebody waits. Where the axes admit nothing small, the smallest
that they admit is taken, whatever its size.

At the timed shape two sets hold values that the declared distribution seldom or never draws. `rows` is promised by
every declaration that admits it: uniform, sorted and constant rows of the declared size. A failure there is a fault.
`far` goes beyond the declared size, by moderate outliers and another mean: a failure there makes the rung doubted.
Whole numbers with bounds have sets of their own: all at a bound, nine of ten the same, sorted, in the upper quarter,
powers of two. Their declaration promises these where it draws a value more than once anyway. Static ones stay as the
rung was prepared with them, but for one set of a task with whole outputs: there all are in the upper quarter, and the
rung is prepared anew. A sum of their products in fp32 is exact on even draws, and there it is not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle import comparator
from aisp.checks.oracle.comparator import ComparisonResult
from aisp.checks.oracle.fixed import Held, holding
from aisp.checks.oracle.schema import Axis, Case, Schema, SchemaError, Stage, Strategy, Values, fits, subseed, takes
from aisp.checks.oracle.truth import Oracle, Truth, sequential
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case as NamedCase
from aisp.kernels.catalog.model import Extent, Flag, Rung, Target, TensorSpec

if TYPE_CHECKING:
    import torch

GATE_ELEMENTS = 1 << 13  # of the largest tensor: somebody waits for the run
GATE_FLOPS = 1 << 22
GATE_CASES = 2  # beside those for rungs that support neither
VALUE_SETS = 2  # of other families of fractions, at the timed shape
WHOLE_SETS = (  # of whole numbers
    *(Values.LOWEST, Values.HIGHEST, Values.DOMINANT, Values.SORTED, Values.UPPER, Values.POWERS),
)
REPEATS = 10  # pairs of equal values in an even draw, from which on a declaration promises any number of them
MOST_ODD = 2047
WIDER = 8  # the budget grows by this factor until something fits
WIDENINGS = 9  # then a tensor has 2^40 elements: there is no such machine
TRIES = 48  # at each budget
SCALED_BY = 1 << 18  # elements of an output from which its scale is taken, evenly spread
LOSSY = 0.1  # of the RMS: a stated tolerance from which nothing but the declared values is promised


# -- shapes --------------------------------------------------------------------------------------------------------


def drawn_shapes(
    target: Target, seed: int, rungs: Sequence[Rung], *, host: bool, held: Sequence[Held] = ()
) -> tuple[Case, ...]:
    """The drawn cases of one run, at least one.

    Args:
        rungs: those that take part, for what they support.
        host: the cases are for a CPU.
        held: axes that keep to some values (fixed.py).

    Raises:
        SchemaError: the axes admit no case at all.
    """
    schema = holding(Schema.of(target, host=host), held)
    cases = [_drawn(schema, seed, number, edge=number > 0) for number in range(GATE_CASES)]
    for rung in rungs:
        if not rung.supports or any(not rung.unsupported(case.axes) for case in cases):
            continue
        own = _supported(schema, rung)
        if own is not None:
            cases.append(_drawn_for(own, seed, len(cases)))
    return tuple({tuple(case.axes.items()): case for case in reversed(cases)}.values())[::-1]


def _drawn(schema: Schema, seed: int, number: int, *, edge: bool, widenings: int = WIDENINGS) -> Case:
    dtypes = random.Random(subseed(seed, schema.target.id, "gate", number, "dtype")[0])
    for widening in range(widenings):
        factor = WIDER**widening
        budget = replace(schema, most_elements=GATE_ELEMENTS * factor, most_flops=GATE_FLOPS * factor)
        for attempt in range(TRIES):
            chance = random.Random(subseed(seed, schema.target.id, "gate", number, widening, attempt)[0])
            # The more tries were in vain, the smaller the sizes.
            most = math.ceil(MOST_ODD ** (1 - attempt / TRIES)) * factor
            axes = _at_edge(schema, chance, most) if edge else {a.name: odd(a, chance, most) for a in schema.axes}
            if fits(budget, axes):
                dtype = dtypes.choice(schema.dtypes) if schema.dtypes else ""
                return Case(number, Strategy.BOUNDARY, axes, dtype)
    shown = ", ".join(f"{axis.name}={least(axis)}" for axis in schema.axes)
    raise SchemaError(f"{schema.target.id}: no axes fit together, not even {shown}; say which do in [fuzz] axes")


def _drawn_for(own: Schema, seed: int, number: int) -> Case:
    """A case for a rung's own support: within WIDER times the budget, or the least that it supports."""
    most = WIDER**WIDENINGS
    try:
        return _drawn(own, seed, number, edge=False, widenings=2)
    except SchemaError:
        axes = {axis.name: least(axis) for axis in own.axes}
        if fits(replace(own, most_elements=GATE_ELEMENTS * most, most_flops=GATE_FLOPS * most), axes):
            return Case(number, Strategy.BOUNDARY, axes, own.dtypes[0] if own.dtypes else "")
        return _drawn(own, seed, number, edge=False)


def odd(axis: Axis, chance: random.Random, most: int) -> int:
    """An odd size above 1, or an odd multiple of what the axis is a multiple of; of listed values an odd one where any
    is. It is at most `most`, but where none of the values is."""
    extent = axis.extent
    if extent is None or extent.values:
        small = [n for n in axis.boundary if n <= most] or [axis.boundary[0]]
        return chance.choice([n for n in small if n % 2 and n > 1] or small)
    step = extent.multiple
    low = max(math.ceil(extent.least / step), 2 if step == 1 else 1)
    high = min(most, extent.most if extent.most is not None else most) // step
    if high <= low:
        return _admitted(extent, low * step)
    count = round(math.exp(chance.uniform(math.log(low), math.log(high)))) | 1
    return _admitted(extent, count * step)


def _admitted(extent: Extent, value: int) -> int:
    """That value, or one step or two below it where it goes too far."""
    tries = (value, value - extent.multiple, value - 2 * extent.multiple)
    return next((n for n in tries if n > 0 and extent.admits(n)), value)


def least(axis: Axis) -> int:
    """The least size of an axis that is not empty."""
    extent = axis.extent
    if extent is None or extent.values:
        return next((n for n in axis.boundary if n > 0), axis.boundary[0])
    return max(1, math.ceil(extent.least / extent.multiple)) * extent.multiple


def greatest(axis: Axis) -> int | None:
    """The greatest size of an axis; None where it has no end."""
    extent = axis.extent
    if extent is None or extent.values:
        return axis.boundary[-1]
    return None if extent.most is None else extent.most // extent.multiple * extent.multiple


def _at_edge(schema: Schema, chance: random.Random, most: int) -> dict[str, int]:
    """Each axis with even chances at an edge, one of them in any case; the others odd."""
    forced = chance.randrange(max(len(schema.axes), 1))
    axes: dict[str, int] = {}
    for position, axis in enumerate(schema.axes):
        if position != forced and chance.random() < 0.5:
            axes[axis.name] = odd(axis, chance, most)
            continue
        top = greatest(axis)
        axes[axis.name] = top if top is not None and top <= most and chance.random() < 0.5 else least(axis)
    return axes


def _supported(schema: Schema, rung: Rung) -> Schema | None:
    """The schema with the axes' values that a rung supports; None where there are none."""
    axes: list[Axis] = []
    for axis in schema.axes:
        bound = rung.supports.get(axis.name)
        if bound is None:
            axes.append(axis)
            continue
        extent = axis.extent
        values = {*axis.boundary, *bound.values}
        admitted = tuple(sorted(n for n in values if bound.admits(n) and (extent is None or extent.admits(n))))
        if extent is not None and not extent.values and not bound.values:
            tops = [n for n in (extent.most, bound.most) if n is not None]
            step = math.lcm(extent.multiple, bound.multiple)
            extent = Extent(least=max(extent.least, bound.least), most=min(tops, default=None), multiple=step)
        elif not admitted:
            return None
        else:
            extent = None
        axes.append(replace(axis, boundary=admitted or axis.boundary, extent=extent))
    return replace(schema, axes=tuple(axes))


# -- values --------------------------------------------------------------------------------------------------------


def able(target: Target, kind: Values) -> tuple[str, ...]:
    """Inputs whose values may be of another family at the timed shape: floating ones that are drawn for every set."""

    return tuple(
        spec.name
        for spec in target.inputs
        if spec.refilled and (("float" in spec.dtype and takes(target, spec, kind)) or _may_be_drawn(target, spec))
    )


def _may_be_drawn(target: Target, spec: TensorSpec) -> bool:
    """Whether somebody else's code makes this input in a form that shows in a run alone: see values.changes_of."""
    return target.rule is not None and spec.posed and spec.open and spec.dtype == "any"


def lossy(target: Target) -> bool:
    """Whether the stated tolerance is that of a narrower format inside. It was derived from the declared values, and a
    softmax of sorted rows, for example, multiplies the errors of such a format."""
    return any(
        target.tolerance[spec.dtype] >= LOSSY
        for spec in target.outputs
        if "float" in spec.dtype and spec.dtype in target.stated
    )


def value_sets(target: Target, case: NamedCase, first: int = 1) -> tuple[Case, ...]:
    """What a run poses at its timed shape beside the declared values: VALUE_SETS cases, or none where no input is able.
    They are sets of the lesson's case, numbered from `first`.

    One is judged at the gate, one in triage where the declarations admit such values. A lossy task has none.
    """
    cases: list[Case] = []
    if lossy(target) or (target.rule is not None and target.rule.alone):  # which knows what its own inputs are like
        return ()
    for number, (kind, strategy) in enumerate(
        ((Values.ROWS, Strategy.MIXED), (Values.FAR, Strategy.ADVERSARIAL))[:VALUE_SETS]
    ):
        names = able(target, kind)
        if not names:
            kind, strategy, names = Values.ROWS, Strategy.MIXED, able(target, Values.ROWS)
        if names:
            held = dict.fromkeys(names, kind)
            cases.append(Case(first + number, strategy, dict(case.axes), values=held, name=case.name))
    for number, kind in enumerate(WHOLE_SETS):
        if names := countable(target, case.axes, kind):
            held = dict.fromkeys(names, kind)
            cases.append(
                Case(first + VALUE_SETS + number, Strategy.MIXED, dict(case.axes), values=held, name=case.name)
            )
    if target.ranks == 1 and not any("float" in spec.dtype for spec in target.outputs):
        held = dict.fromkeys(countable(target, case.axes, Values.UPPER, static=True), Values.UPPER)
        last = Case(first + VALUE_SETS + len(WHOLE_SETS), Strategy.MIXED, dict(case.axes), values=held, name=case.name)
        if prepared_anew(target, last):
            cases.append(last)
    return tuple(cases)


def prepared_anew(target: Target, case: Case) -> bool:
    """Whether a set of other values changes static inputs, with which a rung was prepared."""
    return any(Flag.STATIC in spec.flags for spec in target.inputs if spec.name in case.values)


def countable(target: Target, axes: Mapping[str, int], kind: Values, *, static: bool = False) -> tuple[str, ...]:
    """Inputs of whole numbers that promise such values at these axes: drawn for every set or `static`, of several
    values, and, but for sorted ones, with equal ones among them. Indices of a large range that hardly ever meet may
    rely on that.
    """

    def usable(spec: TensorSpec) -> bool:
        if spec.distribution != "integers" or not takes(target, spec, kind):
            return False
        if Flag.STATIC in spec.flags and not static:
            return False
        low, high = (int(catalog.evaluate(text, axes)) for text in spec.arguments)
        count = math.prod(catalog.shape(spec, axes))
        return high - low > 1 and (kind is Values.SORTED or count * (count - 1) >= 2 * REPEATS * (high - low))

    return tuple(spec.name for spec in target.inputs if usable(spec))


def terms(target: Target, axes: Mapping[str, int], inputs: Mapping[str, torch.Tensor]) -> int:
    """How many numbers one element of an output may add up: the product of an input's dimensions that no output has,
    the largest of all inputs; where outputs have them all, as those of a softmax, or where nobody says what they have,
    the longest dimension. The `inputs` say it of open ones; static ones of those are weights in one piece."""
    kept = {dim for spec in target.outputs for dim in spec.dims}
    summed, longest = 1, 1
    for spec in target.inputs:
        if spec.open and Flag.STATIC not in spec.flags:
            longest = max(longest, *inputs[spec.name].shape)
        if spec.made or spec.open:
            continue
        sizes = dict(zip(spec.dims, catalog.shape(spec, axes), strict=True))
        summed = max(summed, math.prod(n for dim, n in sizes.items() if dim not in kept))
        longest = max(longest, *sizes.values(), 1)
    complete = all(spec.shaped for spec in target.outputs)
    return summed if complete and summed > 1 else longest


@dataclass(slots=True)
class ValueFamily:
    """One set of such values, its truth, and how answers are judged.

    The truth is one run of the reference. Only an answer that is not within the least error that is allowed in any case
    has the error derived that the computation itself allows (truth.py), which takes seven runs.

    Attributes:
        run_bytes: what a run of the reference in this shape was seen to take; 0: not known.
    """

    target: Target
    reference: Callable[..., Any]
    device: str
    case: Case
    inputs: Mapping[str, torch.Tensor]
    made: Mapping[str, object]
    note: str = ""
    run_bytes: int = 0
    _least: Truth | None = field(init=False, default=None)
    _whole: Truth | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._least = self._stated(self._oracle.least(self.case, self.inputs, self.made))
        self.note = self._least.note

    @property
    def impossible(self) -> str:
        """Why nobody could be right on these values: whole numbers at their bounds can make a sum that its dtype does
        not hold, or leave a mean nothing to divide by. "" where somebody can, and of fractions.
        """
        import torch

        assert self._least is not None
        if not any(kind in WHOLE_SETS for kind in self.case.values.values()):
            return ""
        for expected in self._least.outputs:
            dtype: torch.dtype = getattr(torch, expected.dtype)
            if dtype.is_floating_point:
                fits = bool(torch.isfinite(expected.value.to(dtype).to(torch.float64)).all())
            else:
                fits = dtype is torch.bool or bool((expected.value.to(dtype) == expected.value).all())
            if not fits:
                return f"the truth of {expected.name} is beyond {expected.dtype}"
        return ""

    @property
    def _oracle(self) -> Oracle:
        return Oracle(self.target, self.reference, self.device, terms=self._terms, run_bytes=self.run_bytes)

    @property
    def _terms(self) -> int:
        """How many terms one element of an output may add up."""
        return terms(self.target, self.case.axes, self.inputs)

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> tuple[ComparisonResult, ...]:
        """Results of what a rung returned for these inputs."""
        assert self._least is not None
        results = self._compared(outputs, self._least)
        if all(result.right for result in results):
            return results
        if self._whole is None:
            self._whole = self._stated(self._oracle.truth(self.case, self.inputs, self.made, {}))
        return self._compared(outputs, self._whole)

    def _compared(self, outputs: Mapping[str, torch.Tensor], truth: Truth) -> tuple[ComparisonResult, ...]:
        return comparator.judge(self.target, self.case, outputs, truth.outputs, self.inputs, full=False)

    def _stated(self, truth: Truth) -> Truth:
        """The same, with the tolerance allowed as well that the timed outputs were judged by, relative to the larger of
        the element and a scale of the output, and so is the error of a sum in sequence. The scale is no more than twice
        the median, which outliers do not move: the RMS would let everything beside them pass."""
        import torch

        outputs = []
        for expected in truth.outputs:
            tolerance = max(self.target.tolerance.get(expected.dtype, 0.0), sequential(expected.dtype, self._terms))
            if expected.allowed is not None and tolerance and expected.value.numel():
                size = torch.nan_to_num(expected.value.abs(), nan=0.0, posinf=0.0)
                some = size.reshape(-1)[:: max(1, size.numel() // SCALED_BY)]
                scale = min(float(some.square().mean().sqrt()), 2.0 * float(some.median()))
                allowed = torch.maximum(expected.allowed, tolerance * torch.clamp(size, min=scale))
                expected = replace(expected, allowed=allowed)
            outputs.append(expected)
        return replace(truth, outputs=tuple(outputs))


def named(case: Case) -> str:
    """The families of a set in words, for a sentence: "x: uniform, sorted and constant rows"."""
    words = {
        Values.ROWS: "uniform, sorted and constant rows",
        Values.FAR: "rows with outliers or another mean",
        Values.LOWEST: "all at the lower bound",
        Values.HIGHEST: "all at the upper bound",
        Values.DOMINANT: "nine of ten the same",
        Values.SORTED: "sorted",
        Values.UPPER: "in the upper quarter",
        Values.POWERS: "powers of two",
    }
    kinds = {kind: [name for name, own in case.values.items() if own is kind] for kind in case.values.values()}
    return "; ".join(f"{', '.join(names)}: {words[kind]}" for kind, names in kinds.items())


def gating(case: Case) -> bool:
    """Whether a failure on these values is a fault."""
    return case.strategy.stage is Stage.GATE
