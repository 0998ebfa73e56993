"""Student's and Fisher's distributions, and the derivatives of the gamma function's logarithm."""

from __future__ import annotations

import functools
import math

TINY = 1e-300  # in the place of a variance of 0, that is divided by
FRACTIONS = 1000  # of a continued fraction, at most; some twenty do


def student_tails(t: float, freedom: float) -> float:
    """The chance that |Student's t| exceeds t >= 0."""
    return _beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@functools.lru_cache(maxsize=4096)
def student(level: float, freedom: float) -> float:
    """The t that is exceeded, on both sides together, with chance `level`."""
    low, high = 0.0, 2.0
    while student_tails(high, freedom) > level:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tails(middle, freedom) > level else (low, middle)
    return high


def digamma(x: float) -> float:
    """By its recurrence, and its asymptotic series from 6 on (Abramowitz & Stegun, 6.3.5 and 6.3.18)."""
    less = 0.0
    while x < 6:
        less, x = less + 1 / x, x + 1
    return math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - less


def trigamma(x: float) -> float:
    """Likewise (6.4.6 and 6.4.12)."""
    more = 0.0
    while x < 6:
        more, x = more + 1 / x**2, x + 1
    return more + 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)


def trigamma_inverse(y: float) -> float:
    """The x > 0 whose trigamma is y > 0; it falls from infinity to 0."""
    low, high = 1e-3, 1e4
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > y else (low, middle)
    return high


def fisher_tail(ratio: float, above: float, below: float) -> float:
    """The chance that F with these degrees of freedom exceeds ratio >= 0."""
    return _beta(below / 2, above / 2, below / (below + above * ratio))


def _beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction (Abramowitz & Stegun, 26.5.8)."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # From its near end (Thompson & Barnett, 1986): it ends when nothing changes any more.
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = below
    for m in range(1, FRACTIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            below = 1 / (1 + term * below)
            above = 1 + term / above
            value *= above * below
        if abs(value - before) <= 1e-13 * value:
            break
    return math.exp(logs) * value / a
