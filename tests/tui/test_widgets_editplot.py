"""The plot of edits: points with error bars, one tick for each, whatever their number and times."""

from __future__ import annotations

from itertools import pairwise

import pytest

from aisp.tui.widgets.editplot import EditPoint, Mark, draw_edits, window, y_range
from aisp.tui.widgets.glyphs import GraphStyle


def point(number: int, y: float | None, spread: float = 0.01, mark: Mark = Mark.EDIT) -> EditPoint:
    if y is None:
        return EditPoint(number, None, None, None, Mark.FAILED if mark is Mark.EDIT else mark)
    return EditPoint(number, y, y * (1 - spread), y * (1 + spread), mark)


def drawn(points: list[EditPoint], width: int = 60, height: int = 12, **options: object) -> list[str]:
    frame = draw_edits(points, width, height, GraphStyle.BRAILLE, **options)  # type: ignore[arg-type]
    assert [len(row.characters) for row in frame.rows] == [width] * height
    assert all(len(row.owners) == width for row in frame.rows)
    return [row.text for row in frame.rows]


def test_one_edit_has_one_tick_and_an_axis_of_its_times() -> None:
    rows = drawn([point(0, 0.412, mark=Mark.BEST)], chosen=0)
    assert rows[-1].split() == ["edit", "[0]"]  # what the axis counts, where there is room for the word
    assert rows[-2].count("┬") == 1
    assert "".join(rows[1:-2]).count("★") == 1
    ticks = [float(row.partition("┤")[0]) for row in rows if "┤" in row]
    assert len(ticks) >= 2 and min(ticks) < 0.412 < max(ticks)


def test_points_stand_above_their_numbers_and_nothing_stands_between_them() -> None:
    rows = drawn([point(number, 1.0 + number) for number in range(4)])
    columns = [rows[-1].index(str(number)) for number in range(4)]
    assert [column - before for before, column in pairwise(columns)] == [10, 10, 10]
    used = {at for row in rows[1:-2] for at, sign in enumerate(row) if sign in "●┬│┴" and at > 3}
    assert used == set(columns)


def test_an_interval_is_a_bar_as_long_as_it_is_wide() -> None:
    (row, *_), wide = drawn([point(0, 1.0, 0.0)]), drawn([point(0, 1.0, 0.5), point(1, 1.5, 0.0)])
    assert row.startswith("ms  ● edit")
    column = wide[-1].index("0")
    bar = "".join(line[column] for line in wide[1:-2]).strip()
    assert bar[0] == "┬" and bar[-1] == "┴" and "●" in bar and set(bar) == set("┬│●┴")


def test_the_best_of_two_processes_has_its_sign_between_them() -> None:
    pair = EditPoint(1, 1.0, None, None, Mark.BEST, both=(0.7, 1.4))
    rows = drawn([point(0, 1.5, 0.0), pair])
    column = rows[-1].index("1")
    assert "".join(line[column] for line in rows[1:-2]).split() == ["•", "★", "•"]


def test_edits_without_a_time_stand_at_the_foot_where_no_time_is_drawn() -> None:
    points = [point(0, 1.0), point(1, None), point(2, None, mark=Mark.NO_TIME), point(3, None, mark=Mark.RUNNING)]
    rows = drawn(points)
    assert [sign for sign in rows[-3] if sign in "×·◌●"] == ["×", "·", "◌"]
    assert rows[0].split() == ["ms", "●", "edit", "×", "failed", "·", "no", "time", "◌", "under", "way"]


def test_a_time_far_beyond_the_others_is_counted_and_does_not_flatten_them() -> None:
    points = [point(0, 1.0), point(1, 1.2), point(2, 1.1), point(3, 300.0)]
    span = y_range(points)
    assert span is not None and span.high < 4
    rows = drawn(points)
    assert "▲1 slower, off the scale" in rows[0]
    assert rows[1][rows[-1].index("3")] == "▲"


def test_a_wide_interval_does_not_flatten_the_times() -> None:
    span = y_range([point(0, 1.0), EditPoint(1, 1.1, 0.00001, 30_000.0)])
    assert span is not None and 0 <= span.low < 1 and span.high < 3


def test_of_more_edits_than_columns_the_newest_are_drawn_or_those_around_the_chosen_one() -> None:
    points = [point(number, 1.0) for number in range(300)]
    shown, step = window(points, 50, None)
    assert (shown[0].number, shown[-1].number, step) == (275, 299, 2)
    shown, _ = window(points, 50, 100)
    assert 100 in [item.number for item in shown] and len(shown) == 25
    shown, _ = window(points, 50, 0)
    assert [item.number for item in shown] == list(range(25))
    rows = drawn(points, chosen=100)
    assert "of 300" in rows[0] and "[100]" in rows[-1]


@pytest.mark.parametrize("size", [(1, 1), (10, 2), (16, 3), (20, 4), (200, 60)])
def test_no_size_is_too_small(size: tuple[int, int]) -> None:
    points = [point(0, 1.0), point(1, None), point(2, 1e-6), point(3, 1e9)]
    for some in ([], points[:1], points[1:2], points):
        for chosen in (None, 0, 99):
            drawn(some, *size, chosen=chosen)


def test_ascii_draws_with_seven_bits() -> None:
    points = [point(0, 1.0, 0.5), point(1, None), point(2, 300.0), point(3, 1.0, mark=Mark.BEST)]
    frame = draw_edits(points, 60, 12, GraphStyle.ASCII, chosen=3)
    assert all(row.text.isascii() for row in frame.rows)
