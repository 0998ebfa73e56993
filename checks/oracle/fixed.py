"""Which axes a task's own code keeps to certain values, whatever its front matter leaves open.

A reference with `topk(x, 8)` beside an axis K = 8, or an input `integers(0, 128000)` beside V = 128000, is right for
one value of the axis alone. Such an axis keeps its value in drawn cases. Two sources say so, before a rung is asked:

    the declarations   the bound of an input's whole numbers is a number, and that of an axis (`tied`)
    the reference      it refuses a drawn case until the axis has a value of the lesson's own cases (`Probe`)

The reference runs on a CPU, on small cases alone: where it refuses one there it is an exception, and no lost GPU. What
takes longer than BUDGET_S, is larger than MOST_ELEMENTS, or works on a GPU alone stays unknown and counts as free.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle.schema import Case, Schema, SchemaError, fits
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Extent, Target
from aisp.kernels.catalog.tensors import INTEGER_RANGES
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.checks.oracle.examiner import Examiner
    from aisp.checks.oracle.truth import Oracle

BUDGET_S = 2.0  # somebody waits for the run
MOST_ELEMENTS = 1 << 22  # of the largest tensor of a case that is tried
MOST_FLOPS = 1 << 28
LONGEST = 120  # characters of what the reference says


@dataclass(frozen=True, slots=True)
class Held:
    """An axis that keeps to some values.

    Attributes:
        values: those, ascending; one where it is fixed.
        why: what says so, with the value that was refused.
    """

    axis: str
    values: tuple[int, ...]
    why: str

    @property
    def text(self) -> str:
        """In words: "K is fixed (x is drawn below 8)"."""
        if len(self.values) == 1:
            return f"{self.axis} is fixed ({self.why})"
        return f"{self.axis} is held to {', '.join(map(str, self.values))} ({self.why})"

    def plain(self) -> dict[str, Any]:
        """Plain data for messages."""
        return {"axis": self.axis, "values": list(self.values), "why": self.why}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Held:
        """The inverse of `plain`."""
        return Held(str(data["axis"]), tuple(int(value) for value in data["values"]), str(data["why"]))


def holding(schema: Schema, held: Iterable[Held]) -> Schema:
    """The schema with axes that keep to some values."""
    sizes = {one.axis: one.values for one in held}
    axes = (
        replace(axis, boundary=sizes[axis.name], regular=sizes[axis.name], extent=None) if axis.name in sizes else axis
        for axis in schema.axes
    )
    return replace(schema, axes=tuple(axes))


def free(schema: Schema) -> tuple[str, ...]:
    """The axes that may have more than one value."""
    return tuple(axis.name for axis in schema.axes if axis.extent is not None or len(axis.boundary) > 1)


def declared(target: Target, axis: str) -> tuple[int, ...]:
    """The values that an axis has in the lesson's own cases, ascending."""
    return tuple(sorted({case.axes[axis] for case in target.cases}))


def tied(target: Target) -> tuple[Held, ...]:
    """Axes whose one value is, as a number, the bound of an input's whole numbers.

    An axis that [fuzz] or another case gives further values is none, nor is a bound that is the dtype's own end.
    """
    ties: dict[str, Held] = {}
    for spec in target.inputs:
        if spec.distribution != "integers" or catalog.names(spec.arguments[1]):
            continue
        high = int(catalog.evaluate(spec.arguments[1], {}))
        if high >= INTEGER_RANGES[spec.dtype][1]:
            continue
        for axis in target.cases[0].axes:
            values = declared(target, axis)
            if axis not in target.fuzz.axes and values in ((high,), (high - 1,)):
                ties.setdefault(axis, Held(axis, values, f"{spec.name} is drawn below {high}"))
    return tuple(ties.values())


@dataclass(slots=True)
class Probe:
    """Asks one target's reference which values of its axes it takes.

    Attributes:
        examiner, oracle: of the target, on a CPU.
        own: the reference keeps the dtypes of its inputs.
    """

    target: Target
    examiner: Examiner
    oracle: Oracle
    own: bool = False
    budget_s: float = BUDGET_S
    _ends: float = field(init=False, default=math.inf)
    _answers: dict[tuple[int, ...], str | None] = field(init=False, default_factory=dict)

    def held(self, cases: Sequence[Case], seed: int) -> tuple[Held, ...]:
        """The axes that must keep to values of the lesson's own for the reference to take these drawn cases.

        For each case, the fewest axes are put back that make the reference take it; an axis that has a drawn value in
        any case that is taken so is not held. Nothing is held where the reference takes no case at all, not even one of
        the lesson's own: then it does not work here.
        """
        self._ends = time.monotonic() + self.budget_s
        axes: dict[str, Held] = {}
        moves: set[str] = set()
        for case in cases:
            self._answers.clear()
            refused, taken = self._put_back(case, seed)
            moves |= taken
            for axis, why in refused.items():
                if values := self._taken(case, axis, seed):
                    axes.setdefault(axis, Held(axis, values, why))
        return tuple(held for axis, held in axes.items() if axis not in moves)

    def _put_back(self, case: Case, seed: int) -> tuple[dict[str, str], set[str]]:
        """The fewest axes, each with why its drawn value is refused, and those whose drawn values are taken then; none
        where nobody knows.
        """
        base = self._smallest()
        moved = [axis for axis in base if case.axes[axis] not in declared(self.target, axis)]
        for count in range(len(moved) + 1):
            for back in itertools.combinations(moved, count):
                axes = {**case.axes, **{axis: base[axis] for axis in back}}
                if self._refusal(case, axes, seed) != "":
                    continue
                refused = {axis: self._refusal(case, {**axes, axis: case.axes[axis]}, seed) for axis in back}
                reasons = {
                    axis: f"the reference refuses {axis}={case.axes[axis]}: {reason}"
                    for axis, reason in refused.items()
                    if reason  # who was not asked has refused nothing
                }
                return reasons, set(moved) - set(back)
        return {}, set()

    def _taken(self, case: Case, axis: str, seed: int) -> tuple[int, ...]:
        """The values of the lesson's own that [fuzz] admits, and twice the least of them where that is taken: there the
        odd size alone was refused.
        """
        extent = self.target.fuzz.axes.get(axis) or Extent(least=0)
        values = tuple(value for value in declared(self.target, axis) if extent.admits(value))
        back = {name: value for name, value in self._smallest().items() if name != axis}
        twice = 2 * min(values, default=0)
        if twice and twice not in values and extent.admits(twice):
            more = self._refusal(case, {**case.axes, **back, axis: twice}, seed) == ""
            values = tuple(sorted((*values, *([twice] * more))))
        return values

    def _smallest(self) -> dict[str, int]:

        def elements(axes: Mapping[str, int]) -> int:
            specs = [spec for spec in (*self.target.inputs, *self.target.outputs) if spec.shaped]
            return sum(math.prod(catalog.shape(spec, axes)) for spec in specs)

        return min((dict(case.axes) for case in self.target.cases), key=elements)

    def _refusal(self, case: Case, axes: Mapping[str, int], seed: int) -> str | None:
        """What the reference says of a case with these axes: "" where it takes it, None where it was not asked."""
        key = tuple(axes.values())
        if key not in self._answers:
            self._answers[key] = self._ask(replace(case, axes=dict(axes)), seed)
        return self._answers[key]

    def _ask(self, case: Case, seed: int) -> str | None:
        if time.monotonic() > self._ends or not self._small(case.axes):
            return None
        try:
            inputs = self.examiner.inputs(case, seed)
            self.oracle.at_once(case, inputs, self.examiner.made(case, seed), own=self.own)
        except Exception as error:  # whatever it raises, it does not take this case
            return clean_line(str(error) or type(error).__name__)[:LONGEST]
        return ""

    def _small(self, axes: Mapping[str, int]) -> bool:
        try:
            schema = replace(Schema.of(self.target, host=True), most_elements=MOST_ELEMENTS, most_flops=MOST_FLOPS)
        except SchemaError:
            return False
        return fits(schema, axes)
