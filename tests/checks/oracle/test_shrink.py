"""From a failing case to the least one: found within the budget, never outside the schema."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aisp.checks.oracle.schema import Case, Layout, Schema, Strategy, Values, draw, fits
from aisp.checks.oracle.shrink import MOST_TRIES, Shrinker, size
from tests.checks.oracle.targets import target

RICH = target(
    'x = "float32 [M, N] normal"\nw = "float32 [N] normal"',
    axes="{ M = 64, N = 512, K = 3 }",
    tables='[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]\nlayouts = ["transposed", "sliced"]\n'
    "axes = { K = [3, 5, 9], N = { multiple = 8 } }",
)
SCHEMA = Schema.of(RICH, host=False)
START = Case(
    *(7, Strategy.MIXED, {"M": 129, "N": 1016, "K": 9}, "bfloat16"),
    layouts={"x": Layout.TRANSPOSED, "w": Layout.SLICED},
    values={"x": Values.LARGE, "w": Values.TIES},
)


def shrink(fails: Callable[[Case], bool], start: Case = START, most: int = MOST_TRIES) -> tuple[Case, int, list[Case]]:
    search = Shrinker(SCHEMA, start, most)
    asked: list[Case] = []
    while (smaller := search.propose()) is not None:
        asked.append(smaller)
        search.answer(fails(smaller))
    assert search.tries == len(asked)
    return search.best, search.tries, asked


LEAST = {"M": 1, "N": 8, "K": 3}
FAILURES: dict[str, tuple[Callable[[Case], bool], Case]] = {
    "always": (lambda c: True, Case(7, Strategy.MIXED, LEAST, "float32")),
    "a row of more than a block": (
        lambda c: c.axes["N"] > 256,
        Case(7, Strategy.MIXED, {**LEAST, "N": 264}, "float32"),
    ),
    "a tail": (
        lambda c: c.axes["N"] % 16 != 0 and c.axes["M"] > 1,
        Case(7, Strategy.MIXED, {**LEAST, "M": 2}, "float32"),
    ),
    "many rows": (lambda c: c.axes["M"] >= 65, Case(7, Strategy.MIXED, {**LEAST, "M": 65}, "float32")),
    "one dtype": (lambda c: c.dtype == "bfloat16", Case(7, Strategy.MIXED, LEAST, "bfloat16")),
    "one layout": (
        lambda c: c.layouts.get("x") is Layout.TRANSPOSED,
        Case(7, Strategy.MIXED, LEAST, "float32", layouts={"x": Layout.TRANSPOSED}),
    ),
    "one kind of values": (
        lambda c: c.values.get("w") is Values.TIES and c.axes["K"] > 3,
        Case(7, Strategy.MIXED, {**LEAST, "K": 5}, "float32", values={"w": Values.TIES}),
    ),
    "layout and values together": (
        lambda c: "x" in c.layouts and "x" in c.values,
        Case(7, Strategy.MIXED, LEAST, "float32", layouts={"x": Layout.TRANSPOSED}, values={"x": Values.LARGE}),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_the_least_failing_case_is_found_within_the_budget(name: str) -> None:
    fails, least = FAILURES[name]
    best, tries, asked = shrink(fails)
    assert best == least
    assert tries <= MOST_TRIES
    assert len({c.text for c in asked} | {START.text}) == tries + 1, "nothing is asked twice"


@pytest.mark.parametrize("name", FAILURES)
def test_every_case_that_is_tried_is_one_that_the_schema_could_have(name: str) -> None:
    _, _, asked = shrink(FAILURES[name][0])
    for tried in asked:
        assert fits(SCHEMA, tried.axes)
        for axis in SCHEMA.axes:
            assert tried.axes[axis.name] in {*axis.boundary, *axis.regular}
            assert tried.axes[axis.name] <= START.axes[axis.name]
        assert tried.dtype in (START.dtype, SCHEMA.dtypes[0])
        assert tried.layouts.items() <= START.layouts.items()
        assert tried.values.items() <= START.values.items()
        assert (tried.number, tried.strategy) == (START.number, START.strategy), "its sub-seeds stay"


def test_a_case_that_fails_alone_stays_as_it_is() -> None:
    best, tries, _ = shrink(lambda c: False)
    assert best == START
    assert tries < MOST_TRIES


@pytest.mark.parametrize("most", [0, 1, 5, 9])
def test_the_budget_ends_the_search_with_the_best_so_far(most: int) -> None:
    def fails(c: Case) -> bool:
        return c.axes["M"] >= 2

    best, tries, asked = shrink(fails, most=most)
    assert tries == most
    assert best in [START, *filter(fails, asked)]
    if most > 1:
        assert size(best) < size(START)


def test_the_dtype_layouts_and_values_go_before_the_axes() -> None:
    _, _, asked = shrink(lambda c: True)
    assert (asked[0].layouts, asked[0].values, asked[0].axes) == ({}, {}, START.axes)
    assert asked[1].dtype == "float32"


@pytest.mark.parametrize("strategy", [s for s in Strategy if s is not Strategy.HUGE])
def test_whatever_is_drawn_can_be_shrunk_to_the_least_of_all(strategy: Strategy) -> None:
    for number in range(8):
        best, _, _ = shrink(lambda c: True, draw(SCHEMA, 3, strategy, number))
        assert (best.axes, best.dtype, best.layouts, best.values) == (LEAST, "float32", {}, {})


def test_smaller_means_fewer_elements_then_fewer_odd_things() -> None:
    plain = Case(0, Strategy.MIXED, {"M": 2, "N": 8})
    odd = Case(0, Strategy.MIXED, {"M": 2, "N": 8}, values={"x": Values.TIES})
    odder = Case(0, Strategy.MIXED, {"M": 2, "N": 8}, values={"x": Values.TIES}, layouts={"x": Layout.SLICED})
    larger = Case(0, Strategy.MIXED, {"M": 3, "N": 8})
    empty = Case(0, Strategy.MIXED, {"M": 0, "N": 8})
    assert sorted([larger, odder, odd, plain, empty], key=size) == [empty, plain, odd, odder, larger]
