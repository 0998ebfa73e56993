"""`aisp roofline`: how far each rung of a target's last run is from what this GPU can do at the target's
arithmetic intensity, against the datasheet's roofs and the measured ones.

What is shown is read in store.results.roofline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import repeating
from aisp.store.results.roofline import LOOK_BACK_RUNS, MEMORY, Roof, Roofline, newest, of_case, timed
from aisp.store.results.tables import Column, at, attributes, documents, fields
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import AnswerNoError
from aisp.tui.earlier import newest_first

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Arm, Run
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
    """Show the rungs of TARGET's last run on a GPU under that GPU's ceilings, measured and of the datasheet. Of a run's
    id it is that run.

    Exit status: 0; 1 no such run is stored, or nothing is known of its GPU; 2 no such target; 3 the store cannot be
    read, or matplotlib is not installed.
    """
    from aisp.store.record import Run

    meant = resolve.target_or_run(target_id, roots)
    chart = look(resolve.of_run(meant, roots, live=False), meant) if isinstance(meant, Run) else look(meant)
    if isinstance(chart, str):
        raise AnswerNoError(chart)
    if out is not None:
        from aisp.tui.cli.roofline_picture import draw  # matplotlib

        common.write_picture(out, partial(draw, chart))
    common.answer(as_json, lambda: _as_json(chart, out), lines, chart)


def look(target: Target, only: Run | None = None) -> Chart | str:
    """The chart of this run of the target, else of its newest timed one on a GPU, or why there is none."""
    with common.history() as opened:
        records = newest_first(opened, target.names, LOOK_BACK_RUNS) if only is None else [only]
        run = newest(records, opened.read)
        if run is None:
            makes = repeating.command("run", target.id, target.folder)
            if only is not None:
                return f"run {only.id} of {target.id} was not timed on a GPU; `{makes}` there makes one that is"
            return f"no timed run of {target.id} on a GPU is stored; `{makes}` makes one"
        facts = opened.facts(run.record)
        uuid = str(facts.get("gpu_uuid") or "")
        peak = next(iter(opened.peaks(uuid, 1)), None) if uuid else None
    found = of_case(target, run.record.case, str(facts.get("gpu") or ""), peak, measures="`aisp peak`")
    return found if isinstance(found, str) else Chart(target, run, found)


def lines(chart: Chart, *, width: int | None) -> list[str]:
    roofs, run = chart.roofs, chart.run.record
    over = "" if roofs.path == MEMORY else f" over {roofs.path}"
    work = f"{plain.quantity(roofs.bytes, 'bytes')} per call{over}"
    if roofs.flops > 0:
        work = f"{plain.quantity(roofs.flops, 'flop')} and {work}: {plain.number(roofs.intensity, 3)} flop/byte"
    of_roofs, of_points = roof_columns(roofs), point_columns(roofs)
    if roofs.flops <= 0:  # nothing stands in these columns
        of_roofs = [one for one in of_roofs if one.key in ("name", "bandwidth_bytes_per_s")]
        of_points = [one for one in of_points if one.key != "flops_per_s"]
    found = [
        clean_line(f"{chart.target.id}  {chart.target.title}"),
        "  ".join(part for part in (clean_line(roofs.gpu), f"case {roofs.case}", roofs.precision) if part),
        work,
        "",
        *plain.listing(of_roofs, roofs.roofs, width=width, tabs=False),
        "",
        *plain.listing(of_points, timed(chart.run), width=width, tabs=False),
        "",
        f"run {run.id} of {plain.local_time(run.wall)}"
        + (", quick" if run.quick else "")
        + (f", times {run.validity}" if run.validity.doubted else ""),
    ]
    found += [mark.sentence for mark in chart.run.bars]
    if not roofs.peak_wall:
        found.append("the ceilings of this GPU were not measured; `aisp peak` does")
    return found


def roof_columns(roofs: Roofline) -> list[Column[Roof]]:
    """The roofs of a chart as columns."""

    def height(roof: Roof) -> float | None:
        return roof.attainable(roofs.intensity)

    return [
        Column("name", "`datasheet` or `measured`", at("name"), "roof"),
        Column("bandwidth_bytes_per_s", "what the `path` carries at most", at("bandwidth_bytes_per_s"),
               roofs.path, lambda roof: plain.quantity(roof.bandwidth_bytes_per_s, "bytes/s"), right=True),
        Column("flops_per_s", "arithmetic at most", at("flops_per_s"),
               "arithmetic", lambda roof: plain.quantity(roof.flops_per_s, "flop/s"), right=True),
        Column("ridge", "flop per byte from which on arithmetic limits", at("ridge"),
               "ridge flop/byte", lambda roof: plain.number(roof.ridge, 3), right=True),
        Column("attainable", "its height at the case's intensity", height,
               "most here", lambda roof: plain.quantity(height(roof), roofs.unit), right=True),
    ]  # fmt: skip


def point_columns(roofs: Roofline) -> list[Column[Arm]]:
    """The rungs under the roofs of a chart as columns. A narrow terminal loses one rate first."""

    def flops(arm: Arm) -> float | None:
        return roofs.flops_per_s(arm.median_ms)

    def carried(arm: Arm) -> float | None:
        return roofs.bytes_per_s(arm.median_ms)

    def share(measured: bool) -> Callable[[Arm], float | None]:
        return lambda arm: roofs.share(arm, measured=measured)

    measured, datasheet = share(True), share(False)
    return [
        Column("rung", "the rung", at("rung"), "rung", shrink=True),
        Column("median_ms", "its time", at("median_ms"),
               "ms [low..high]", lambda arm: plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms)),
        *fields("", {"low_ms": "lower end of its 95 % interval", "high_ms": "upper end"}),
        Column("flops_per_s", "what it computes", flops,
               "arithmetic", lambda arm: plain.quantity(flops(arm), "flop/s"), right=True),
        Column("bytes_per_s", "what it carries", carried,
               roofs.path, lambda arm: plain.quantity(carried(arm), "bytes/s"), right=True, drop=int(roofs.flops > 0)),
        Column("share_of_measured", "of the measured roof", measured,
               "of measured", lambda arm: plain.percent(measured(arm)), right=True),
        Column("share_of_datasheet", "of the datasheet's", datasheet,
               "of datasheet", lambda arm: plain.percent(datasheet(arm)), right=True, drop=2),
    ]  # fmt: skip


def _as_json(chart: Chart, png: str | None) -> dict[str, Any]:
    roofs = chart.roofs
    return {
        "target": chart.target.id,
        "run_id": chart.run.id,
        "wall": chart.run.record.wall,
        **attributes(roofs, "case", "gpu", "path", "flops", "bytes", "intensity"),
        "precision": roofs.precision or None,
        "roofs": documents(roof_columns(roofs), roofs.roofs),
        "quarantined": [mark.as_json() for mark in chart.run.bars],
        "points": documents(point_columns(roofs), timed(chart.run)),
        "png": png,
    }


def labels_apart(wanted: Sequence[float], gap: float, ceiling: float = math.inf) -> list[float]:
    """Heights near `wanted`, in the same order of size, at least `gap` apart and none above `ceiling`."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    # Without the gaps heights must only ascend: labels that touch share their mean (pool adjacent violators).
    pools: list[tuple[float, int]] = []
    for place, i in enumerate(order):
        mean, size = wanted[i] - place * gap, 1
        while pools and pools[-1][0] > mean:
            below, many = pools.pop()
            mean, size = (below * many + mean * size) / (many + size), many + size
        pools.append((mean, size))
    means = [mean for mean, size in pools for _ in range(size)]
    heights = [0.0] * len(wanted)
    for place in reversed(range(len(order))):
        heights[order[place]] = height = min(means[place] + place * gap, ceiling)
        ceiling = height - gap
    return heights
