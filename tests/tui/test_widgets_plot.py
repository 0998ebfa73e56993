"""The live plot: what it draws, cell by cell, and how little of it is repainted."""

from __future__ import annotations

import math
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from aisp.tui import themes
from aisp.tui.widgets.axes import Span, log_tick_labels, nice_step, robust_span, tick_labels
from aisp.tui.widgets.canvas import Row
from aisp.tui.widgets.frames import Frame, changed_columns
from aisp.tui.widgets.glyphs import GraphStyle
from aisp.tui.widgets.plot import Lane, LivePlot, Series, draw

RAMP = Series("up", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], mark="line")
FALL = Series("down", [0, 1, 2, 3, 4], [4, 3, 2, 1, 0])


class PlotApp(App[None]):
    """One plot that fills the screen."""

    def __init__(self, style: GraphStyle = GraphStyle.BRAILLE, empty: str = "no data yet") -> None:
        super().__init__()
        themes.register(self)
        self.theme = "aisp-dark"
        self.graph_style = style
        self.plot = LivePlot(empty=empty)

    def compose(self) -> ComposeResult:
        yield self.plot


def drawn(app: PlotApp) -> list[str]:
    """The screen as text, row by row, through the same call that the compositor makes."""
    return [app.plot.render_line(y).text for y in range(app.plot.size.height)]


def watch_refreshes(widget: Any, monkeypatch: pytest.MonkeyPatch) -> list[Region | None]:
    """Collect the regions of later refreshes; None stands for all of the widget."""
    seen: list[Region | None] = []
    original = widget.refresh

    def refresh(*regions: Region, **options: Any) -> Any:
        seen.extend(regions or (None,))
        return original(*regions, **options)

    monkeypatch.setattr(widget, "refresh", refresh)
    return seen


def test_a_line_and_dots_in_ascii_cell_by_cell() -> None:
    frame = draw([RAMP, FALL], 40, 8, GraphStyle.ASCII)
    assert [row.text for row in frame.rows] == [
        "ms  o up  x down                        ",
        "4+x                                ooooo",
        " |         x              ooooooooo     ",
        "2+              oooooxoooo              ",
        " |     ooooooooo              x         ",
        "0+ooooo                                x",
        " ++-----------------+------------------+",
        "  0                 2                4 s",
    ]


def test_a_line_in_braille_cell_by_cell() -> None:
    frame = draw([RAMP], 40, 8, GraphStyle.BRAILLE)
    assert [row.text for row in frame.rows] == [
        "ms  ● up                                ",
        "4┤                               ⣀⣀⠤⠤⠒⠒●",
        " │                       ⢀⣀⡠⠤⠔⠒⠉⠉       ",
        "2┤               ⢀⣀⣀⠤⠤⠒⠒⠉⠁              ",
        " │       ⣀⣀⠤⠤⠒⠒⠊⠉⠁                      ",
        "0┤⣀⠤⠤⠒⠒⠉⠉                               ",
        " └┬─────────────────┬──────────────────┬",
        "  0                 2                4 s",
    ]


def test_a_line_in_blocks_cell_by_cell() -> None:
    frame = draw([RAMP], 40, 8, GraphStyle.BLOCK)
    assert [row.text for row in frame.rows][1:6] == [
        "4┤                              ▗▄▄▄▄▞▀●",
        " │                       ▗▄▄▞▀▀▀▘       ",
        "2┤                 ▄▄▄▞▀▀▘              ",
        " │       ▗▄▄▄▄▀▀▀▀▀                     ",
        "0┤▄▄▞▀▀▀▀▘                              ",
    ]


@pytest.mark.parametrize("style", list(GraphStyle))
@pytest.mark.parametrize("size", [(1, 1), (5, 2), (10, 3), (20, 5), (40, 8), (80, 20), (200, 30), (250, 70)])
def test_every_row_is_as_wide_as_asked_at_every_size(style: GraphStyle, size: tuple[int, int]) -> None:
    width, height = size
    clock = Series("SM clock 幅", RAMP.x, [1980, 1980, 1410, 1980, 1980], mark="line")
    for series in ([RAMP, FALL, clock], [RAMP], []):
        frame = draw(series, width, height, style)
        assert [len(row.characters) for row in frame.rows] == [width] * height
        assert [len(row.owners) for row in frame.rows] == [width] * height
        if style is GraphStyle.ASCII and len(series) < 3:
            assert all(row.text.isascii() for row in frame.rows)


def test_one_outlier_in_a_thousand_does_not_flatten_the_rest_and_is_marked() -> None:
    values = [2.0 + 0.1 * math.sin(n) for n in range(1000)]
    values[500] = 400.0
    frame = draw([Series("t", list(range(1000)), values)], 80, 20, GraphStyle.BRAILLE)
    assert frame.left is not None and frame.left.high < 3
    assert frame.clipped == 1
    assert "▲1 off scale" in frame.rows[0].text
    # At the top edge, in the middle of the plot.
    assert 35 < frame.rows[1].text.index("▲") < 50
    assert "▲" not in "".join(row.text for row in frame.rows[2:])


def test_an_outlier_below_is_marked_at_the_bottom() -> None:
    values = [100.0 + n % 3 for n in range(400)]
    values[200] = 0.01
    frame = draw([Series("t", list(range(400)), values)], 80, 20, GraphStyle.ASCII)
    assert "v1 off scale" in frame.rows[0].text
    assert "v" in frame.rows[17].text


def test_two_levels_are_both_shown_even_when_one_has_few_points() -> None:
    many = Series("baseline", list(range(2000)), [10.0] * 2000)
    few = Series("optimized", [0, 500, 1000], [1.0, 1.0, 1.0])
    frame = draw([many, few], 80, 20, GraphStyle.BRAILLE)
    assert frame.clipped == 0
    assert frame.left is not None and frame.left.low <= 1.0 and frame.left.high >= 10.0


def test_what_must_not_stretch_the_axis_is_told_as_off_the_scale() -> None:
    kept = Series("optimized", list(range(40)), [10.0 + n % 3 for n in range(40)])
    aside = Series("set aside", [3, 9], [90.0, 11.0], mark="signs", stretches=False)
    frame = draw([kept, aside], 80, 20, GraphStyle.BRAILLE)
    assert frame.left is not None and frame.left.high < 20.0 and frame.clipped == 1
    alone = draw([aside], 80, 20, GraphStyle.BRAILLE)
    assert alone.left is not None and alone.left.high >= 90.0 and alone.clipped == 0


def test_nothing_is_clipped_while_there_are_too_few_values_to_tell() -> None:
    assert robust_span([1.0, 1.0, 90.0]) == Span(1.0, 90.0)


def test_a_spread_distribution_is_shown_whole() -> None:
    values = [float(n) for n in range(1000)]
    assert robust_span(values) == Span(0.0, 999.0)


def test_nan_and_infinity_are_gaps_in_a_line() -> None:
    broken = Series("clock", [0, 1, 2, 3, 4], [1, 1, math.nan, 1, 1], mark="line")
    rows = [row.text for row in draw([broken], 42, 10, GraphStyle.ASCII).rows]
    line = next(row for row in rows[1:] if "ooo" in row)
    middle = line.index("ooo") + 15
    assert " " * 15 in line[middle - 8 : middle + 12]
    endless = Series("t", [0, 1, 2], [1.0, math.inf, 2.0])
    frame = draw([endless], 40, 8, GraphStyle.ASCII)
    assert frame.left is not None and frame.left.high <= 2.5


@pytest.mark.parametrize(
    "series",
    [
        [],
        [Series("t", [], [])],
        [Series("t", [0.0, 1.0], [math.nan, math.nan])],
        [Series("t", [], [1.0])],
    ],
)
def test_without_points_a_sentence_stands_in_the_middle(series: list[Series]) -> None:
    rows = [row.text for row in draw(series, 40, 7, GraphStyle.BRAILLE, empty="waiting").rows]
    assert rows[3] == " " * 16 + "waiting" + " " * 17
    assert all(row == " " * 40 for number, row in enumerate(rows) if number != 3)


def test_a_single_point_and_a_constant_are_drawn() -> None:
    one = draw([Series("t", [3.0], [7.0])], 40, 8, GraphStyle.ASCII)
    assert sum(row.text.count("o") for row in one.rows[1:6]) == 1
    flat = draw([Series("t", [0.0, 1.0], [5.0, 5.0], mark="line")], 40, 8, GraphStyle.ASCII)
    assert sum("ooooo" in row.text for row in flat.rows[1:6]) == 1


def test_without_colour_every_series_is_told_by_its_sign() -> None:
    other = Series("other", [0, 1, 2, 3, 4], [1, 1, 1, 1, 1])
    mono = draw([FALL, other], 40, 12, GraphStyle.BRAILLE, mono=True)
    assert sum(row.text.count("○") for row in mono.rows[1:10]) == 5
    assert mono.rows[0].text.startswith("ms  ● down  ○ other")
    # With colour only the last point carries the sign.
    colour = draw([FALL, other], 40, 12, GraphStyle.BRAILLE)
    assert sum(row.text.count("○") for row in colour.rows[1:10]) == 1


def test_ticks_are_round_numbers() -> None:
    assert nice_step(10, 5) == 2
    assert nice_step(1, 4) == 0.25
    assert nice_step(0.03, 3) == pytest.approx(0.01)
    assert nice_step(99, 4) == 25
    assert [text for _, text in tick_labels(Span(0, 1), 4)] == ["0", "0.25", "0.50", "0.75", "1.00"]
    assert [text for _, text in tick_labels(Span(0, 20000), 4)] == ["0", "5k", "10k", "15k", "20k"]
    assert [text for _, text in tick_labels(Span(-1, 1), 2)] == ["-1", "0", "1"]
    assert [text for _, text in tick_labels(Span(1410, 1980), 3)] == ["1600", "1800"]
    assert [text for _, text in tick_labels(Span(0.17, 0.28), 2)] == ["0.20", "0.25"], "one alone tells no scale"


@pytest.mark.parametrize("label", ["s", "s, pauses folded"])
@pytest.mark.parametrize("width", [40, 61, 80, 133])
def test_the_unit_of_x_is_always_told(label: str, width: int) -> None:
    series = [Series("t", [float(x) for x in range(8)], [1.0] * 8)]
    numbers = draw(series, width, 12, GraphStyle.BRAILLE, x_label=label).rows[-1].text
    assert f" {label}" in numbers and len(numbers) == width
    assert numbers.split()[0] == "0"


def test_the_axis_holds_still_while_points_still_fit() -> None:
    first = draw([Series("t", [0.0, 1.0], [1.0, 1.9])], 80, 20, GraphStyle.BRAILLE)
    later = draw([Series("t", [0.0, 1.0, 1.0], [1.0, 1.9, 1.7])], 80, 20, GraphStyle.BRAILLE, before=first)
    assert (later.x, later.left) == (first.x, first.left)
    outside = draw([Series("t", [0.0, 1.0, 7.0], [1.0, 1.9, 5.0])], 80, 20, GraphStyle.BRAILLE, before=later)
    assert outside.left is not None and outside.left.high >= 5.0
    assert outside.x is not None and outside.x.high >= 7.0


def test_changed_columns_never_cut_a_wide_character() -> None:
    was = Row(["a", "漢", "", "b"], [0, 0, 0, 0])
    assert changed_columns(was, Row(["a", "漢", "", "b"], [0, 0, 0, 0])) is None
    assert changed_columns(was, Row(["a", "字", "", "b"], [0, 0, 0, 0])) == (1, 3)
    assert changed_columns(was, Row(["a", "漢", "", "b"], [0, 0, 0, 1])) == (3, 4)


@pytest.mark.parametrize("size", [(40, 8), (80, 20), (200, 30)])
async def test_the_widget_shows_what_draw_draws(size: tuple[int, int]) -> None:
    app = PlotApp()
    async with app.run_test(size=size) as pilot:
        app.plot.show([RAMP, FALL])
        await pilot.pause()
        expected = [row.text for row in draw([RAMP, FALL], *size, GraphStyle.BRAILLE).rows]
        assert drawn(app) == expected == app.plot.lines


async def test_the_same_data_again_repaints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = PlotApp()
    async with app.run_test(size=(80, 20)) as pilot:
        app.plot.show([RAMP, FALL])
        await pilot.pause()
        seen = watch_refreshes(app.plot, monkeypatch)
        app.plot.show([RAMP, FALL])
        assert seen == []


async def test_a_point_that_fits_repaints_only_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    app = PlotApp()
    async with app.run_test(size=(80, 20)) as pilot:
        app.plot.show([Series("t", [0.0, 1.0, 4.0], [0.0, 4.0, 2.0])])
        await pilot.pause()
        seen = watch_refreshes(app.plot, monkeypatch)
        # The last point stays the last, so its sign does not move.
        app.plot.show([Series("t", [0.0, 1.0, 2.0, 4.0], [0.0, 4.0, 3.0, 2.0])])
        assert len(seen) == 1
        region = seen[0]
        assert region is not None and (region.width, region.height) == (1, 1)


async def test_a_resize_draws_for_the_new_size() -> None:
    app = PlotApp()
    async with app.run_test(size=(80, 20)) as pilot:
        app.plot.show([RAMP])
        await pilot.pause()
        await pilot.resize_terminal(40, 8)
        await pilot.pause()
        assert drawn(app) == [row.text for row in draw([RAMP], 40, 8, GraphStyle.BRAILLE).rows]


async def test_data_shown_before_there_is_a_screen_appears_with_it() -> None:
    app = PlotApp(GraphStyle.ASCII)
    app.plot.show([RAMP])
    async with app.run_test(size=(40, 8)) as pilot:
        await pilot.pause()
        assert drawn(app)[1] == "4+                                 ooooo"


async def test_the_graph_style_can_be_changed_while_it_runs() -> None:
    app = PlotApp()
    async with app.run_test(size=(40, 8)) as pilot:
        app.plot.show([RAMP])
        app.graph_style = GraphStyle.BLOCK
        app.plot.redraw()
        await pilot.pause()
        assert drawn(app)[1].endswith("▗▄▄▄▄▞▀●")


async def test_without_colour_the_plot_renders_and_uses_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = PlotApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.plot.show([])
        await pilot.pause()
        app.plot.show([RAMP, FALL])
        await pilot.pause()
        assert app.no_color
        assert sum(line.count("○") for line in drawn(app)[1:]) == 5
        assert all(segment.style is not None for y in range(12) for segment in app.plot.render_line(y))


async def test_a_name_from_outside_cannot_reach_the_terminal() -> None:
    app = PlotApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.plot.show([Series("a\x1b]52;c;AAAA\x07[bold]b\n", [0.0, 1.0], [1.0, 2.0])])
        await pilot.pause()
        legend = drawn(app)[0]
        assert "\x1b" not in legend and "\x07" not in legend and "\n" not in legend
        assert "[bold]b" in legend


async def test_names_that_begin_alike_stay_apart_where_the_legend_is_short_of_room() -> None:
    app = PlotApp()
    names = ("baseline", "baseline_torch", "optimized", "swizzled_rows", "swizzled_columns", "A/A")
    async with app.run_test(size=(66, 12)) as pilot:
        app.plot.show([Series(name, [0.0, 1.0], [1.0, 2.0]) for name in names])
        await pilot.pause()
        shown = [part.split(" ")[1] for part in drawn(app)[0].split("  ") if " " in part.strip() and part[0] != " "]
        assert len(set(shown)) == len(names), drawn(app)[0]
        assert "…torch" in shown and "…rows" in shown and "…colu" in drawn(app)[0]
    app = PlotApp()
    async with app.run_test(size=(140, 12)) as pilot:
        app.plot.show([Series(name, [0.0, 1.0], [1.0, 2.0]) for name in names])
        await pilot.pause()
        assert all(name in drawn(app)[0] for name in names)


# -- lanes -------------------------------------------------------------------------------------------------


SECONDS = [number / 10 for number in range(101)]
TIMES = Series("baseline", SECONDS, [1.0 + 0.01 * (number % 5) for number in range(101)])


def lane(values: list[float], *more: Series, title: str = "SM clock MHz") -> Lane:
    return Lane(title, [Series("driver", SECONDS, values, mark="line"), *more])


def lane_rows(frame: Frame, at: int = 0) -> list[str]:
    """The rows of a lane's values, without its title."""
    texts = [row.text for row in frame.rows]
    heads = [number for number, text in enumerate(texts) if "├─" in text]
    end = heads[at + 1] if at + 1 < len(heads) else next(n for n, text in enumerate(texts) if "└" in text)
    return texts[heads[at] + 1 : end]


def drawn_columns(rows: list[str], left: int) -> set[int]:
    return {column for row in rows for column, sign in enumerate(row) if column > left and sign not in " │"}


def test_a_lane_has_the_columns_of_the_plot_above_it() -> None:
    step = [2000.0 if at < 4.0 else 1000.0 for at in SECONDS]
    frame = draw([TIMES], 80, 20, GraphStyle.BRAILLE, lanes=[lane(step)])
    rows = lane_rows(frame)
    axis = frame.rows[-2].text
    left, middle = axis.index("└"), frame.rows[-1].text.index("4")
    top, bottom = drawn_columns(rows[:1], left), drawn_columns(rows[-1:], left)
    assert abs(max(top) - middle) <= 1 and abs(min(bottom) - middle) <= 1
    assert rows[0].startswith("2000│") and rows[-1].startswith("1000│")


def test_an_unknown_reading_is_a_gap_in_a_lane_and_never_zero() -> None:
    values = [math.nan if 3.0 < at < 7.0 else 1980.0 for at in SECONDS]
    frame = draw([TIMES], 80, 20, GraphStyle.BRAILLE, lanes=[lane(values)])
    axis, numbers = frame.rows[-2].text, frame.rows[-1].text
    columns = drawn_columns(lane_rows(frame), axis.index("└"))
    assert not columns & set(range(numbers.index("4"), numbers.index("6") + 1))
    assert frame.lanes[0] is not None and frame.lanes[0].low > 1000


def test_flags_stand_in_a_row_of_their_own_while_they_hold() -> None:
    cap = Series("power cap", SECONDS, [math.nan if at < 2 else float(4 <= at < 6) for at in SECONDS], mark="flags")
    frame = draw([TIMES], 80, 20, GraphStyle.BRAILLE, lanes=[lane([1980.0] * 101, cap)])
    rows, numbers = lane_rows(frame), frame.rows[-1].text
    marks = {column for column, sign in enumerate(rows[-1]) if sign == "○"}
    assert marks == set(range(min(marks), max(marks) + 1))
    assert abs(min(marks) - numbers.index("4")) <= 1 and abs(max(marks) - numbers.index("6")) <= 1
    assert all("○" not in row for row in rows[:-1])


def test_as_many_lanes_are_drawn_as_leave_the_plot_its_rows() -> None:
    lanes = [lane([1.0] * 101, title=f"lane {number}") for number in range(4)]
    shown = {}
    for height in (6, 11, 14, 40):
        texts = [row.text for row in draw([TIMES], 80, height, GraphStyle.BRAILLE, lanes=lanes).rows]
        assert len(texts) == height
        shown[height] = [number for number in range(4) if any(f"lane {number}" in text for text in texts)]
        first = next((at for at, text in enumerate(texts) if "├─" in text), height)
        assert first - 1 >= 5 or height == 6
    assert shown == {6: [], 11: [0], 14: [0, 1], 40: [0, 1, 2, 3]}


def test_points_with_signs_are_told_apart_without_colour() -> None:
    aside = Series("set aside", [2.0, 5.0, 8.0], [1.02, 1.02, 1.02], mark="signs")
    frame = draw([TIMES, aside], 80, 12, GraphStyle.BRAILLE)
    assert sum(row.text.count("○") for row in frame.rows[1:]) == 3


def test_times_that_differ_twelvefold_share_a_logarithmic_axis_evenly_and_the_legend_says_log() -> None:
    slow = Series("baseline", [0.0, 1.0], [12.0, 12.0], mark="line")
    fast = Series("optimized", [0.0, 1.0], [1.0, 1.0], mark="line")
    middle = Series("half way", [0.0, 1.0], [12.0**0.5] * 2, mark="line")
    frame = draw([slow, fast, middle], 80, 23, GraphStyle.ASCII, log=True)
    rows = [row.text for row in frame.rows]
    assert rows[0].startswith("ms, log")
    at = [next(n for n, row in enumerate(rows[1:], 1) if sign in row[8:]) for sign in "ox+"]
    assert abs(at[2] - (at[0] + at[1]) / 2) <= 1
    assert [row.split("+")[0].strip() for row in rows[1:-2] if row[:2].strip()] == ["20", "10", "5", "2", "1"]


def test_ticks_of_a_logarithmic_axis() -> None:
    def texts(low: float, high: float, steps: int) -> list[str]:
        return [text for _, text in log_tick_labels(Span(math.log10(low), math.log10(high)), steps)]

    assert texts(0.1, 20, 5) == ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20"]
    assert texts(0.001, 1000, 4) == ["0.001", "0.1", "10", "1000"]
    assert texts(4.0, 4.4, 4) == ["4.0", "4.1", "4.2", "4.3", "4.4"]
    assert texts(5000, 50000, 4) == ["5000", "10k", "20k", "50k"]


def test_a_time_of_zero_is_a_gap_on_a_logarithmic_axis() -> None:
    frame = draw([Series("t", [0.0, 1.0, 2.0], [1.0, 0.0, 5.0])], 60, 12, GraphStyle.BRAILLE, log=True)
    assert frame.left is not None and math.isfinite(frame.left.low)
    assert frame.left.low <= 0.0 and frame.left.high >= math.log10(5)


def test_the_axis_is_of_what_is_usual_where_the_curve_is_of_extremes() -> None:
    """Of many samples the lowest and the highest of each dot are drawn: half of what is drawn may be outliers then."""
    spikes = [2.0 if at % 2 else 9.0 for at in range(200)]
    frame = draw([Series("t", list(range(200)), spikes, usual=[2.0] * 97 + [9.0] * 3)], 80, 20, GraphStyle.BRAILLE)
    assert frame.left is not None and frame.left.high < 3
    assert frame.clipped == 100 and "▲100 off scale" in frame.rows[0].text


def test_a_level_with_a_tenth_of_the_samples_is_no_outlier() -> None:
    values = [2.0 if at % 10 else 5.0 for at in range(500)]
    assert robust_span(values) == Span(2.0, 5.0)


def test_another_kind_of_axis_is_not_the_range_of_the_one_before() -> None:
    series = [Series("t", [0.0, 1.0], [2.0, 3.0])]
    linear = draw(series, 60, 12, GraphStyle.BRAILLE)
    log = draw(series, 60, 12, GraphStyle.BRAILLE, log=True, before=linear)
    assert log.left is not None and log.left.high < 1
    assert draw(series, 60, 12, GraphStyle.BRAILLE, before=log).left == linear.left
