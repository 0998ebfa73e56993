"""Medians of a rung over its runs, with their intervals as error bars. Imports textual-plot and numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual_plot import PlotWidget


@dataclass(frozen=True, slots=True)
class Point:
    """One run's median and its 95 % interval, in ms; whether the run is marked."""

    median_ms: float
    low_ms: float | None
    high_ms: float | None
    marked: bool = False


class HistoryPlot(PlotWidget, inherit_bindings=False):  # type: ignore[misc, call-arg]
    """`show(name, points)` draws the points in order; the keys zoom and pan."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "zoom_in", "Zoom in", key_display="+", tooltip="Zoom into the plot."),
        Binding("minus", "zoom_out", "Zoom out", key_display="-", tooltip="Zoom out of the plot."),
        Binding("left,h", "pan_left", "Left", show=False, tooltip="Move the plot's window left."),
        Binding("right", "pan_right", "Right", show=False, tooltip="Move the plot's window right."),
        Binding("up,k", "pan_up", "Up", show=False, tooltip="Move the plot's window up."),
        Binding("down,j", "pan_down", "Down", show=False, tooltip="Move the plot's window down."),
        Binding("0", "reset_scales", "All", tooltip="Show all points again."),
    ]
    can_focus = True

    def show(self, points: Sequence[Point], *, ascii_only: bool) -> None:
        """Draw points numbered 1, 2, 3 in order; the y axis is ms."""
        self.clear()
        x = list(range(1, len(points) + 1))
        style = str(self.app.theme_variables.get("accent", "white"))
        plain = str(self.app.theme_variables.get("foreground", "white"))
        bars = [
            (at, point.low_ms, point.high_ms)
            for at, point in zip(x, points, strict=True)
            if point.low_ms is not None and point.high_ms is not None
        ]
        if bars:
            # The interval need not be symmetric: the bar is drawn about its own middle, the median on top of it.
            self.errorbar(
                [at for at, _, _ in bars],
                [(low + high) / 2 for _, low, high in bars],
                yerr=[(high - low) / 2 for _, low, high in bars],
                marker="|" if ascii_only else "│",
                marker_style=plain,
            )
        for marked, marker in ((False, "o" if ascii_only else "●"), (True, "*" if ascii_only else "◆")):
            if some := [(at, point.median_ms) for at, point in zip(x, points, strict=True) if point.marked is marked]:
                self.scatter([at for at, _ in some], [ms for _, ms in some], marker=marker, marker_style=style)
        values = [v for p in points for v in (p.median_ms, p.low_ms, p.high_ms) if v is not None]
        if values:
            margin = (max(values) - min(values) or max(values)) * 0.08
            self.set_ylimits(max(0.0, min(values) - margin), max(values) + margin)
            self.set_xlimits(0.5, len(points) + 0.5)
            step = max(1, round(len(points) / 8))
            self.set_xticks([float(at) for at in x[::step]])
        # Two rows more for the points than with labels; the pane's title says what the axes are.
        self.margin_top, self.margin_bottom = 1, 2
