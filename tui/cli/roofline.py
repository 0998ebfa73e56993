"""`aisp bench roofline`: how far each rung of a target's last run is from what this GPU can do at the target's
arithmetic intensity, against the datasheet's roofs and the measured ones.

Every rung of a case does the same work by definition, its flops and bytes, so all of them stand above one
intensity; how high says how fast. A case without arithmetic has no place on a roofline and is held against the
bandwidth alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aisp.engine.speed_of_light import MEMORY
from aisp.store.outcomes import State, Validity
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_NO, NotHereError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Peak

LOOK_BACK_RUNS = 200
"""How many of a target's runs are looked through for one that was timed on a GPU."""


@dataclass(frozen=True, slots=True)
class Roof:
    """What a GPU can do at most; None where it is not known. `measured` or else of the datasheet."""

    measured: bool
    bandwidth_bytes_per_s: float | None
    flops_per_s: float | None

    @property
    def name(self) -> str:
        """ "measured" or "datasheet"."""
        return "measured" if self.measured else "datasheet"

    @property
    def ridge(self) -> float | None:
        """Intensity, in flop/byte, above which arithmetic is the limit."""
        if self.bandwidth_bytes_per_s is None or self.flops_per_s is None:
            return None
        return self.flops_per_s / self.bandwidth_bytes_per_s

    def attainable(self, intensity: float) -> float | None:
        """flop/s at an intensity in flop/byte; bytes/s where the intensity is 0. None where a rate that it takes is
        not known."""
        if self.bandwidth_bytes_per_s is None:
            return None
        if intensity <= 0:
            return self.bandwidth_bytes_per_s
        if self.flops_per_s is None:
            return None
        return min(self.flops_per_s, intensity * self.bandwidth_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Point:
    """A rung's time with its interval, in ms, as rates."""

    rung: str
    median_ms: float
    low_ms: float | None
    high_ms: float | None
    flops: float
    bytes: float

    @property
    def flops_per_s(self) -> float | None:
        """Arithmetic that it did; None for a case without any."""
        return self.flops / self.median_ms * 1e3 if self.flops > 0 else None

    @property
    def bytes_per_s(self) -> float | None:
        """Traffic that its time is worth: the least bytes of the case over its time."""
        return self.bytes / self.median_ms * 1e3 if self.bytes > 0 else None

    @property
    def rate(self) -> float | None:
        """What is compared with a roof: flop/s, or bytes/s where there is no arithmetic."""
        return self.flops_per_s if self.flops > 0 else self.bytes_per_s

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The rate's interval, lowest first."""
        work = self.flops if self.flops > 0 else self.bytes
        if self.low_ms is None or self.high_ms is None:
            return None
        return work / self.high_ms * 1e3, work / self.low_ms * 1e3


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that a roofline shows. `intensity` in flop/byte; 0 for a case without arithmetic."""

    target: str
    title: str
    case: str
    gpu: str
    precision: str  # whose rates the roofs are, "bf16"; "" without arithmetic
    path: str  # what the bytes cross: "memory" of the GPU, "pcie", "nvlink"
    flops: float
    bytes: float  # over that path
    run: Reading
    peak_wall: str  # when the measured roofs were measured; "" where they were not
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]

    @property
    def intensity(self) -> float:
        """flop/byte of the case."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def rate_unit(self) -> str:
        """Unit of a point's rate."""
        return "flop/s" if self.flops > 0 else "bytes/s"

    def share(self, point: Point, *, measured: bool) -> float | None:
        """What a point reaches of a roof at this intensity; None where that roof is not known."""
        most = next((r.attainable(self.intensity) for r in self.roofs if r.measured == measured), None)
        return point.rate / most if point.rate and most else None


@click.command()
@click.argument("target_id", metavar="TARGET")
@click.option(
    "--png", metavar="FILE", type=click.Path(dir_okay=False), help="Draw it into this file too; needs matplotlib."
)
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, target_id: str, png: str | None, roots: tuple[str, ...], as_json: bool) -> None:
    """Show the rungs of TARGET's last run on a GPU under that GPU's ceilings, measured and of the datasheet.

    Exit status: 0; 1 no such run is stored, or nothing is known of its GPU; 2 no such target; 3 the store cannot be
    read, or matplotlib is not installed.
    """
    target = common.find_target(common.load_catalog(roots), target_id)
    chart, why = look(target)
    if chart is None:
        common.note(f"aisp: {clean_line(why, limit=1000)}")
        ctx.exit(EXIT_NO)
    if png is not None:
        from aisp.tui.cli.roofline_picture import draw

        try:
            draw(chart, png)
        except ModuleNotFoundError:
            raise NotHereError("a picture needs matplotlib; `pip install matplotlib`, or leave --png out") from None
        except OSError as error:
            raise click.UsageError(f"{clean_line(png)} cannot be written: {error.strerror or error}") from None
    if as_json:
        common.say_document(as_document(chart, png))
    else:
        common.say("\n".join(lines(chart, width=common.terminal_width())))


def look(target: Target) -> tuple[Chart | None, str]:
    """The chart of the target's newest timed run on a GPU, or None and why there is none."""
    from aisp.tui.cli import stored  # the store and numpy

    with stored.history() as opened:
        kept = stored.marks()
        for record in opened.newest(LOOK_BACK_RUNS, target.id, all_findings=False):
            run = stored.view(record, kept)
            timed = bool(points(run, 0.0, 0.0))
            if run.record.state == State.OK and run.record.device.startswith("cuda") and timed:
                facts = stored.environment(opened, record)
                uuid = str(facts.get("gpu_uuid") or "")
                peak = next(iter(opened.peaks(uuid, 1)), None) if uuid else None
                return chart(target, run, facts, peak)
    return None, f"no timed run of {target.id} on a GPU is stored; `aisp bench run --targets {target.id}` makes one"


def chart(target: Target, run: Reading, facts: Mapping[str, object], peak: Peak | None) -> tuple[Chart | None, str]:
    """The chart of one run, or None and why there is none.

    Args:
        target: as the catalogue has it now.
        run: a timed run of it.
        facts: the run's environment.
        peak: ceilings measured on its GPU.
    """
    from aisp.engine import speed_of_light as sol  # pure, and only where there is a run to show

    gpu = str(facts.get("gpu") or "")
    try:
        case = target.case(run.record.case)
    except LookupError as error:
        return None, f"run {run.id} was of a case that is gone: {error.args[0]}"
    work = sol.work(target, case)
    if work.bytes <= 0 and not work.directions:
        return None, f"case {case.name} of {target.id} states no bytes, so it stands nowhere on a roofline"
    found = sol.roofline(target, case, gpu, peak)
    roofs = []
    if found is not None:
        both = [
            Roof(True, found.measured_bandwidth, found.measured_flops),
            Roof(False, found.spec_bandwidth, found.spec_flops),
        ]
        roofs = [roof for roof in both if roof.bandwidth_bytes_per_s or roof.flops_per_s]
    if found is None or not roofs:
        name = gpu or "the GPU of that run"
        return None, f"nothing is known of {name}: it has no datasheet here; `aisp bench peak` measures its ceilings"
    return Chart(
        target=target.id,
        title=target.title,
        case=case.name,
        gpu=gpu,
        precision=found.precision,
        path=found.path,
        flops=found.flops,
        bytes=found.bytes,
        run=run,
        peak_wall=peak.wall if peak and any(roof.measured for roof in roofs) else "",
        roofs=tuple(roofs),
        points=points(run, found.flops, found.bytes),
    ), ""


def points(run: Reading, flops: float, bytes_moved: float) -> tuple[Point, ...]:
    """The timed rungs of a run, in its order, without the A/A arm and without those that are marked."""
    return tuple(
        Point(arm.rung, arm.median_ms, arm.low_ms, arm.high_ms, flops, bytes_moved)
        for arm in run.record.arms
        if arm.median_ms is not None and not arm.twin and run.bar(arm.rung) is None
    )


def lines(chart: Chart, *, width: int | None) -> list[str]:
    """The chart for people."""
    unit = chart.rate_unit
    over = "" if chart.path == MEMORY else f" over {chart.path}"
    work = f"{plain.quantity(chart.bytes, 'bytes')} per call{over}"
    if chart.flops > 0:
        work = f"{plain.quantity(chart.flops, 'flop')} and {work}: "
        work += f"{plain.number(chart.intensity, 3)} flop/byte"
    roofs = [
        [
            roof.name,
            plain.quantity(roof.bandwidth_bytes_per_s, "bytes/s"),
            plain.quantity(roof.flops_per_s, "flop/s"),
            plain.number(roof.ridge, 3),
            plain.quantity(roof.attainable(chart.intensity), unit),
        ]
        for roof in chart.roofs
    ]
    rows = [
        [
            clean_line(point.rung),
            plain.milliseconds(point.median_ms, point.low_ms, point.high_ms),
            plain.quantity(point.flops_per_s, "flop/s"),
            plain.quantity(point.bytes_per_s, "bytes/s"),
            plain.percent(chart.share(point, measured=True)),
            plain.percent(chart.share(point, measured=False)),
        ]
        for point in chart.points
    ]
    heads = ["roof", chart.path, "arithmetic", "ridge flop/byte", "most here"]
    point_heads = ["rung", "ms [low..high]", "arithmetic", chart.path, "of measured", "of datasheet"]
    # On a narrow terminal the rate that the roof is not about goes first.
    drop = [chart.path, "of datasheet"]
    if chart.flops <= 0:  # nothing stands in these columns
        heads, roofs = heads[:2], [row[:2] for row in roofs]
        point_heads, rows = _without(point_heads, 2), [_without(row, 2) for row in rows]
        drop = ["of datasheet"]
    found = [
        clean_line(f"{chart.target}  {chart.title}"),
        "  ".join(clean_line(part) for part in (chart.gpu, f"case {chart.case}", chart.precision) if part),
        work,
        "",
        *plain.table(heads, roofs, right=heads[1:], width=width),
        "",
        *plain.table(point_heads, rows, right=point_heads[2:], width=width, shrink="rung", drop=drop),
        "",
        f"run {clean_line(chart.run.id)} of {plain.local_time(chart.run.record.wall)}"
        + (", quick" if chart.run.record.quick else "")
        + (
            f", times {chart.run.record.validity}"
            if chart.run.record.validity in (Validity.SUSPECT, Validity.CAUGHT)
            else ""
        ),
    ]
    found += [clean_line(mark.sentence, limit=2000) for mark in chart.run.bars]
    if not chart.peak_wall:
        found.append("the ceilings of this GPU were not measured; `aisp bench peak` does")
    return found


def _without(row: Sequence[str], column: int) -> list[str]:
    return [*row[:column], *row[column + 1 :]]


def as_document(chart: Chart, png: str | None) -> dict[str, Any]:
    """The chart for JSON; the schema is in docs/commands.md."""
    return {
        "target": chart.target,
        "run_id": chart.run.id,
        "wall": chart.run.record.wall,
        "case": chart.case,
        "gpu": chart.gpu,
        "precision": chart.precision or None,
        "path": chart.path,
        "flops": chart.flops,
        "bytes": chart.bytes,
        "intensity": chart.intensity,
        "roofs": [
            {
                "name": roof.name,
                "bandwidth_bytes_per_s": roof.bandwidth_bytes_per_s,
                "flops_per_s": roof.flops_per_s,
                "ridge": roof.ridge,
                "attainable": roof.attainable(chart.intensity),
            }
            for roof in chart.roofs
        ],
        "quarantined": [mark.as_json() for mark in chart.run.bars],
        "points": [
            {
                "rung": point.rung,
                "median_ms": point.median_ms,
                "low_ms": point.low_ms,
                "high_ms": point.high_ms,
                "flops_per_s": point.flops_per_s,
                "bytes_per_s": point.bytes_per_s,
                "share_of_measured": chart.share(point, measured=True),
                "share_of_datasheet": chart.share(point, measured=False),
            }
            for point in chart.points
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
