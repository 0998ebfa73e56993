"""Quantiles and tails against published tables."""

from __future__ import annotations

import math

import pytest

from aisp.engine.distributions import digamma, fisher_tail, student, student_tails, trigamma, trigamma_inverse


@pytest.mark.parametrize(
    ("chance", "freedom", "wanted"),
    [
        (0.05, 1, 12.7062),
        (0.05, 2, 4.30265),
        (0.05, 5, 2.57058),
        (0.01, 10, 3.16927),
        (0.001, 30, 3.64596),
        (0.05, 1e6, 1.95997),
    ],
)
def test_students_quantiles_are_those_of_the_tables(chance: float, freedom: float, wanted: float) -> None:
    assert student(chance, freedom) == pytest.approx(wanted, rel=1e-5)
    assert student_tails(wanted, freedom) == pytest.approx(chance, rel=1e-4)


@pytest.mark.parametrize(
    ("ratio", "above", "below", "chance"),
    [(4.75706, 3, 6, 0.05), (10.0443, 1, 10, 0.01), (161.448, 1, 1, 0.05), (0.0, 2, 3, 1.0)],
)
def test_fishers_tails_are_those_of_the_tables(ratio: float, above: int, below: int, chance: float) -> None:
    assert fisher_tail(ratio, above, below) == pytest.approx(chance, rel=1e-4)


def test_the_derivatives_of_the_log_gamma_are_those_of_the_tables() -> None:
    euler = 0.5772156649015329
    assert digamma(1.0) == pytest.approx(-euler, rel=1e-7)
    assert digamma(0.5) == pytest.approx(-euler - 2 * math.log(2), rel=1e-7)
    assert trigamma(1.0) == pytest.approx(math.pi**2 / 6, rel=1e-7)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2, rel=1e-7)
    for x in (0.05, 0.5, 3.0, 40.0):
        assert trigamma_inverse(trigamma(x)) == pytest.approx(x, rel=1e-6)
