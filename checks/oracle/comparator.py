"""The comparator: is this output right? One output against the truth: what is wrong, by how much, and where.

An element is right when it is no further from the truth than a policy allows there (store.outcomes.TolerancePolicy):

    stated     tolerance * max(RMS of the truth, |truth|), by the tolerance of lesson.md or of the dtype: an output of
               zeros never passes for being small. 0 asks for the truth rounded to the output's dtype, bit for bit but
               for the sign of zero. One run of the reference: the policy of every timed set and of a lesson's cases
    derived    what the computation itself allows (truth.py). Seven runs: the policy of every drawn case

All else is one rule for both. Shape and dtype must be the declared ones exactly. NaN and infinities compare by class
and by position, both ways: NaN must stand where the truth is NaN and nowhere else, an infinity where the truth, rounded
to the output's dtype, is infinite and of that sign; at the very edge of the dtype's range either side is right. In
triage, an element that eager PyTorch in the same dtype gets wrong by class too (an overflow on the way) is not held
against a rung. Integers and booleans must be equal by value.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle.schema import Case, Stage
from aisp.checks.oracle.values import digest
from aisp.kernels import catalog
from aisp.kernels.catalog.model import JudgedAs, Target
from aisp.store.record import ERROR_BINS

if TYPE_CHECKING:
    import torch

REGION_ROWS = 16
REGION_COLUMNS = 48
SHADES = "123456789#"  # share of a cell's elements that are wrong, in tenths
SIGMAS = 5.0
PART = 1 << 26
SUMMED = ("float32", "float64")  # dtypes whose usual tolerance a long sum in them may break
OTHER_ORDER = 2.0  # times what the reference is off anywhere: another order of the same sums
MOST_ROUNDED = 8.0  # times the usual tolerance
"""Elements that are judged at once where no figures of the whole are asked for: some 4 GB beside an output."""
CAREFUL_ENOUGH = {"float32": 1e-4, "float64": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
"""What a naive harness passes to allclose, absolute and relative, by dtype; 1e-2 for narrower ones."""


class Mismatch(enum.StrEnum):
    """What is wrong with an output, or NOTHING."""

    NOTHING = "nothing"
    SHAPE = "shape"
    DTYPE = "dtype"
    COUNT = "count"  # another number of outputs
    TYPE = "type"  # not a tensor
    NAN = "nan"  # NaN where the reference has none, or the other way round
    INF = "inf"
    VALUES = "values"
    RELATION = "relation"  # two calls contradict one another (relations.py)

    @property
    def of_form(self) -> bool:
        """Whether there was nothing to compare."""
        return self in (Mismatch.SHAPE, Mismatch.DTYPE, Mismatch.COUNT, Mismatch.TYPE)


@dataclass(frozen=True, slots=True)
class Expected:
    """One output, or one input's gradient, in truth.

    Attributes:
        value: fp64, or the integers or booleans of the output; on the oracle's device.
        dtype: torch name of the dtype that the output must have.
        allowed: absolute error allowed by element, fp64; None where it must be equal.
        eager: the output of the reference run in the case's dtype, for triage and the naive harness; None where that
            could not be run.
    """

    name: str
    value: torch.Tensor
    dtype: str
    allowed: torch.Tensor | None
    eager: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """What the comparison of one output shows.

    Attributes:
        max_error: worst error in units of what is allowed; above 1 where wrong; None where not comparable or infinite.
        relative: worst error relative to max(RMS of the truth, |truth|), the way tolerances are stated; None likewise.
        sha256: of the output's values.
        statistics: of the wrong elements: "count" (of all), "wrong", "max", "mean", "p50", "p90", "p99" of the absolute
            error, and "ulp_max" ... of the error in units of the output dtype's spacing at the truth; without those
            that are not finite.
        histogram: elements by error in units of what is allowed, ERROR_BINS.
        region: where the wrong ones stand: a line per band of rows (all dimensions but the last), a character per band
            of columns; "." right, else how many tenths are wrong.
    """

    name: str
    finding: Mismatch
    detail: str = ""
    max_error: float | None = None
    relative: float | None = None
    sha256: str = ""
    statistics: Mapping[str, float] = field(default_factory=dict)
    histogram: tuple[int, ...] = ()
    region: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the output may be believed."""
        return self.finding is Mismatch.NOTHING

    def plain(self) -> dict[str, Any]:
        """Plain data for messages."""
        return asdict(self) | {"histogram": list(self.histogram), "region": list(self.region)}


def stated(target: Target, truth: Iterable[Expected]) -> tuple[Expected, ...]:
    """Truth with the errors that the target's stated tolerances allow, or those of the outputs' dtypes."""
    import torch  # only verifiers compare

    outputs: list[Expected] = []
    for expected in truth:
        tolerance = target.tolerance[expected.dtype] if "float" in expected.dtype else 0.0
        allowed = None
        if tolerance:
            allowed = expected.value.to(torch.float64).abs()
            allowed.clamp_(min=_scale(allowed, getattr(torch, expected.dtype))).mul_(tolerance)
        outputs.append(replace(expected, allowed=allowed))
    return tuple(outputs)


def as_far_off(expected: Expected) -> Expected:
    """The same, with each element allowed to be as far off as the reference is there in the case's dtype."""
    import torch  # only verifiers compare

    value, eager = expected.value, expected.eager
    if expected.allowed is None or eager is None or eager.shape != value.shape:
        return expected
    apart = torch.nan_to_num((eager.to(value.device, value.dtype) - value).abs(), nan=0.0, posinf=0.0)
    return replace(expected, allowed=torch.maximum(expected.allowed, apart))


def rounds(target: Target, dtypes: Iterable[str]) -> bool:
    """Whether `rounding` may allow more of any output in these dtypes."""
    return any(dtype in SUMMED and dtype not in target.stated for dtype in dtypes)


def rounding(target: Target, expected: Expected) -> float:
    """How many times the usual tolerance is allowed of an output in fp32 or fp64 for which the lesson states none:
    OTHER_ORDER times what the reference is off anywhere in the case's dtype, in units of max(RMS of the truth, |t|).

    The usual tolerance knows nothing of how long a sum is: PyTorch's own product of 4096 x 4096 in fp32 breaks it now
    and then. From 1 to MOST_ROUNDED, so that a reference which is useless in its own dtype allows little more. Those of
    narrower dtypes are wide, and sums in them are not narrow.
    """
    if expected.allowed is None or expected.eager is None or not rounds(target, [expected.dtype]):
        return 1.0
    import torch  # only verifiers compare

    apart = as_far_off(replace(expected, allowed=torch.zeros_like(expected.allowed))).allowed
    if apart is None or not apart.numel():
        return 1.0
    worst = float(torch.nan_to_num(apart / expected.allowed, nan=0.0, posinf=0.0).max())
    return max(1.0, min(OTHER_ORDER * worst, MOST_ROUNDED))


def _scale(size: torch.Tensor, dtype: torch.dtype) -> float:
    """RMS of the magnitudes that are finite in a dtype."""
    import torch

    most = torch.finfo(dtype).max
    if size.numel() and not float(size.max()) <= most:  # NaN is not below it either
        size = size[torch.isfinite(size.to(dtype))]
    return rms(size)


def rms(size: torch.Tensor) -> float:
    """Root of the mean square of magnitudes, without overflow on the way: an RMS of inf would allow any error."""
    peak = float(size.max()) if size.numel() else 0.0
    return peak * float((size / peak).square().mean().sqrt()) if peak else 0.0


def judge(
    target: Target,
    case: Case,
    actual: Mapping[str, torch.Tensor],
    truth: Sequence[Expected],
    inputs: Mapping[str, torch.Tensor],
    *,
    full: bool = True,
) -> tuple[ComparisonResult, ...]:
    """A result for each output and gradient, in the order of the truth.

    Args:
        actual: outputs by name, any device.
        truth: with the errors that a policy allows.
        inputs: at least those that outputs point into.
        full: with figures of the whole output; without them a comparison costs a few passes over the output.
    """
    if miscounted := count(actual, [expected.name for expected in truth]):
        return (miscounted,)
    results: list[ComparisonResult] = []
    for expected in truth:
        output = actual[expected.name]
        if malformed := form(expected.name, output, expected.value.shape, expected.dtype):
            results.append(malformed)
        elif expected.name in target.judged:
            results.append(_otherwise(target, case.axes, expected, output, truth, inputs))
        else:
            results.append(compare(expected, output, forgiving=case.strategy.stage is Stage.TRIAGE, full=full))
    return tuple(results)


def count(actual: Mapping[str, torch.Tensor], names: Sequence[str]) -> ComparisonResult | None:
    """What is to be said where other outputs arrived than these; None where they are all there."""
    if set(actual) == set(names):
        return None
    detail = f"{len(actual)} outputs arrived, there must be {', '.join(names)}"
    return ComparisonResult(names[0], Mismatch.COUNT, detail)


def form(name: str, output: torch.Tensor, shape: Sequence[int], dtype: str) -> ComparisonResult | None:
    """What is to be said where an output has another shape or dtype than these; None where it has them."""
    own = str(output.dtype).removeprefix("torch.")
    if list(output.shape) != list(shape):
        detail = f"{name}: shape {list(output.shape)}, the lesson declares {list(shape)}"
        return ComparisonResult(name, Mismatch.SHAPE, detail)
    if own != dtype:
        return ComparisonResult(name, Mismatch.DTYPE, f"{name}: dtype {own}, the lesson declares {dtype}")
    return None


def _otherwise(
    target: Target,
    axes: Mapping[str, int],
    expected: Expected,
    actual: torch.Tensor,
    truth: Sequence[Expected],
    inputs: Mapping[str, torch.Tensor],
) -> ComparisonResult:
    """An output of the right form that `[judged]` keeps from a comparison element by element."""
    judged = target.judged[expected.name]
    if judged.how is JudgedAs.INDICES:
        values = next(other for other in truth if other.name == judged.values)
        return _indices(expected.name, actual, inputs[judged.of], values)
    return _dropout(expected, actual, float(catalog.evaluate(judged.keep, axes)))


def compare(
    expected: Expected, actual: torch.Tensor, *, forgiving: bool = False, full: bool = True
) -> ComparisonResult:
    """An output of the right form, element by element.

    Args:
        forgiving: classes that eager PyTorch gets wrong as well are not held against it.
        full: as for `judge`.
    """
    raw = actual.to(expected.value.device)
    hashed = digest(actual) if full else ""
    if not raw.numel():
        detail = f"{expected.name}: empty, as it should be"
        return ComparisonResult(expected.name, Mismatch.NOTHING, detail, 0.0, 0.0 if full else None, hashed)
    if full:
        return _in_figures(expected.name, raw, expected.value, hashed, *_held_against(expected, raw, forgiving))
    worst = _Worst()
    parts = list(_parts(expected, raw))
    finite = all(_finite(part.value, output).all() for _, part, output in parts) if len(parts) > 1 else None
    for start, part, output in parts:
        kind, wrong, error, _ = _held_against(part, output, forgiving, finite)
        worst = worst.and_then(_Worst.of(kind, wrong, error), start)
    return _located(expected.name, raw, expected.value, worst)


def _parts(expected: Expected, raw: torch.Tensor) -> Iterator[tuple[int, Expected, torch.Tensor]]:
    """An output and its truth in flat stretches, each with its first element: what judging takes beside them is a
    multiple of a stretch, and not of the output."""
    eager = expected.eager if expected.eager is not None and expected.eager.shape == raw.shape else None
    for start in range(0, raw.numel(), PART):

        def cut(tensor: torch.Tensor, start: int = start) -> torch.Tensor:
            return tensor.reshape(-1)[start : start + PART]

        part = replace(
            expected,
            value=cut(expected.value),
            allowed=None if expected.allowed is None else cut(expected.allowed),
            eager=None if eager is None else cut(eager),
        )
        yield start, part, cut(raw)


def _finite(truth: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    """Where an output and its truth, rounded to the output's dtype, are both finite."""
    import torch

    return torch.isfinite(truth.to(raw.dtype).to(torch.float64)) & torch.isfinite(raw.to(torch.float64))


def _held_against(
    expected: Expected, raw: torch.Tensor, forgiving: bool, throughout: bool | None = None
) -> tuple[Mismatch, torch.Tensor, torch.Tensor, torch.Tensor]:
    """By element: whether it is wrong, its error in units of what is allowed, and the absolute one; and of what kind
    the worst is. `throughout`: whether the whole is finite; None where this is the whole."""
    import torch

    truth, allowed = expected.value, expected.allowed
    if not raw.dtype.is_floating_point:
        # By value: cast to the output's dtype, a truth that does not fit would wrap around and match.
        wrong = raw != truth
        error = torch.where(wrong, math.inf, 0.0).to(torch.float64)
        return Mismatch.VALUES, wrong, error, (raw.to(torch.float64) - truth.to(torch.float64)).abs()
    got, rounded = raw.to(torch.float64), truth.to(raw.dtype).to(torch.float64)
    finite = torch.isfinite(rounded) & torch.isfinite(got)
    if throughout is None:
        throughout = bool(finite.all())
    apart = (got - truth).abs()
    if allowed is None:
        error = torch.where(got != rounded, math.inf, 0.0).to(torch.float64)
    else:
        # An output that must be all zeros has no scale of its own: only zeros are right (0/0 is no error, x/0 is inf).
        error = torch.nan_to_num(apart / allowed, nan=0.0, posinf=math.inf)
    if throughout:
        return Mismatch.VALUES, error > 1.0, error, apart
    apart, error = torch.where(finite, apart, 0.0), torch.where(finite, error, 0.0)
    forgiven = torch.zeros_like(finite)
    if forgiving and expected.eager is not None and expected.eager.shape == got.shape:
        eager = expected.eager.to(truth.device).to(raw.dtype).to(torch.float64)
        forgiven = ~torch.isfinite(eager) & ~((eager == rounded) | (torch.isnan(eager) & torch.isnan(rounded)))
    nan_apart = (torch.isnan(got) != torch.isnan(rounded)) & ~forgiven
    inf_apart = (torch.isinf(got) | torch.isinf(rounded)) & (got != rounded) & ~forgiven & ~nan_apart
    if allowed is not None:
        # At the very edge of the dtype's range a right implementation may round to either side.
        most = float(torch.finfo(raw.dtype).max)
        near = allowed + most * 2.0**-9
        reached = torch.where(torch.isinf(got), torch.sign(got) * most, got)
        inf_apart &= ~(torch.isfinite(truth) & ((reached - truth).abs() <= near) & (truth.abs() >= most - near))
    kind = Mismatch.VALUES
    if bool(nan_apart.any()):
        kind = Mismatch.NAN
    elif bool(inf_apart.any()):
        kind = Mismatch.INF
    wrong = ((error > 1.0) & ~forgiven) | nan_apart | inf_apart
    error = torch.where(nan_apart | inf_apart, math.inf, error)
    return kind, wrong, error, apart


_GRAVITY = (Mismatch.NOTHING, Mismatch.VALUES, Mismatch.INF, Mismatch.NAN)


@dataclass(frozen=True, slots=True)
class _Worst:
    """What is wrong with an output or a stretch of one.

    Attributes:
        bad: how many elements are wrong.
        error: the greatest, in units of what is allowed, of right elements too.
        at, at_error: the wrong element that is named, in the flat tensor, and its error.
    """

    kind: Mismatch = Mismatch.NOTHING
    bad: int = 0
    error: float = 0.0
    at: int = 0
    at_error: float = -1.0

    @staticmethod
    def of(kind: Mismatch, wrong: torch.Tensor, error: torch.Tensor) -> _Worst:
        """From what every element is."""
        import torch

        bad, greatest = int(wrong.sum()), float(error.max())
        if not bad:
            return _Worst(error=greatest)
        at = int(torch.where(wrong, error, -1.0).argmax())
        return _Worst(kind, bad, greatest, at, float(error.flatten()[at]))

    def and_then(self, other: _Worst, start: int) -> _Worst:
        """Both stretches together; the other one begins at `start`."""
        first = self if self.at_error >= other.at_error else replace(other, at=start + other.at)
        kind = max(self.kind, other.kind, key=_GRAVITY.index)
        return _Worst(kind, self.bad + other.bad, max(self.error, other.error), first.at, first.at_error)


def _in_figures(
    name: str,
    actual: torch.Tensor,
    truth: torch.Tensor,
    hashed: str,
    kind: Mismatch,
    wrong: torch.Tensor,
    error: torch.Tensor,
    apart: torch.Tensor,
) -> ComparisonResult:
    """The sentence, and figures of the whole output."""
    result = _located(name, actual, truth, _Worst.of(kind, wrong, error))
    result = replace(result, sha256=hashed, histogram=_histogram(error), relative=_relative(apart, truth))
    if result.right:
        return result
    spacing = _spacing(truth, actual.dtype) if actual.dtype.is_floating_point else None
    return replace(result, statistics=_statistics(wrong, apart, spacing), region=region(wrong))


def _located(name: str, actual: torch.Tensor, truth: torch.Tensor, worst: _Worst) -> ComparisonResult:
    """The sentence and the figures that need no more than that."""
    if not worst.bad:
        return ComparisonResult(name, Mismatch.NOTHING, "", worst.error)
    count = actual.numel()
    index = list(position(worst.at, tuple(actual.shape)))
    got, want = actual.reshape(-1)[worst.at].item(), truth.reshape(-1)[worst.at].item()
    shown = [f"{value:.9g}" if isinstance(value, float) else str(value) for value in (got, want)]
    how = f", {worst.error:.3g} times the error allowed" if math.isfinite(worst.error) else ""
    return ComparisonResult(
        name,
        worst.kind,
        f"{name}{index}: got {shown[0]}, expected {shown[1]}{how}; {worst.bad} of {count} elements are wrong",
        worst.error if math.isfinite(worst.error) else None,
        statistics={"count": float(count), "wrong": float(worst.bad)},
    )


def position(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of an element from its place in the flat tensor.

    torch.unravel_index would import sympy first, which takes the verifier seconds at its first wrong answer.
    """
    index: list[int] = []
    for extent in reversed(shape):
        flat, place = divmod(flat, extent)
        index.append(place)
    return tuple(reversed(index))


# -- outputs that are judged otherwise ---------------------------------------------------------------------------


def _indices(name: str, actual: torch.Tensor, pointed: torch.Tensor, values: Expected) -> ComparisonResult:
    """Positions along the last dimension of an input: in range, no position twice, and the right values there."""
    import torch

    hashed = digest(actual)
    got = actual.to("cpu").to(torch.int64)
    source, want = pointed.to("cpu").to(torch.float64), values.value.to("cpu").to(torch.float64)
    if not got.numel():
        return ComparisonResult(name, Mismatch.NOTHING, f"{name}: empty, as it should be", 0.0, 0.0, hashed)
    width = source.shape[-1]
    outside = (got < 0) | (got >= width)
    safe = got.clamp(0, max(width - 1, 0))
    there = torch.gather(source.expand(*got.shape[:-1], width), -1, safe)
    ordered, order = safe.sort(dim=-1, stable=True)
    twice_sorted = torch.zeros_like(outside)
    twice_sorted[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    twice = torch.zeros_like(outside).scatter(-1, order, twice_sorted)
    differs = ~((there == want) | (torch.isnan(there) & torch.isnan(want)))
    wrong = outside | twice | differs
    error = torch.where(wrong, math.inf, 0.0).to(torch.float64)
    apart = torch.nan_to_num((there - want).abs(), nan=0.0, posinf=0.0)
    result = _in_figures(name, got, got, hashed, Mismatch.VALUES, wrong, error, apart)
    if result.right:
        return result
    parts = [f"{int(outside.sum())} out of range", f"{int(twice.sum())} twice", f"{int(differs.sum())} at other values"]
    detail = f"{name}: of {got.numel()} positions {', '.join(parts)} than the {values.name} of the truth"
    return ComparisonResult(
        name, Mismatch.VALUES, detail, None, None, hashed, result.statistics, result.histogram, result.region
    )


def _dropout(expected: Expected, actual: torch.Tensor, keep: float) -> ComparisonResult:
    """Each element is the truth's or zero; as many are kept as chance allows."""
    import torch

    got = actual.to(expected.value.device)
    kept = (got != 0) | torch.isnan(got)
    truth = torch.where(kept, expected.value, 0.0)
    allowed = expected.allowed
    result = compare(replace(expected, value=truth, eager=None), got)
    # Where the truth itself is zero (or vanishes in the output's dtype) nobody can tell whether it was kept.
    least = 0.0 if allowed is None else allowed
    visible = expected.value.abs() > least
    count, seen = int(visible.sum()), int((kept & visible).sum())
    spread = SIGMAS * math.sqrt(max(count * keep * (1 - keep), 0.0)) + 1.0
    if result.right and abs(seen - keep * count) > spread:
        detail = (
            f"{expected.name}: {seen} of {count} elements were kept, {keep:.4g} of them must be ({SIGMAS:.0f} sigma: "
            f"{keep * count - spread:.0f} to {keep * count + spread:.0f})"
        )
        wrong = (kept != (keep >= 0.5)) & visible
        return ComparisonResult(
            expected.name, Mismatch.VALUES, detail, None, None, result.sha256, {}, result.histogram, region(wrong)
        )
    return result


# -- figures -----------------------------------------------------------------------------------------------------


def region(wrong: torch.Tensor) -> tuple[str, ...]:
    """A picture of a mask, at most REGION_ROWS lines of at most REGION_COLUMNS characters.

    A line stands for a band of rows (all dimensions but the last, flattened), a character for a band of columns.
    """
    import torch

    if not wrong.numel():
        return ()
    width = wrong.shape[-1] if wrong.dim() else 1
    plane = wrong.reshape(-1, width).to("cpu", torch.float64)
    rows, columns = min(REGION_ROWS, plane.shape[0]), min(REGION_COLUMNS, width)
    down = _bands(plane.shape[0], rows) @ plane
    cells = down @ _bands(width, columns).T
    tenths = [[max(0, math.ceil(share * 10)) for share in line] for line in cells.tolist()]
    return tuple("".join(SHADES[min(9, n - 1)] if n else "." for n in line) for line in tenths)


def _bands(extent: int, bands: int) -> torch.Tensor:
    """[bands, extent] in fp64: row b averages the b-th of `bands` nearly equal parts."""
    import torch

    edges = [extent * b // bands for b in range(bands + 1)]
    made = torch.zeros(bands, extent, dtype=torch.float64)
    for band, (start, end) in enumerate(itertools.pairwise(edges)):
        made[band, start:end] = 1.0 / (end - start)
    return made


def _histogram(error: torch.Tensor) -> tuple[int, ...]:
    import torch

    edges = torch.tensor(ERROR_BINS[1:], dtype=torch.float64, device=error.device)
    bins = torch.bucketize(error.reshape(-1), edges, right=True)
    return tuple(int(n) for n in torch.bincount(bins.cpu(), minlength=len(ERROR_BINS)).tolist())


def _relative(apart: torch.Tensor, truth: torch.Tensor) -> float | None:
    import torch

    size = torch.nan_to_num(truth.to(torch.float64).abs(), nan=0.0, posinf=0.0)
    scale = rms(size)
    if not scale:
        return None
    worst = float((apart / torch.clamp(size, min=scale)).max())
    return worst if math.isfinite(worst) else None


def _spacing(truth: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance between neighbouring numbers of `dtype` at each element of the truth, fp64."""
    import torch

    info = torch.finfo(dtype)
    size = torch.nan_to_num(truth.abs(), nan=0.0, posinf=0.0).clamp(min=float(info.tiny), max=float(info.max))
    return torch.pow(torch.tensor(2.0, dtype=torch.float64, device=truth.device), size.log2().floor()) * info.eps


def _statistics(wrong: torch.Tensor, apart: torch.Tensor, spacing: torch.Tensor | None) -> dict[str, float]:
    import torch

    figures = {"count": float(wrong.numel()), "wrong": float(wrong.sum())}
    tables = {"": apart} | ({"ulp_": apart / spacing} if spacing is not None else {})
    for prefix, table in tables.items():
        chosen = table[wrong].to(torch.float64)
        chosen = chosen[torch.isfinite(chosen)].sort().values
        if not chosen.numel():
            continue
        figures[f"{prefix}max"], figures[f"{prefix}mean"] = float(chosen[-1]), float(chosen.mean())
        for percent in (50, 90, 99):
            figures[f"{prefix}p{percent}"] = float(chosen[min(chosen.numel() - 1, chosen.numel() * percent // 100)])
    return {name: value for name, value in figures.items() if math.isfinite(value)}


# -- the naive harness -------------------------------------------------------------------------------------------


def naive(actual: Mapping[str, torch.Tensor], truth: tuple[Expected, ...]) -> dict[str, bool]:
    """Whether a naive harness accepts: every output against eager PyTorch's, once with the usual tolerances of
    allclose, once with torch.testing.assert_close as it comes. {} where eager could not be run."""
    import torch

    accepts = {"allclose": True, "assert_close": True}
    for expected in truth:
        eager = expected.eager
        if eager is None or expected.name not in actual:
            return {}
        got = actual[expected.name].to("cpu")
        dtype: torch.dtype = getattr(torch, expected.dtype)
        want = eager.to("cpu").to(dtype)
        close = CAREFUL_ENOUGH.get(expected.dtype, 1e-2)
        same = got.shape == want.shape and got.dtype == want.dtype
        accepts["allclose"] &= same and torch.allclose(
            got.to(torch.float64), want.to(torch.float64), rtol=close, atol=close
        )
        try:
            torch.testing.assert_close(got, want)
        except AssertionError:
            accepts["assert_close"] = False
    return accepts
