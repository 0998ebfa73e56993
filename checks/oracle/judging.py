"""One output against the truth: what is wrong, by how much, and where.

NaN and infinities compare by class and by position, both ways: NaN must stand where the truth is NaN and nowhere else,
an infinity where the truth, rounded to the output's dtype, is infinite and of that sign. In triage, an element that
eager PyTorch in the same dtype gets wrong by class too (an overflow on the way) is not held against a rung.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from aisp.checks.compare import Finding, form, position
from aisp.checks.oracle.schema import Case, Stage
from aisp.checks.oracle.truth import Expected
from aisp.checks.oracle.values import digest
from aisp.kernels import catalog
from aisp.kernels.catalog.model import JudgedAs, Target

if TYPE_CHECKING:
    import torch

# The same lower ends as store.record.ERROR_BINS, which this folder may not import; a test holds them together.
ERROR_BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4, math.inf)
REGION_ROWS = 16
REGION_COLUMNS = 48
SHADES = "123456789#"  # share of a cell's elements that are wrong, in tenths
SIGMAS = 5.0
CAREFUL_ENOUGH = {"float32": 1e-4, "float64": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
"""What a careless oracle passes to allclose, absolute and relative, by dtype; 1e-2 for narrower ones."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What is to be said of one output.

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
    finding: Finding
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
        return self.finding is Finding.NOTHING

    def plain(self) -> dict[str, Any]:
        """As data for messages."""
        return asdict(self) | {"histogram": list(self.histogram), "region": list(self.region)}


def judge(
    target: Target,
    case: Case,
    actual: Mapping[str, torch.Tensor],
    truth: tuple[Expected, ...],
    inputs: Mapping[str, torch.Tensor],
) -> tuple[Opinion, ...]:
    """An opinion on each output and gradient, in the order of the truth.

    Args:
        actual: outputs by name, any device.
        inputs: the case's inputs, for outputs that point into them.
    """
    if miscounted := count(actual, [expected.name for expected in truth]):
        return (miscounted,)
    found: list[Opinion] = []
    for expected in truth:
        output = actual[expected.name]
        shape, dtype = tuple(output.shape), str(output.dtype).removeprefix("torch.")
        formed = form(expected.name, shape, dtype, tuple(expected.value.shape), expected.dtype)
        if not formed.right:
            found.append(Opinion(expected.name, formed.finding, formed.detail))
            continue
        if expected.name in target.judged:
            known = {e.name: e for e in truth}
            found.append(judge_otherwise(target, case.axes, expected.name, output, known, inputs))
        else:
            found.append(compare(expected, output, forgiving=case.strategy.stage is Stage.TRIAGE))
    return tuple(found)


def count(actual: Mapping[str, torch.Tensor], names: Sequence[str]) -> Opinion | None:
    """What is to be said where other outputs arrived than these; None where they are all there."""
    if set(actual) == set(names):
        return None
    return Opinion(names[0], Finding.COUNT, f"{len(actual)} outputs arrived, there must be {', '.join(names)}")


def judge_otherwise(
    target: Target,
    axes: Mapping[str, int],
    name: str,
    actual: torch.Tensor,
    truth: Mapping[str, Expected],
    inputs: Mapping[str, torch.Tensor],
) -> Opinion:
    """An output of the right form that `[judged]` keeps from a comparison element by element.

    Args:
        truth: of every output, by name.
        inputs: at least those that outputs point into.
    """
    judged = target.judged[name]
    if judged.how is JudgedAs.INDICES:
        return _indices(name, actual, inputs[judged.of], truth[judged.values])
    return _dropout(truth[name], actual, float(catalog.evaluate(judged.keep, axes)))


def compare(expected: Expected, actual: torch.Tensor, *, forgiving: bool = False) -> Opinion:
    """An output of the right form, element by element.

    Args:
        forgiving: classes that eager PyTorch gets wrong as well are not held against it.
    """
    import torch

    name, truth = expected.name, expected.value
    got_raw = actual.to(truth.device)
    hashed = digest(actual)
    if not got_raw.numel():
        return Opinion(name, Finding.NOTHING, f"{name}: empty, as it should be", 0.0, 0.0, hashed)
    if not got_raw.dtype.is_floating_point:
        wrong = got_raw != truth
        error = torch.where(wrong, math.inf, 0.0).to(torch.float64)
        apart = (got_raw.to(torch.float64) - truth.to(torch.float64)).abs()
        return _opinion(name, Finding.VALUES, wrong, error, apart, got_raw, truth, None, hashed)
    got, rounded = got_raw.to(torch.float64), truth.to(got_raw.dtype).to(torch.float64)
    forgiven = torch.zeros_like(got, dtype=torch.bool)
    if forgiving and expected.eager is not None and expected.eager.shape == got.shape:
        eager = expected.eager.to(truth.device).to(got_raw.dtype).to(torch.float64)
        forgiven = ~torch.isfinite(eager) & ~((eager == rounded) | (torch.isnan(eager) & torch.isnan(rounded)))
    nan_apart = (torch.isnan(got) != torch.isnan(rounded)) & ~forgiven
    # At the very edge of the dtype's range a right implementation may round to either side.
    most = float(torch.finfo(got_raw.dtype).max)
    allowed = expected.allowed
    slack = allowed if allowed is not None else torch.zeros_like(got)
    near = slack + most * 2.0**-9
    reached = torch.where(torch.isinf(got), torch.sign(got) * most, got)
    edge = torch.isfinite(truth) & ((reached - truth).abs() <= near) & (truth.abs() >= most - near)
    inf_apart = (torch.isinf(got) | torch.isinf(rounded)) & (got != rounded) & ~forgiven & ~edge & ~nan_apart
    finite = torch.isfinite(rounded) & torch.isfinite(got)
    apart = torch.where(finite, (got - truth).abs(), 0.0)
    if allowed is None:
        wrong = finite & (got != rounded)
        error = torch.where(wrong, math.inf, 0.0).to(torch.float64)
    else:
        error = torch.where(finite, torch.nan_to_num(apart / allowed, nan=0.0, posinf=math.inf), 0.0)
        wrong = error > 1.0
    wrong = wrong & ~forgiven
    kind = Finding.VALUES
    if bool(nan_apart.any()):
        kind = Finding.NAN
    elif bool(inf_apart.any()):
        kind = Finding.INF
    error = torch.where(nan_apart | inf_apart, math.inf, error)
    every = wrong | nan_apart | inf_apart
    return _opinion(name, kind, every, error, apart, got_raw, truth, _spacing(truth, got_raw.dtype), hashed)


def _opinion(
    name: str,
    kind: Finding,
    wrong: torch.Tensor,
    error: torch.Tensor,
    apart: torch.Tensor,
    actual: torch.Tensor,
    truth: torch.Tensor,
    spacing: torch.Tensor | None,
    hashed: str,
) -> Opinion:
    import torch

    count, bad = wrong.numel(), int(wrong.sum())
    histogram = _histogram(error)
    worst = float(error.max())
    relative = _relative(apart, truth)
    if not bad:
        return Opinion(name, Finding.NOTHING, "", worst, relative, hashed, {}, histogram)
    flat = int(torch.where(wrong, error, -1.0).argmax())
    index = list(position(flat, tuple(actual.shape)))
    got, want = actual.flatten()[flat].item(), truth.flatten()[flat].item()
    shown = [f"{value:.9g}" if isinstance(value, float) else str(value) for value in (got, want)]
    how = f", {worst:.3g} times the error allowed" if math.isfinite(worst) else ""
    return Opinion(
        name,
        kind,
        f"{name}{index}: got {shown[0]}, expected {shown[1]}{how}; {bad} of {count} elements are wrong",
        worst if math.isfinite(worst) else None,
        relative,
        hashed,
        _statistics(wrong, apart, spacing),
        histogram,
        region(wrong),
    )


# -- outputs that are judged otherwise ---------------------------------------------------------------------------


def _indices(name: str, actual: torch.Tensor, pointed: torch.Tensor, values: Expected) -> Opinion:
    """Positions along the last dimension of an input: in range, no position twice, and the right values there."""
    import torch

    hashed = digest(actual)
    got = actual.to("cpu").to(torch.int64)
    source, want = pointed.to("cpu").to(torch.float64), values.value.to("cpu").to(torch.float64)
    if not got.numel():
        return Opinion(name, Finding.NOTHING, f"{name}: empty, as it should be", 0.0, 0.0, hashed)
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
    opinion = _opinion(name, Finding.VALUES, wrong, error, apart, got, got, None, hashed)
    if opinion.right:
        return opinion
    said = [f"{int(outside.sum())} out of range", f"{int(twice.sum())} twice", f"{int(differs.sum())} at other values"]
    detail = f"{name}: of {got.numel()} positions {', '.join(said)} than the {values.name} of the truth"
    return Opinion(
        name, Finding.VALUES, detail, None, None, hashed, opinion.statistics, opinion.histogram, opinion.region
    )


def _dropout(expected: Expected, actual: torch.Tensor, keep: float) -> Opinion:
    """Each element is the truth's or zero; as many are kept as chance allows."""
    import torch

    got = actual.to(expected.value.device)
    kept = (got != 0) | torch.isnan(got)
    truth = torch.where(kept, expected.value, 0.0)
    allowed = expected.allowed
    masked = Expected(expected.name, truth, expected.dtype, allowed, None)
    opinion = compare(masked, got)
    # Where the truth itself is zero (or vanishes in the output's dtype) nobody can tell whether it was kept.
    least = 0.0 if allowed is None else allowed
    visible = expected.value.abs() > least
    count, seen = int(visible.sum()), int((kept & visible).sum())
    spread = SIGMAS * math.sqrt(max(count * keep * (1 - keep), 0.0)) + 1.0
    if opinion.right and abs(seen - keep * count) > spread:
        detail = (
            f"{expected.name}: {seen} of {count} elements were kept, {keep:.4g} of them must be ({SIGMAS:.0f} sigma: "
            f"{keep * count - spread:.0f} to {keep * count + spread:.0f})"
        )
        wrong = (kept != (keep >= 0.5)) & visible
        return Opinion(
            expected.name, Finding.VALUES, detail, None, None, opinion.sha256, {}, opinion.histogram, region(wrong)
        )
    return opinion


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
    found = torch.bucketize(error.reshape(-1), edges, right=True)
    return tuple(int(n) for n in torch.bincount(found.cpu(), minlength=len(ERROR_BINS)).tolist())


def _relative(apart: torch.Tensor, truth: torch.Tensor) -> float | None:
    import torch

    size = torch.nan_to_num(truth.to(torch.float64).abs(), nan=0.0, posinf=0.0)
    peak = float(size.max()) if size.numel() else 0.0
    rms = peak * float((size / peak).square().mean().sqrt()) if peak else 0.0
    if not rms:
        return None
    worst = float((apart / torch.clamp(size, min=rms)).max())
    return worst if math.isfinite(worst) else None


def _spacing(truth: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance between neighbouring numbers of `dtype` at each element of the truth, fp64."""
    import torch

    info = torch.finfo(dtype)
    size = torch.nan_to_num(truth.abs(), nan=0.0, posinf=0.0).clamp(min=float(info.tiny), max=float(info.max))
    return torch.pow(torch.tensor(2.0, dtype=torch.float64, device=truth.device), size.log2().floor()) * info.eps


def _statistics(wrong: torch.Tensor, apart: torch.Tensor, spacing: torch.Tensor | None) -> dict[str, float]:
    import torch

    found = {"count": float(wrong.numel()), "wrong": float(wrong.sum())}
    tables = {"": apart} | ({"ulp_": apart / spacing} if spacing is not None else {})
    for prefix, table in tables.items():
        chosen = table[wrong].to(torch.float64)
        chosen = chosen[torch.isfinite(chosen)].sort().values
        if not chosen.numel():
            continue
        found[f"{prefix}max"], found[f"{prefix}mean"] = float(chosen[-1]), float(chosen.mean())
        for percent in (50, 90, 99):
            found[f"{prefix}p{percent}"] = float(chosen[min(chosen.numel() - 1, chosen.numel() * percent // 100)])
    return {name: value for name, value in found.items() if math.isfinite(value)}


# -- the careless oracle -----------------------------------------------------------------------------------------


def naive(actual: Mapping[str, torch.Tensor], truth: tuple[Expected, ...]) -> dict[str, bool]:
    """Whether a careless oracle accepts: every output against eager PyTorch's, once with the usual tolerances of
    allclose, once with torch.testing.assert_close as it comes. {} where eager could not be run."""
    import torch

    said = {"allclose": True, "assert_close": True}
    for expected in truth:
        eager = expected.eager
        if eager is None or expected.name not in actual:
            return {}
        got = actual[expected.name].to("cpu")
        dtype: torch.dtype = getattr(torch, expected.dtype)
        want = eager.to("cpu").to(dtype)
        close = CAREFUL_ENOUGH.get(expected.dtype, 1e-2)
        same = got.shape == want.shape and got.dtype == want.dtype
        said["allclose"] &= same and torch.allclose(
            got.to(torch.float64), want.to(torch.float64), rtol=close, atol=close
        )
        try:
            torch.testing.assert_close(got, want)
        except AssertionError:
            said["assert_close"] = False
    return said
