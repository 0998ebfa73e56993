"""Is this output right? One output tensor against the fp64 reference, element by element.

An element is right when |actual - expected| <= tol * max(RMS of expected, |expected|), so that an output of zeros
never passes for being small. With tol = 0 it must equal the expected value after that was rounded to the output's
dtype, bit for bit but for the sign of zero. NaN must stand where NaN stands and infinities must match in sign
and place, both ways; a value beyond the range of the output's dtype counts as infinite. Shape and dtype must be the
declared ones exactly.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Finding(enum.StrEnum):
    """What is wrong with an output, or NOTHING."""

    NOTHING = "nothing"
    SHAPE = "shape"
    DTYPE = "dtype"
    COUNT = "count"  # another number of outputs
    TYPE = "type"  # not a tensor
    NAN = "nan"  # NaN where the reference has none, or the other way round
    INF = "inf"
    VALUES = "values"
    RELATION = "relation"  # two calls contradict one another (checks.oracle.relations)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output's judgement.

    Attributes:
        finding: NOTHING where it is right.
        max_error: worst error in units of what is allowed, above 1 where wrong; inf for NaN, Inf and bit-exact
            differences; None where values were not compared.
        wrong_count: elements out of tolerance, out of `count`.
        worst_index: where the worst one stands.
        detail: a sentence for a person.
    """

    finding: Finding
    max_error: float | None = None
    wrong_count: int = 0
    count: int = 0
    worst_index: tuple[int, ...] = ()
    detail: str = ""

    @property
    def right(self) -> bool:
        """Whether the output may be believed."""
        return self.finding is Finding.NOTHING


def form(name: str, shape: tuple[int, ...], dtype: str, want_shape: tuple[int, ...], want_dtype: str) -> Comparison:
    """Judge shape and dtype alone."""
    if tuple(shape) != tuple(want_shape):
        return Comparison(Finding.SHAPE, detail=f"{name}: shape {list(shape)}, the lesson declares {list(want_shape)}")
    if dtype != want_dtype:
        return Comparison(Finding.DTYPE, detail=f"{name}: dtype {dtype}, the lesson declares {want_dtype}")
    return Comparison(Finding.NOTHING)


def compare(name: str, actual: torch.Tensor, expected: torch.Tensor, *, tolerance: float) -> Comparison:
    """Judge `actual` against `expected`.

    Args:
        name: the output's, for the sentence.
        actual: the output, any dtype, on any device.
        expected: the reference's fp64 (or integer, or boolean) result of the same shape, on the same device.
        tolerance: relative to max(RMS of expected, |expected|); 0 for bit-equal after rounding.
    """
    import torch  # only verifiers judge

    count = actual.numel()
    if actual.shape != expected.shape:
        return form(name, tuple(actual.shape), "", tuple(expected.shape), "")
    if count == 0:
        return Comparison(Finding.NOTHING, max_error=0.0, detail=f"{name}: empty, as it should be")
    if not actual.dtype.is_floating_point:
        # By value: cast to the output's dtype, a truth that does not fit would wrap around and match.
        wrong = actual != expected
        return _verdict(name, wrong, actual, expected, error=None)
    got = actual.to(torch.float64)
    want = expected.to(torch.float64)
    nan_apart = torch.isnan(got) != torch.isnan(want)
    if bool(nan_apart.any()):
        found = _verdict(name, nan_apart, actual, expected, error=None)
        return Comparison(Finding.NAN, math.inf, found.wrong_count, count, found.worst_index, found.detail)
    rounded = expected.to(actual.dtype).to(torch.float64)
    inf_apart = (torch.isinf(got) | torch.isinf(rounded)) & (got != rounded)
    if bool(inf_apart.any()):
        found = _verdict(name, inf_apart, actual, expected, error=None)
        return Comparison(Finding.INF, math.inf, found.wrong_count, count, found.worst_index, found.detail)
    finite = torch.isfinite(rounded)  # what lies beyond the dtype's range was judged above
    if tolerance == 0:
        wrong = (got != rounded) & finite
        return _verdict(name, wrong, actual, expected, error=None)
    known = want[finite]
    peak = float(known.abs().max()) if known.numel() else 0.0
    # Divided by the peak, no square can overflow: an RMS of inf would allow any error.
    rms = peak * float((known / peak).square().mean().sqrt()) if peak else 0.0
    allowed = tolerance * torch.clamp(want.abs(), min=rms)
    # An output that must be all zeros has no scale of its own: only zeros are right (0/0 is no error, x/0 is inf).
    error = torch.nan_to_num((got - want).abs() / allowed, nan=0.0, posinf=math.inf)
    error = torch.where(finite, error, 0.0)
    return _verdict(name, error > 1.0, actual, expected, error=error)


def _verdict(
    name: str,
    wrong: torch.Tensor,
    actual: torch.Tensor,
    expected: torch.Tensor,
    *,
    error: torch.Tensor | None,
) -> Comparison:
    """The sentence and figures for a mask of wrong elements."""
    import torch

    count = actual.numel()
    wrong_count = int(wrong.sum())
    if wrong_count == 0:
        worst = float(error.max()) if error is not None else 0.0
        return Comparison(Finding.NOTHING, max_error=worst, count=count)
    flat = int((error if error is not None else wrong.to(torch.uint8)).argmax())
    index = position(flat, tuple(actual.shape))
    worst = float(error.max()) if error is not None else math.inf
    got, want = actual.flatten()[flat].item(), expected.flatten()[flat].item()
    how = f", {worst:.3g} times the error allowed" if math.isfinite(worst) else ""
    got, want = (f"{value:.9g}" if isinstance(value, float) else int(value) for value in (got, want))
    return Comparison(
        Finding.VALUES,
        max_error=worst,
        wrong_count=wrong_count,
        count=count,
        worst_index=index,
        detail=f"{name}{list(index)}: got {got}, expected {want}{how}; {wrong_count} of {count} elements are wrong",
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
