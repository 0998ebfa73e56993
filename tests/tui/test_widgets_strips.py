"""How each arm's times are distributed against the baseline's, cell by cell."""

from __future__ import annotations

import pytest

from aisp.tui.widgets.glyphs import GraphStyle
from aisp.tui.widgets.strips import Distribution, draw, place

BASE = Distribution("baseline", 0, [1.0 + 0.001 * (n % 7 - 3) for n in range(70)])


def rows(*items: Distribution, floor: float | None = 0.004, width: int = 100, ascii: bool = True) -> list[str]:
    style = GraphStyle.ASCII if ascii else GraphStyle.BRAILLE
    return [row.text for row in draw(items, floor, width, len(items) + 2, style).rows]


def shifted(name: str, number: int, by: float) -> Distribution:
    return Distribution(name, number, [ratio * by for ratio in BASE.ratios])


def test_one_percent_is_told_apart_from_the_baseline_beside_an_arm_that_is_twelvefold() -> None:
    drawn = rows(BASE, shifted("little", 1, 0.99), shifted("much", 2, 1 / 12))
    at = [row.index(sign, 14) for row, sign in zip(drawn[1:4], "ox+", strict=True)]
    assert at[0] - at[1] >= 4, "a percent is some cells"
    assert at[1] - at[2] >= 20
    assert not set(drawn[2][14:]) & set(drawn[1][at[1] - 1 : at[1] + 2]) - {" ", "_", "|"} or at[1] < at[0]


def test_the_noise_floor_is_a_band_around_the_baseline_and_its_size_is_told() -> None:
    title, base, other, axis = rows(BASE, shifted("other", 1, 0.5))
    assert title == "times against the baseline's median  < faster, slower >  [_] noise floor 0.4 %".ljust(100)
    band = [column for column, sign in enumerate(other) if sign == "_"]
    assert band == list(range(band[0], band[-1] + 1))
    assert base.index("o", 14) in range(band[0], band[-1])
    zero = axis.index(" 0 ") + 1
    assert abs((band[0] + band[-1]) / 2 - zero) <= 1


def test_without_a_floor_there_is_no_band() -> None:
    assert not any("_" in row for row in rows(BASE, shifted("other", 1, 0.5), floor=None))


def test_near_the_baseline_the_axis_tells_percent_and_far_from_it_factors() -> None:
    axis = rows(BASE, shifted("much", 1, 1 / 12), width=120)[-1].split()
    assert "10x" in axis and "2x" in axis and "-1" in axis and "+1" in axis and "0" in axis
    assert axis.index("10x") < axis.index("2x") < axis.index("-1") < axis.index("0") < axis.index("+1")


@pytest.mark.parametrize("width", [24, 40, 80, 200])
@pytest.mark.parametrize("style", GraphStyle)
def test_every_row_is_as_wide_as_asked(style: GraphStyle, width: int) -> None:
    frame = draw([BASE, shifted("a long name of a rung that goes on", 1, 0.3)], 0.01, width, 5, style)
    assert {len(row.characters) for row in frame.rows} == {width} and len(frame.rows) == 5
    assert style is not GraphStyle.ASCII or all(row.text.isascii() for row in frame.rows)


def test_the_range_holds_still_while_what_comes_still_fits() -> None:
    first = draw([BASE, shifted("other", 1, 0.5)], 0.01, 80, 4, GraphStyle.BRAILLE)
    later = draw([BASE, shifted("other", 1, 0.505)], 0.01, 80, 4, GraphStyle.BRAILLE, before=first)
    assert later.x == first.x
    assert draw([BASE, shifted("other", 1, 0.2)], 0.01, 80, 4, GraphStyle.BRAILLE, before=later).x != first.x


def test_nothing_to_show_and_no_room_draw_nothing() -> None:
    assert [row.text.strip() for row in draw([], 0.01, 80, 3, GraphStyle.BRAILLE).rows] == ["", "", ""]
    assert draw([BASE], 0.01, 0, 0, GraphStyle.BRAILLE).rows == []


def test_the_axis_is_linear_in_the_floor_and_the_same_on_both_sides() -> None:
    assert place(1.0, 0.01) == 0.0
    assert place(2.0, 0.01) == pytest.approx(-place(0.5, 0.01))


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_arms_name_stands_whole_and_one_that_has_no_room_ends_with_the_sign_of_a_cut(width: int) -> None:
    whole = rows(BASE, shifted("baseline_pad_sequence", 1, 0.3), width=width)[2]
    assert whole.startswith("x baseline_pad_sequence |")
    cut = rows(BASE, shifted("baseline_pad_sequence_" + "x" * width, 1, 0.3), width=width)[2]
    assert cut.partition(" |")[0].endswith("x~")
