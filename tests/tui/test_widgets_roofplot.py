"""The roofline plot and the bars: what they draw, cell by cell."""

from __future__ import annotations

import math

import pytest

from aisp.store.results.roofline import Roof
from aisp.tui.widgets.frames import Frame
from aisp.tui.widgets.glyphs import GraphStyle
from aisp.tui.widgets.roofplot import (
    DATASHEET,
    MEASURED,
    RoofPoint,
    bar_rows,
    draw_roofs,
    prefixed,
)

MEASURED_ROOF = Roof(True, 3.0e12, 700e12)
SHEET_ROOF = Roof(False, 3.35e12, 989e12)


def cells_of(frame: Frame, owner: int) -> dict[int, list[int]]:
    """Columns of an owner's cells, by row."""
    found = {}
    for number, row in enumerate(frame.rows[1:-2], 1):
        columns = [at for at, own in enumerate(row.owners) if own == owner and row.characters[at] not in " ⠀"]
        if columns:
            found[number] = columns
    return found


def test_measured_is_a_solid_line_and_the_datasheet_a_dashed_one_above_it() -> None:
    frame = draw_roofs([MEASURED_ROOF, SHEET_ROOF], [], 100, 30, GraphStyle.BRAILLE, intensity=1000.0)
    solid, dashed = cells_of(frame, MEASURED), cells_of(frame, DATASHEET)
    flat = max(solid.values(), key=len)
    assert flat == list(range(flat[0], flat[-1] + 1))
    top = min(dashed)
    columns = dashed[top]
    assert top < min(solid)
    gaps = set(range(columns[0], columns[-1] + 1)) - set(columns)
    assert len(gaps) >= len(columns) // 3
    assert "━━ measured" in frame.rows[0].text and "╍╍ datasheet" in frame.rows[0].text


def test_a_letter_stands_where_its_rate_and_intensity_are() -> None:
    points = [RoofPoint("A", 1000.0, 100e12), RoofPoint("B", 1000.0, 500e12)]
    frame = draw_roofs([MEASURED_ROOF], points, 100, 40, GraphStyle.BRAILLE, intensity=1000.0)
    rows = {letter: at for at, row in enumerate(frame.rows[1:-2], 1) for letter in "AB" if letter in row.characters[6:]}
    columns = {letter: frame.rows[at].characters.index(letter) for letter, at in rows.items()}
    labels = {row.text[:5].strip(): at for at, row in enumerate(frame.rows[1:-2], 1) if row.text[:5].strip()}
    assert rows["B"] == labels["500 T"] and rows["A"] == labels["100 T"]
    assert columns["A"] == columns["B"]
    assert abs(columns["A"] - (frame.rows[-1].text.index("1 k") + 1)) <= 1


@pytest.mark.parametrize("style", [GraphStyle.BRAILLE, GraphStyle.ASCII])
@pytest.mark.parametrize("size", [(80, 13), (80, 16), (100, 21), (200, 35)])
@pytest.mark.parametrize("rate", [300e12, 700e12, 989e12])
def test_a_letter_on_the_roof_stands_in_the_roofs_row(size: tuple[int, int], style: GraphStyle, rate: float) -> None:
    roof = Roof(True, 3.0e12, rate)
    frame = draw_roofs([roof], [RoofPoint("A", 1000.0, rate)], *size, style, intensity=1000.0)
    (row,) = (at for at, cells in enumerate(frame.rows[1:-2], 1) if "A" in cells.characters[6:])
    column = frame.rows[row].characters.index("A", 6)
    line = cells_of(frame, MEASURED)
    assert {column - 1, column + 1} <= set(line[row])


def test_rungs_that_are_alike_stand_beside_each_other() -> None:
    points = [RoofPoint("A", 1000.0, 400e12), RoofPoint("B", 1000.0, 401e12)]
    frame = draw_roofs([MEASURED_ROOF], points, 80, 24, GraphStyle.BRAILLE, intensity=1000.0)
    assert any("AB" in row.text for row in frame.rows)


def test_ascii_graphs_hold_nothing_but_ascii() -> None:
    points = [RoofPoint("A", 1000.0, 100e12)]
    frame = draw_roofs([MEASURED_ROOF, SHEET_ROOF], points, 80, 24, GraphStyle.ASCII, intensity=1000.0)
    assert all(row.text.isascii() for row in frame.rows)
    assert any(row.text.count("#") > 20 for row in frame.rows)


def test_without_a_roof_a_sentence_takes_the_place_of_the_plot() -> None:
    frame = draw_roofs([], [], 80, 12, GraphStyle.BRAILLE, empty="nothing is known")
    assert any("nothing is known" in row.text for row in frame.rows)
    assert {len(row.characters) for row in frame.rows} == {80}


@pytest.mark.parametrize("width", [1, 29, 30, 80, 200])
@pytest.mark.parametrize("height", [1, 4, 5, 24, 60])
def test_a_frame_has_the_size_that_was_asked_for(width: int, height: int) -> None:
    points = [RoofPoint("A", 0.5, 1e9), RoofPoint("B", 3000.0, 2e15)]
    frame = draw_roofs([MEASURED_ROOF, SHEET_ROOF], points, width, height, GraphStyle.BRAILLE, intensity=0.5)
    assert len(frame.rows) == height
    assert {len(row.characters) for row in frame.rows} == {len(row.owners) for row in frame.rows} == {width}


def test_ticks_are_round_numbers_with_their_prefixes() -> None:
    assert [prefixed(value) for value in (0.25, 50.0, 1e3, 5e14, 1e15)] == ["0.25", "50", "1 k", "500 T", "1 P"]


def test_bars_are_as_long_as_their_rates_and_the_roofs_stand_below() -> None:
    roofs = [Roof(True, 3.0e12, None), Roof(False, 4.0e12, None)]
    rows = bar_rows(roofs, [("A", "baseline", 1.0e12), ("B", "optimized", 2.0e12)], 100, ascii_only=True)
    texts = [row.plain for row in rows]
    lengths = [text.count("#") for text in texts[:2]]
    assert lengths[1] == pytest.approx(2 * lengths[0], abs=1)
    assert texts[0].startswith("A baseline") and texts[1].rstrip().endswith("2.00 TB/s")
    assert texts[2].startswith("measured") and texts[2].count("=") == pytest.approx(3 * lengths[0], abs=2)
    assert texts[3].startswith("datasheet") and "- -" in texts[3] and "=" not in texts[3]
    assert bar_rows([], [], 80, ascii_only=False) == []


def test_a_roof_of_unknown_arithmetic_is_only_its_slope() -> None:
    frame = draw_roofs([Roof(True, 3.0e12, None)], [], 80, 24, GraphStyle.BRAILLE, intensity=10.0)
    rows = cells_of(frame, MEASURED)
    tops = [min(rows[at]) for at in sorted(rows)]
    assert tops == sorted(tops, reverse=True) and len(rows) > 10
    assert math.isclose(MEASURED_ROOF.bandwidth_bytes_per_s or 0.0, 3.0e12)
