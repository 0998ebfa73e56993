"""Which cases there are, and how one is drawn: symbolic axes, dtype, layouts and kinds of values. No torch.

For a lesson the schema follows from its front matter; `[fuzz]` adds what that cannot say. A case is drawn from a master
seed, its strategy and its number. Every choice has a sub-seed of its own by name (`subseed`), so that a new
axis or input shifts none of the others.

Strategies, and the stage that a failure of theirs belongs to:

    boundary     gate    1, 2, 3, sizes one below, at and above a power of two, primes; declared values
    regular      gate    powers of two, declared values
    mixed        gate    both kinds of sizes in one case, declared and other tame values, rows of several families,
                         every layout
    adversarial  triage  large, tiny, constant, sorted, tied values, outliers and shifted rows, at any size
    nonfinite    triage  NaN and infinities at a few places
    huge         gate    a tensor of more than 2**31 elements; on request alone
"""

from __future__ import annotations

import enum
import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case as NamedCase
from aisp.kernels.catalog.model import Extent, Flag, JudgedAs, Target, TensorSpec


class Strategy(enum.StrEnum):
    """How a case is chosen."""

    BOUNDARY = "boundary"
    REGULAR = "regular"
    MIXED = "mixed"
    ADVERSARIAL = "adversarial"
    NONFINITE = "nonfinite"
    HUGE = "huge"

    @property
    def stage(self) -> Stage:
        """What a failure of this strategy is worth."""
        return Stage.TRIAGE if self in (Strategy.ADVERSARIAL, Strategy.NONFINITE) else Stage.GATE


class Stage(enum.StrEnum):
    """GATE failures are faults. TRIAGE failures are faults that somebody should look at before believing them."""

    GATE = "gate"
    TRIAGE = "triage"


class Values(enum.StrEnum):
    """What one input holds. Each stays within the domain of the input's declared distribution."""

    DECLARED = "declared"
    UNIFORM = "uniform"  # flat between -1 and 1, or between the declared bounds
    INTEGERS = "integers"  # small whole numbers: sums and products are exact
    LARGE = "large"
    TINY = "tiny"  # from normal numbers near the least down to subnormal ones
    CONSTANT = "constant"  # one value everywhere
    SORTED = "sorted"  # ascending along the last dimension
    TIES = "ties"  # three different values in all
    BELOW = "below"  # all far below zero: where a maximum that began at 0 stays there
    OUTLIERS = "outliers"  # a few far larger ones, none among the first elements of a row
    NONFINITE = "nonfinite"  # declared, with NaN and infinities at a few places
    EXTREMES = "extremes"  # an index' lowest and highest value
    LOWEST = "lowest"  # of whole numbers: the least that is declared, everywhere
    HIGHEST = "highest"  # the greatest, everywhere
    DOMINANT = "dominant"  # nine of ten are one value
    UPPER = "upper"  # all in the upper quarter of what is declared: of one sign, where the bounds are even
    POWERS = "powers"  # powers of two of either sign, within the bounds
    ROWS = "rows"  # a row each uniform, sorted or constant, among declared ones; nothing is larger than usual
    FAR = "far"  # a row each with moderate outliers or another mean, among declared ones


class Layout(enum.StrEnum):
    """How an input lies in memory."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"  # last two dimensions swapped in storage
    SLICED = "sliced"  # every row is a part of a longer one
    OFFSET = "offset"  # contiguous, one element after an aligned address
    EXPANDED = "expanded"  # first dimension has stride 0: all its slices are one


class Relation(enum.StrEnum):
    """What must hold between a call on a case and a call on the same case changed in one way (relations.py)."""

    AGAIN = "again"  # the same call once more gives the same bits
    SLICE = "slice"  # one slice along the independent axis changes: only that slice of the outputs may
    PERMUTE = "permute"  # slices along the independent axis are reordered: so are the outputs'
    DOUBLE = "double"  # a linear input is doubled: so are the outputs, exactly
    SHIFT = "shift"  # a constant is added to an input that allows it: the outputs stay
    RESEED = "reseed"  # dropout with another seed: another choice


RELATE_EVERY = 4  # cases

CYCLE = (Strategy.BOUNDARY, Strategy.REGULAR, Strategy.MIXED, Strategy.ADVERSARIAL, Strategy.NONFINITE)
"""The strategies of a fuzz that names none, in turn."""

EDGES = (
    *(1, 2, 3, 7, 13, 15, 16, 17, 31, 32, 33, 61, 63, 64, 65, 127, 128, 129, 255, 256, 257, 509, 511, 512, 513, 1021),
    *(1023, 1025, 2049),  # a second and a third block of 1024, the largest that is usual
)
ROUND = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
MOST_ELEMENTS = 1 << 20  # of the largest tensor of a case, on a GPU
MOST_ELEMENTS_HOST = 1 << 16  # on a CPU, where Triton's interpreter walks through them
MOST_FLOPS_HOST = 1 << 26
TRIES = 400
HUGE_ELEMENTS = (1 << 31) + 1
LONG_SHARE = 0.5  # of the cases in which an input of whole numbers is far from even
WHOLE = (Values.LOWEST, Values.HIGHEST, Values.DOMINANT, Values.UPPER, Values.POWERS)
"""Of whole numbers with bounds alone. A counter that wraps or is clamped is right on even draws, and wrong here."""
TAME = (Values.DECLARED, Values.UNIFORM, Values.INTEGERS, Values.ROWS)
HARD = (
    *(Values.LARGE, Values.TINY, Values.CONSTANT, Values.SORTED, Values.TIES, Values.BELOW, Values.OUTLIERS),
    Values.FAR,
)


class SchemaError(ValueError):
    """No case can be drawn; the message names the axis and what would work."""


def subseed(seed: int, *names: object) -> tuple[int, int]:
    """A 128-bit key for one purpose, as two 64-bit words, from the master seed and the purpose's names."""
    text = "\x1f".join(str(name) for name in names).encode()
    digest = hashlib.blake2b(text, key=seed.to_bytes(16, "little", signed=False), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


@dataclass(frozen=True, slots=True)
class Case:
    """One case: drawn, or a set of values of a lesson's own case.

    Attributes:
        number: within its fuzz; with the strategy and master seed it decides everything else. Of a lesson's case the
            set's.
        dtype: floating dtype of this case; "" where the target has its own only.
        layouts, values: by input, those that differ from CONTIGUOUS and DECLARED alone.
        relation: the Relation that is checked beside the values, "" for none.
        name: of the lesson's case; "" for a drawn one.
    """

    number: int
    strategy: Strategy
    axes: Mapping[str, int]
    dtype: str = ""
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    values: Mapping[str, Values] = field(default_factory=dict)
    relation: str = ""
    name: str = ""

    @staticmethod
    def of_set(case: NamedCase, number: int = 0) -> Case:
        """A set of a lesson's own case."""
        return Case(number, Strategy.REGULAR, dict(case.axes), name=case.name)

    @property
    def label(self) -> str:
        """What all sets of a lesson's case share, and a drawn one alone has."""
        return self.name or f"fuzz-{self.strategy}-{self.number}"

    def plain(self) -> dict[str, Any]:
        """Plain data for messages and the store; "text" is for readers that show it."""
        return {
            "text": self.text,
            "number": self.number,
            "strategy": self.strategy.value,
            "axes": dict(self.axes),
            "dtype": self.dtype,
            "layouts": {name: layout.value for name, layout in self.layouts.items()},
            "values": {name: kind.value for name, kind in self.values.items()},
            "relation": str(self.relation),
            **({"name": self.name} if self.name else {}),
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Case:
        """The inverse of `plain`. Raises SchemaError where something is not known here."""
        try:
            return Case(
                number=int(data["number"]),
                strategy=Strategy(data["strategy"]),
                axes={str(name): int(value) for name, value in data["axes"].items()},
                dtype=str(data.get("dtype", "")),
                layouts={str(name): Layout(value) for name, value in data.get("layouts", {}).items()},
                values={str(name): Values(value) for name, value in data.get("values", {}).items()},
                relation=str(Relation(data["relation"])) if data.get("relation") else "",
                name=str(data.get("name", "")),
            )
        except (KeyError, ValueError, AttributeError) as error:
            raise SchemaError(f"this is no case of this version: {error}") from None

    @property
    def text(self) -> str:
        """On one line, for a person: "M=3 N=129 float16 x:transposed,large"."""
        parts = [f"{name}={value}" for name, value in self.axes.items()]
        if self.dtype:
            parts.append(self.dtype)
        for name in dict.fromkeys([*self.layouts, *self.values]):
            kinds = [str(table[name]) for table in (self.layouts, self.values) if name in table]
            parts.append(f"{name}:{','.join(kinds)}")
        if self.relation:
            parts.append(f"({self.relation})")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Axis:
    """Candidate values of one axis, ascending.

    Attributes:
        declared: in the default case.
        extent: what else it may be; None for a parameter, which has its candidates alone.
    """

    name: str
    boundary: tuple[int, ...]
    regular: tuple[int, ...]
    declared: int
    extent: Extent | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """What cases of a target may be like on one kind of device."""

    target: Target
    axes: tuple[Axis, ...]
    dtypes: tuple[str, ...]  # () where only the declared one is known
    layouts: tuple[Layout, ...]
    most_elements: int
    most_flops: float

    @staticmethod
    def of(target: Target, *, host: bool) -> Schema:
        """The schema that a target's front matter gives.

        Args:
            target: any target.
            host: cases are to be small enough for a CPU and for Triton's interpreter.

        Raises:
            SchemaError: an axis has no candidate.
        """
        dims = {n for spec in (*target.inputs, *target.outputs) for dim in spec.dims for n in catalog.names(dim)}
        if any(spec.made for spec in target.inputs):
            dims = set(target.cases[0].axes)
        axes = [_axis(target, name, sized=name in dims, host=host) for name in target.cases[0].axes]
        layouts = (Layout.CONTIGUOUS, *(Layout(name) for name in target.fuzz.layouts))
        return Schema(
            target=target,
            axes=tuple(axes),
            dtypes=target.fuzz.dtypes,
            layouts=layouts,
            most_elements=MOST_ELEMENTS_HOST if host else MOST_ELEMENTS,
            most_flops=MOST_FLOPS_HOST if host else math.inf,
        )


def draw(schema: Schema, seed: int, strategy: Strategy, number: int) -> Case:
    """Case `number` of a fuzz with this master seed.

    Raises:
        SchemaError: no combination of axes was possible.
    """

    def chance(*names: object) -> random.Random:
        return random.Random(subseed(seed, schema.target.id, strategy, number, *names)[0])

    axes = _axes(schema, strategy, number, chance)
    dtype = chance("dtype").choice(schema.dtypes) if schema.dtypes else ""
    layouts: dict[str, Layout] = {}
    values: dict[str, Values] = {}
    for spec in schema.target.inputs:
        if spec.made:
            continue
        layout = _layout(schema, strategy, spec, axes, chance("layout", spec.name))
        if layout is not Layout.CONTIGUOUS:
            layouts[spec.name] = layout
        kind = _values(schema.target, strategy, spec, chance("values", spec.name))
        if kind is not Values.DECLARED:
            values[spec.name] = kind
    if (
        strategy is Strategy.MIXED
        and any(kind in WHOLE for kind in values.values())
        and chance("long").random() < LONG_SHARE
    ):
        axes = _long(schema, axes, [spec for spec in schema.target.inputs if values.get(spec.name) in WHOLE])
    if strategy in (Strategy.ADVERSARIAL, Strategy.NONFINITE) and not values:
        # Somebody must be hard: the first input that can be.
        hard = Values.NONFINITE if strategy is Strategy.NONFINITE else chance("hard").choice(HARD)
        able = [s.name for s in schema.target.inputs if takes(schema.target, s, hard)]
        if able:
            values[chance("who").choice(able)] = hard
    relation = ""
    if strategy.stage is Stage.GATE and number // len(CYCLE) % RELATE_EVERY == 1:
        relation = str(chance("relation").choice(relations(schema.target)))
    return Case(number, strategy, axes, dtype, layouts, values, relation)


def relations(target: Target) -> tuple[Relation, ...]:
    """The relations that hold for a target by what its front matter says."""
    fuzz = target.fuzz
    kinds = [Relation.AGAIN]
    if fuzz.independent:
        kinds += [Relation.SLICE, Relation.PERMUTE]
    if fuzz.linear:
        kinds.append(Relation.DOUBLE)
    if fuzz.shift:
        kinds.append(Relation.SHIFT)
    if any(judged.how is JudgedAs.DROPOUT for judged in target.judged.values()):
        kinds = [Relation.AGAIN, Relation.RESEED]
    return tuple(kinds)


def takes(target: Target, spec: TensorSpec, kind: Values) -> bool:
    """Whether an input of this declaration can hold such values without leaving its domain."""
    if kind is Values.NONFINITE and spec.name in target.fuzz.finite:
        return False
    if spec.made or spec.distribution in ("permutation", "ones", "zeros", "posed", ""):
        return False
    if spec.distribution in ("integers", "bernoulli"):
        return kind in (Values.CONSTANT, Values.SORTED) or (
            kind in (Values.EXTREMES, Values.TIES, *WHOLE) and spec.distribution == "integers"
        )
    if spec.distribution == "uniform":  # bounds that somebody relies on
        return kind in (Values.CONSTANT, Values.SORTED, Values.TIES, Values.ROWS)
    if spec.distribution == "positive":
        return kind in (
            *(Values.CONSTANT, Values.SORTED, Values.TIES, Values.LARGE, Values.OUTLIERS, Values.UNIFORM),
            *(Values.ROWS, Values.FAR),
        )
    return kind not in (Values.EXTREMES, *WHOLE)


def retyped(target: Target, spec: TensorSpec, dtype: str) -> str:
    """The dtype of an input or output in a case of `dtype`: the target's main floating dtype gives way to it."""
    return dtype if dtype and spec.dtype == main_dtype(target) else spec.dtype


def main_dtype(target: Target) -> str:
    """The floating dtype that a case's dtype stands in for: the first input's that has one; "" for none."""
    for spec in (*target.inputs, *target.outputs):
        if "float" in spec.dtype:
            return spec.dtype
    return ""


def fits(schema: Schema, axes: Mapping[str, int]) -> bool:
    """Whether all tensors have a shape and possible values for these axes and are within the budget."""
    target = schema.target
    try:
        largest = 0
        for spec in (*target.inputs, *target.outputs):
            if not spec.shaped:
                continue
            largest = max(largest, math.prod(catalog.shape(spec, axes)))
            catalog.check_values(spec, axes)
        flops = catalog.flops(target, catalog.Case("", axes))
    except catalog.GrammarError:
        return False
    return largest <= schema.most_elements and flops <= schema.most_flops


# -- axes --------------------------------------------------------------------------------------------------------


def _axis(target: Target, name: str, *, sized: bool, host: bool) -> Axis:
    """Candidates of one axis: the declared cases' values, and the usual edges where it is a size. One that is fixed to
    its default has the size of the case `cpu` on a host, where that case stands in for the default."""
    declared = sorted({case.axes[name] for case in target.cases})
    extent = target.fuzz.axes.get(name)
    default = target.cases[0].axes[name]
    if extent is not None and extent.values:
        values = tuple(sorted(extent.values))
        if host and values == (default,):
            values = (target.usual_case("cpu").axes[name],)
        return Axis(name, values, values, default)
    if not sized and extent is None:  # a parameter: only its author knows what it may be
        return Axis(name, tuple(declared), tuple(declared), default)
    allowed = extent or Extent()
    step = allowed.multiple
    edges = {0, *EDGES, *declared, *(n * step for n in EDGES)}
    even = {*ROUND, *declared, *(n * step for n in ROUND)}
    boundary = tuple(sorted(n for n in edges if allowed.admits(n)))
    regular = tuple(sorted(n for n in even if allowed.admits(n) and n > 0)) or boundary
    if not boundary:
        raise SchemaError(f"{target.id}: [fuzz] allows no value of {name}; list some: {name} = [64, 128]")
    return Axis(name, boundary, regular, default, allowed)


def _axes(schema: Schema, strategy: Strategy, number: int, chance: Any) -> dict[str, int]:
    """Values of all axes that fit together. Each try draws anew from sub-seeds of its own."""
    if strategy is Strategy.HUGE:
        return _huge(schema)
    for attempt in range(TRIES):
        # The more tries were in vain, the smaller the candidates: budgets are met in the end.
        share = max(0.0, 1.0 - attempt / (TRIES * 0.75))
        values: dict[str, int] = {}
        for axis in schema.axes:
            pick: random.Random = chance("axis", axis.name, attempt)
            if strategy is Strategy.BOUNDARY:
                pool: Sequence[int] = axis.boundary
            elif strategy is Strategy.REGULAR:
                pool = axis.regular
            else:
                pool = axis.boundary if pick.random() < 0.5 else axis.regular
            most = max(1, math.ceil(len(pool) * max(share, 0.05)))
            values[axis.name] = pool[pick.randrange(most)]
        if fits(schema, values):
            return values
    least = {axis.name: axis.boundary[0] for axis in schema.axes}
    if fits(schema, least):
        return least
    shown = ", ".join(f"{name}={value}" for name, value in least.items())
    raise SchemaError(
        f"{schema.target.id}: no axes fit together within {schema.most_elements} elements, not even {shown}; "
        "give smaller values in [fuzz] axes"
    )


def _long(schema: Schema, axes: dict[str, int], specs: Sequence[TensorSpec]) -> dict[str, int]:
    """Axes with one that these inputs have stretched until the budget is used up: what is counted must come often for
    a counter to run over. Unchanged where none can be stretched."""
    names = {name for spec in specs for dim in spec.dims for name in catalog.names(dim)}
    for axis in schema.axes:
        extent = axis.extent
        if axis.name not in names or extent is None or extent.values:
            continue
        size = schema.most_elements if extent.most is None else min(schema.most_elements, extent.most)
        while size > axes[axis.name]:
            longer = {**axes, axis.name: size // extent.multiple * extent.multiple}
            if extent.admits(longer[axis.name]) and fits(schema, longer):
                return longer
            size = size * 3 // 4
    return axes


def _huge(schema: Schema) -> dict[str, int]:
    """The default case with one axis stretched until a tensor has more than 2**31 elements."""
    target = schema.target
    for axis in schema.axes:
        base = dict.fromkeys((a.name for a in schema.axes), 0) | {a.name: a.regular[0] for a in schema.axes}
        extent = axis.extent
        if extent is None or extent.most is not None:
            continue
        base[axis.name] = 1
        try:
            each = max(math.prod(catalog.shape(spec, base)) for spec in (*target.inputs, *target.outputs))
            step = extent.multiple
            base[axis.name] = math.ceil(HUGE_ELEMENTS / max(each, 1) / step) * step
            largest = max(math.prod(catalog.shape(spec, base)) for spec in (*target.inputs, *target.outputs))
        except catalog.GrammarError:
            continue
        if HUGE_ELEMENTS <= largest < 2 * HUGE_ELEMENTS:
            return base
    raise SchemaError(f"{target.id}: no axis makes a tensor of more than 2**31 elements")


# -- layouts and values ------------------------------------------------------------------------------------------


def _layout(
    schema: Schema, strategy: Strategy, spec: TensorSpec, axes: Mapping[str, int], pick: random.Random
) -> Layout:
    fixed = Flag.MUTABLE in spec.flags or not spec.shaped
    if fixed or strategy in (Strategy.BOUNDARY, Strategy.REGULAR, Strategy.HUGE):
        return Layout.CONTIGUOUS
    dims = catalog.shape(spec, axes)
    able = [Layout.CONTIGUOUS]
    for layout in schema.layouts[1:]:
        if layout is Layout.TRANSPOSED and len(dims) < 2:
            continue
        if layout is Layout.EXPANDED and (len(dims) < 2 or spec.distribution == "permutation"):
            continue
        if dims:
            able.append(layout)
    return pick.choice(able)


def _values(target: Target, strategy: Strategy, spec: TensorSpec, pick: random.Random) -> Values:
    if strategy in (Strategy.BOUNDARY, Strategy.REGULAR, Strategy.HUGE):
        return Values.DECLARED
    if strategy is Strategy.MIXED:
        kinds: tuple[Values, ...] = (*TAME, Values.EXTREMES, *WHOLE)
    elif strategy is Strategy.ADVERSARIAL:
        kinds = (Values.DECLARED, *HARD)
    else:
        kinds = (Values.DECLARED, Values.NONFINITE)
    able = [kind for kind in kinds if kind is Values.DECLARED or takes(target, spec, kind)]
    return pick.choice(able)
