"""`aisp roofline`: how far each rung of a target's last run is from what this GPU can do at the target's
arithmetic intensity, against the datasheet's roofs and the measured ones.

What is shown is read in store.results.roofline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import repeating
from aisp.store.results.roofline import LOOK_BACK_RUNS, MEMORY, Roofline, newest, of_case, timed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import AnswerNoError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.results.reading import Reading


@dataclass(frozen=True, slots=True)
class Chart:
    """A run of a target under the roofs of its GPU."""

    target: Target
    run: Reading
    roofs: Roofline


@click.command()
@common.target_argument
@common.picture_option
@common.root_option
@common.json_option
def command(target_id: str, out: str | None, roots: tuple[str, ...], as_json: bool) -> None:
    """Show the rungs of TARGET's last run on a GPU under that GPU's ceilings, measured and of the datasheet.

    Exit status: 0; 1 no such run is stored, or nothing is known of its GPU; 2 no such target; 3 the store cannot be
    read, or matplotlib is not installed.
    """
    target = resolve.target(target_id, roots)
    chart = look(target)
    if isinstance(chart, str):
        raise AnswerNoError(clean_line(chart, limit=1000))
    if out is not None:
        common.write_picture(out, lambda file: _draw(chart, file))
    common.answer(as_json, lambda: as_document(chart, out), lines, chart)


def _draw(chart: Chart, file: str) -> None:
    from aisp.tui.cli.roofline_picture import draw  # matplotlib

    draw(chart, file)


def look(target: Target) -> Chart | str:
    """The chart of the target's newest timed run on a GPU, or why there is none."""
    from aisp.tui.cli import stored  # the store and numpy

    with stored.history() as opened:
        run = newest(opened.newest(LOOK_BACK_RUNS, target.id, all_findings=False), opened.read)
        if run is None:
            makes = repeating.command("run", target.id, target.folder)
            return f"no timed run of {target.id} on a GPU is stored; `{makes}` makes one"
        facts = opened.facts(run.record)
        uuid = str(facts.get("gpu_uuid") or "")
        peak = next(iter(opened.peaks(uuid, 1)), None) if uuid else None
    found = of_case(target, run.record.case, str(facts.get("gpu") or ""), peak, measures="`aisp peak`")
    return found if isinstance(found, str) else Chart(target, run, found)


def lines(chart: Chart, *, width: int | None) -> list[str]:
    """The chart for people."""
    roofs, run = chart.roofs, chart.run.record
    over = "" if roofs.path == MEMORY else f" over {roofs.path}"
    work = f"{plain.quantity(roofs.bytes, 'bytes')} per call{over}"
    if roofs.flops > 0:
        work = f"{plain.quantity(roofs.flops, 'flop')} and {work}: {plain.number(roofs.intensity, 3)} flop/byte"
    known = [
        [
            roof.name,
            plain.quantity(roof.bandwidth_bytes_per_s, "bytes/s"),
            plain.quantity(roof.flops_per_s, "flop/s"),
            plain.number(roof.ridge, 3),
            plain.quantity(roof.attainable(roofs.intensity), roofs.unit),
        ]
        for roof in roofs.roofs
    ]
    rows = [
        [
            clean_line(arm.rung),
            plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
            plain.quantity(roofs.flops_per_s(arm.median_ms), "flop/s"),
            plain.quantity(roofs.bytes_per_s(arm.median_ms), "bytes/s"),
            plain.percent(roofs.share(arm, measured=True)),
            plain.percent(roofs.share(arm, measured=False)),
        ]
        for arm in timed(chart.run)
    ]
    heads = ["roof", roofs.path, "arithmetic", "ridge flop/byte", "most here"]
    point_heads = ["rung", "ms [low..high]", "arithmetic", roofs.path, "of measured", "of datasheet"]
    # On a narrow terminal the rate that the roof is not about goes first.
    drop = [roofs.path, "of datasheet"]
    if roofs.flops <= 0:  # nothing stands in these columns
        heads, known = heads[:2], [row[:2] for row in known]
        point_heads, rows = _without(point_heads, 2), [_without(row, 2) for row in rows]
        drop = ["of datasheet"]
    found = [
        clean_line(f"{chart.target.id}  {chart.target.title}"),
        "  ".join(clean_line(part) for part in (roofs.gpu, f"case {roofs.case}", roofs.precision) if part),
        work,
        "",
        *plain.table(heads, known, right=heads[1:], width=width),
        "",
        *plain.table(point_heads, rows, right=point_heads[2:], width=width, shrink="rung", drop=drop),
        "",
        f"run {clean_line(run.id)} of {plain.local_time(run.wall)}"
        + (", quick" if run.quick else "")
        + (f", times {run.validity}" if run.validity.doubted else ""),
    ]
    found += [clean_line(mark.sentence, limit=2000) for mark in chart.run.bars]
    if not roofs.peak_wall:
        found.append("the ceilings of this GPU were not measured; `aisp peak` does")
    return found


def _without(row: Sequence[str], column: int) -> list[str]:
    return [*row[:column], *row[column + 1 :]]


def as_document(chart: Chart, png: str | None) -> dict[str, Any]:
    """The chart for JSON; the schema is in docs/commands.md."""
    roofs = chart.roofs
    return {
        "target": chart.target.id,
        "run_id": chart.run.id,
        "wall": chart.run.record.wall,
        "case": roofs.case,
        "gpu": roofs.gpu,
        "precision": roofs.precision or None,
        "path": roofs.path,
        "flops": roofs.flops,
        "bytes": roofs.bytes,
        "intensity": roofs.intensity,
        "roofs": [
            {
                "name": roof.name,
                "bandwidth_bytes_per_s": roof.bandwidth_bytes_per_s,
                "flops_per_s": roof.flops_per_s,
                "ridge": roof.ridge,
                "attainable": roof.attainable(roofs.intensity),
            }
            for roof in roofs.roofs
        ],
        "quarantined": [mark.as_json() for mark in chart.run.bars],
        "points": [
            {
                "rung": arm.rung,
                "median_ms": arm.median_ms,
                "low_ms": arm.low_ms,
                "high_ms": arm.high_ms,
                "flops_per_s": roofs.flops_per_s(arm.median_ms),
                "bytes_per_s": roofs.bytes_per_s(arm.median_ms),
                "share_of_measured": roofs.share(arm, measured=True),
                "share_of_datasheet": roofs.share(arm, measured=False),
            }
            for arm in timed(chart.run)
        ],
        "png": png,
    }


def labels_apart(wanted: Sequence[float], gap: float, ceiling: float = math.inf) -> list[float]:
    """Heights near `wanted`, in the same order of size, at least `gap` apart and none above `ceiling`."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    # Labels that touch are spread around their common middle; two such runs that then touch become one.
    clusters: list[list[int]] = []
    middles: list[float] = []
    for i in order:
        clusters.append([i])
        middles.append(wanted[i])
        while len(clusters) > 1 and _end(clusters, middles, -1, -1, gap) < _end(clusters, middles, -2, 1, gap) + gap:
            merged = clusters.pop(-2) + clusters.pop()
            middles[-2:] = [sum(wanted[k] for k in merged) / len(merged)]
            clusters.append(merged)
    heights = [0.0] * len(wanted)
    for cluster, middle in zip(clusters, middles, strict=True):
        for place, i in enumerate(cluster):
            heights[i] = middle + (place - (len(cluster) - 1) / 2) * gap
    for i in reversed(order):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    return heights


def _end(clusters: Sequence[Sequence[int]], middles: Sequence[float], which: int, way: int, gap: float) -> float:
    """Height of a cluster's last (way 1) or first (way -1) label."""
    return middles[which] + way * (len(clusters[which]) - 1) / 2 * gap
