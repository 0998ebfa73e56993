"""A roofline as a PNG: log-log, measured roofs solid, the datasheet's dashed, every rung a labelled point with its
interval. A case without arithmetic is drawn as bars of bandwidth instead.

matplotlib is imported inside `sheet` and what draws on one, and nowhere else: it takes half a second, and only commands
that make a picture need it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisp.store.results.roofline import Roof, Roofline, timed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli.roofline import Chart, labels_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from aisp.store.record import Arm

INK, MUTED, GRID = "#1a1a1a", "#6b6b6b", "#d9d9d9"
# Told apart with every kind of colour vision (Okabe and Ito's, the last two darker), and dark enough for text on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#5B4A9E")
MARKERS = ("o", "s", "D", "^", "v", "P")
LABEL_GAP = 15.0
"""Points of 1/72 inch from one label's middle to the next."""


def draw(chart: Chart, file: str) -> None:
    """Write the picture. Raises ModuleNotFoundError without matplotlib, OSError where `file` cannot be written."""
    save(picture(chart), file)


def save(drawn: Figure, file: str) -> None:
    """Write a picture, "png" or "svg" as the name ends. Raises OSError where `file` cannot be written."""
    with Path(file).open("wb") as sink:
        drawn.savefig(sink, format=file[-3:])


def sheet(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """An empty picture of that size in inches, in the colours of all of them. Raises ModuleNotFoundError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # half a second: see the module
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelcolor=INK, which="both")
    axes.set_axisbelow(True)
    return figure, axes


def picture(chart: Chart) -> Figure:
    """The picture as matplotlib knows it. Raises ModuleNotFoundError without matplotlib."""
    figure, axes = sheet(9.0, 5.6)
    roofs, arms = chart.roofs, timed(chart.run)
    day = plain.local_time(chart.run.record.wall)[:10]
    axes.text(
        0, 1.075, clean_line(chart.target.id),
        transform=axes.transAxes, fontsize=13, weight="bold", color=INK, va="bottom", parse_math=False,
    )  # fmt: skip
    facts = [roofs.gpu, f"case {roofs.case}", roofs.precision, "quick run" if chart.run.record.quick else "", day]
    axes.set_title(
        clean_line("  ·  ".join(fact for fact in facts if fact)),
        loc="left", fontsize=9.5, color=MUTED, pad=9, parse_math=False,
    )  # fmt: skip
    if roofs.flops > 0:
        _roofline(axes, roofs, arms)
    else:
        _bandwidth(axes, roofs, arms)
    return figure


def _roofline(axes: Axes, roofs: Roofline, arms: Sequence[Arm]) -> None:
    from matplotlib.ticker import FuncFormatter  # imported with the figure already

    axes.set_xscale("log")
    axes.set_yscale("log")
    ridges = [roof.ridge for roof in roofs.roofs if roof.ridge]
    rates = [rate for arm in arms for rate in (roofs.bounds(arm) or (roofs.rate(arm.median_ms) or 0.0,))]
    left, right = min(roofs.intensity, *ridges, roofs.intensity) / 6, max(roofs.intensity, *ridges, roofs.intensity) * 6
    tops = [roof.flops_per_s for roof in roofs.roofs if roof.flops_per_s]
    tops += [roof.attainable(roofs.intensity) or 0.0 for roof in roofs.roofs]
    bottom = min(rates) / 4
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, max(*tops, *rates) * 2.5)
    axes.grid(True, which="major", color=GRID, linewidth=0.6)
    axes.set_xlabel("arithmetic intensity, flop/byte", color=INK)
    axes.set_ylabel(f"achieved in {roofs.precision}, FLOP/s", color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain.quantity(value, "flop/s", 1)))
    axes.axvline(roofs.intensity, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        f"{plain.number(roofs.intensity, 3)} flop/byte", (roofs.intensity, bottom),
        xytext=(5, 5), textcoords="offset points", color=MUTED, fontsize=8.5,
    )  # fmt: skip
    for number, arm in enumerate(arms):
        _point(axes, roofs, arm, number)
    _labels(axes, roofs, arms)  # may widen the picture, and the roofs' slopes on the paper with it
    for roof in roofs.roofs:
        _roof(axes, roof, roofs.intensity)


def _style(roof: Roof) -> dict[str, Any]:
    if roof.measured:
        return {"color": INK, "linewidth": 1.8, "linestyle": "-", "zorder": 3}
    return {"color": MUTED, "linewidth": 1.3, "linestyle": (0, (5, 3)), "zorder": 2}


def _on_paper(axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Where a place of the plot lies in the picture, in points of 1/72 inch."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    across, up = axes.transData.transform((x, y)) * 72 / figure.dpi
    return float(across), float(up)


def _roof(axes: Axes, roof: Roof, intensity: float) -> None:
    """One roof, its slope and its flat part labelled: the measured one below its lines, the datasheet's above."""
    left, right = axes.get_xlim()
    slope, top, ridge = roof.bandwidth_bytes_per_s, roof.flops_per_s, roof.ridge
    text: dict[str, Any] = {"fontsize": 8.5, "color": _style(roof)["color"], "zorder": 4}
    text["textcoords"] = "offset points"
    if slope is not None:
        end = right if ridge is None else ridge
        axes.plot([left, end], [left * slope, end * slope], **_style(roof))
        # Only what is inside of the picture has room for a label, and away from the rungs.
        begin = max(left, axes.get_ylim()[0] / slope)
        at = begin * (end / begin) ** (0.72 if intensity < math.sqrt(begin * end) else 0.3)
        (x0, y0), (x1, y1) = _on_paper(axes, begin, begin * slope), _on_paper(axes, end, end * slope)
        angle = math.atan2(y1 - y0, x1 - x0)
        away = (8 if roof.measured else 7) * (-1 if roof.measured else 1)
        axes.annotate(
            f"{roof.name} {plain.quantity(slope, 'bytes/s')}", (at, at * slope),
            xytext=(-math.sin(angle) * away, math.cos(angle) * away), rotation=math.degrees(angle),
            rotation_mode="anchor", ha="center", va="center", **text,
        )  # fmt: skip
    if top is not None:
        begin = left if ridge is None else ridge
        axes.plot([begin, right], [top, top], **_style(roof))
        axes.annotate(
            f"{roof.name} {plain.quantity(top, 'flop/s')}", (right, top), xytext=(-3, -9 if roof.measured else 8),
            ha="right", va="center", **text,
        )  # fmt: skip


def _point(axes: Axes, roofs: Roofline, arm: Arm, number: int) -> None:
    rate, bounds, intensity = roofs.rate(arm.median_ms), roofs.bounds(arm), roofs.intensity
    if rate is None:
        return
    colour = COLOURS[number % len(COLOURS)]
    if bounds is not None:
        axes.plot([intensity] * 2, bounds, color=colour, linewidth=2.4, solid_capstyle="butt", zorder=5)
    axes.plot(
        [intensity], [rate], MARKERS[number % len(MARKERS)], color=colour, markersize=7.5,
        markeredgecolor="white", markeredgewidth=0.9, zorder=6,
    )  # fmt: skip


def _labels(axes: Axes, roofs: Roofline, arms: Sequence[Arm]) -> None:
    """A label beside each point, spread where they would overlap, below the roofs, with a thin line to its point."""
    from matplotlib.text import Text

    figure = axes.get_figure(root=True)
    assert figure is not None
    shown = [(n, arm, rate) for n, arm in enumerate(arms) if (rate := roofs.rate(arm.median_ms)) is not None]
    labels = []
    for number, arm, rate in shown:
        share, kind = _share(roofs, arm)
        text = f"{arm.rung}  {plain.quantity(rate, 'flop/s')}"
        text += "" if share is None else f", {plain.percent(share)} of {kind}"
        labels.append(
            axes.annotate(
                text, (roofs.intensity, rate), xytext=(18, 0), textcoords="offset points",
                ha="left", va="center", fontsize=9, parse_math=False, color=COLOURS[number % len(COLOURS)], zorder=7,
                bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.9},
                arrowprops={
                    "arrowstyle": "-", "color": COLOURS[number % len(COLOURS)], "linewidth": 0.7,
                    "shrinkA": 0, "shrinkB": 3, "relpos": (0, 0.5),
                },
            )
        )  # fmt: skip
        labels[-1].set_in_layout(False)
    figure.draw_without_rendering()  # the layout decides where a place lies on the paper
    needed = max(Text.get_window_extent(label).width for label in labels) * 72 / figure.dpi + 24
    left, right = axes.get_xlim()
    across = [_on_paper(axes, x, 1.0)[0] for x in (left, roofs.intensity, right)]
    room = across[2] - across[1]
    if room < needed:
        # The part of the width behind the case's intensity must be as wide as its longest label.
        part = min(0.75, needed / (across[2] - across[0]))
        axes.set_xlim(left, roofs.intensity * (roofs.intensity / left) ** (part / (1 - part)))
    heights = [_on_paper(axes, roofs.intensity, rate)[1] for _, _, rate in shown]
    # Below the roofs; where one is flat its own label hangs from it.
    under = [
        _on_paper(axes, roofs.intensity, most)[1] - (24 if roofs.intensity >= (roof.ridge or 0) else 8)
        for roof in roofs.roofs
        if (most := roof.attainable(roofs.intensity))
    ]
    for label, height, at in zip(
        labels, heights, labels_apart(heights, LABEL_GAP, min(under, default=math.inf)), strict=True
    ):
        label.set_position((18, at - height))


def _share(roofs: Roofline, arm: Arm) -> tuple[float | None, str]:
    """What an arm reaches, of the measured roof where it is known, else of the datasheet's."""
    share = roofs.share(arm, measured=True)
    return (share, "measured") if share is not None else (roofs.share(arm, measured=False), "datasheet")


def _bandwidth(axes: Axes, roofs: Roofline, arms: Sequence[Arm]) -> None:
    """Bars of achieved bandwidth with the roofs as upright lines, for a case without arithmetic."""
    from matplotlib.ticker import FuncFormatter

    rates = [roofs.rate(arm.median_ms) or 0.0 for arm in arms]
    known = [(roof, roof.bandwidth_bytes_per_s) for roof in roofs.roofs if roof.bandwidth_bytes_per_s is not None]
    most = max([*rates, *(rate for _, rate in known)])
    axes.set_xlim(0, most * 1.22)
    axes.set_ylim(len(rates) - 0.4, -0.9)
    axes.set_xlabel("achieved bandwidth: least bytes of the case over the time", color=INK)
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: plain.quantity(value, "bytes/s", 2) if value else "0")
    )
    axes.grid(True, axis="x", color=GRID, linewidth=0.6)
    axes.set_yticks(range(len(rates)), [clean_line(arm.rung) for arm in arms], parse_math=False)
    axes.tick_params(axis="y", length=0)
    for number, (arm, rate) in enumerate(zip(arms, rates, strict=True)):
        bounds = roofs.bounds(arm)
        colour = COLOURS[number % len(COLOURS)]
        axes.barh(number, rate, height=0.52, color=colour, zorder=2)
        if bounds is not None:
            axes.plot(bounds, [number] * 2, color=INK, linewidth=1.6, solid_capstyle="butt", zorder=3)
        share, kind = _share(roofs, arm)
        text = plain.quantity(rate, "bytes/s") + ("" if share is None else f", {plain.percent(share)} of {kind}")
        inside = rate > 0.45 * most
        edge = rate if bounds is None else bounds[0 if inside else 1]
        axes.annotate(
            text, (edge, number), xytext=(-8 if inside else 8, 0), textcoords="offset points", va="center",
            ha="right" if inside else "left", fontsize=9, color="white" if inside else INK, zorder=4,
        )  # fmt: skip
    for roof, rate in known:
        axes.axvline(rate, **_style(roof))
    for roof, rate in known:
        at = 1 if rate == max(other for _, other in known) else -1  # the highest label to the right of its line
        axes.annotate(
            f"{roof.name} {plain.quantity(rate, 'bytes/s')}", (rate, -0.72), xytext=(5 * at, 0),
            textcoords="offset points", ha="left" if at > 0 else "right", va="center", fontsize=8.5,
            color=_style(roof)["color"],
        )  # fmt: skip
