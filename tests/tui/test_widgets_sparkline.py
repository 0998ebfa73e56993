"""A history in a row of cells: heights, what is unsure, and what belongs on no common scale."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.style import Style

from aisp.tui.widgets.sparkline import Spot, scale_of, sparkline

PLAIN, NEWEST, BAND = Style(), Style(bold=True), Style(italic=True)


def drawn(spots: Sequence[Spot], width: int = 20, *, ascii: bool = False) -> str:
    return sparkline(spots, width, style=PLAIN, newest=NEWEST, band=BAND, ascii=ascii).plain


def spot(time_ms: float, spread: float = 0.001) -> Spot:
    """A run with an interval of this share of its time."""
    return Spot(time_ms, time_ms * (1 - spread / 2), time_ms * (1 + spread / 2))


@pytest.mark.parametrize(
    ("times", "cells"),
    [
        ((), ""),
        ((1.0,), "▅"),
        ((1.0, 2.0), "▁█"),
        ((2.0, 1.0, 2.0**0.5), "█▁▅"),
        ((1.0, 1.005, 1.0), "▄▅▄"),  # half a per cent is no cliff
    ],
)
def test_the_taller_the_slower(times: Sequence[float], cells: str) -> None:
    assert drawn([spot(time) for time in times]) == cells


def test_noise_does_not_look_like_a_cliff() -> None:
    cells = drawn([spot(time, spread=0.3) for time in (1.0, 1.05, 0.98, 1.02)])
    assert max(cells) <= "▅" and min(cells) >= "▄"


def test_a_band_lies_under_what_is_unsure_by_more_than_a_step() -> None:
    text = sparkline(
        [spot(1.0), spot(2.0, spread=0.5), Spot(1.5, None, None), spot(1.2)],
        20, style=PLAIN, newest=NEWEST, band=BAND, ascii=False,
    )  # fmt: skip
    unsure = [span for span in text.spans if isinstance(span.style, Style) and span.style.italic]
    banded = {at for span in unsure for at in range(span.start, span.end)}
    assert banded == {1, 2}


def test_what_is_not_comparable_has_no_height_and_does_not_stretch_the_scale() -> None:
    apart = Spot(500.0, 499.0, 501.0, apart=True)
    assert drawn([apart, spot(1.0), spot(2.0)]) == "·▁█"
    assert drawn([apart, spot(1.0), spot(2.0)], ascii=True) == "_.%"
    assert scale_of([apart]) is None and drawn([apart]) == "·"


def test_a_run_without_a_time_is_marked_and_the_oldest_give_way() -> None:
    nothing = Spot(None, None, None)
    assert drawn([spot(1.0), nothing, spot(2.0)]) == "▁!█"
    assert drawn([spot(9.0), spot(1.0), spot(2.0)], width=2) == "▁█"
    assert drawn([spot(1.0)], width=0) == ""
