"""The rows of the benchmark, the machine they were taken on, and both as a table, as Markdown and as JSON.

A row is one quantity: its samples, or a single reading. What could not be measured is a dash with the reason, and a
dash is neither met nor missed.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS, LINES = 120, 40
DASH = "–"


def percentile(samples: Sequence[float], percent: float) -> float:
    """Linear between the two nearest ranks, as numpy's default; `samples` in any order, not empty."""
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("no samples: nothing was measured")
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a row should stay under.

    Attributes:
        limit: in the row's unit.
        of: which column is held against it: "p50" or "p95".
    """

    limit: float
    of: str = "p95"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        group: the benchmark that took it, a name for `--only`.
        what: the quantity in words.
        unit: of the samples: "ms", "s", "us", "kB/s", "% of a core", "MB", "1/s".
        samples: in the order taken; empty where nothing could be measured.
        aim: None where there is none.
        note: the reason for a dash, or what a reader must know.
        before: the median of the last sitting on this kind of machine; None where there was none.
    """

    group: str
    what: str
    unit: str
    samples: tuple[float, ...] = ()
    aim: Aim | None = None
    note: str = ""
    before: float | None = None

    @property
    def p50(self) -> float | None:
        """Median, None where nothing was measured."""
        return percentile(self.samples, 50) if self.samples else None

    @property
    def p95(self) -> float | None:
        """95th percentile, None for fewer than two samples."""
        return percentile(self.samples, 95) if len(self.samples) > 1 else None

    @property
    def met(self) -> bool | None:
        """Whether the aim was met; None without an aim, or without a number to hold against it."""
        if self.aim is None or not self.samples:
            return None
        value = self.p95 if self.aim.of == "p95" and self.p95 is not None else self.p50
        return value is not None and value <= self.aim.limit

    def cells(self) -> list[str]:
        """What, p50, p95, n, p50 over that of the last sitting, aim, verdict, note."""
        aim = f"{self.aim.of} ≤ {number(self.aim.limit)}" if self.aim is not None else ""
        verdict = {None: DASH if self.aim is not None else "", True: "met", False: "MISSED"}[self.met]
        return [
            self.what,
            _with_unit(self.p50, self.unit),
            _with_unit(self.p95, self.unit),
            str(len(self.samples)) if self.samples else DASH,
            f"{self.p50 / self.before:.2f}x" if self.p50 is not None and self.before else "",
            aim,
            verdict,
            self.note,
        ]

    def document(self) -> dict[str, object]:
        """The same as plain data."""
        return {
            "group": self.group,
            "what": self.what,
            "unit": self.unit,
            "p50": self.p50,
            "p95": self.p95,
            "count": len(self.samples),
            "samples": list(self.samples),
            "aim": None if self.aim is None else {"of": self.aim.of, "limit": self.aim.limit},
            "met": self.met,
            "note": self.note,
            "before": self.before,
        }


def parts_rows(group: str, parts: Sequence[Mapping[str, float]], where: str, unit: str) -> Iterator[Row]:
    """A row for each part that what was measured consists of, in the order in which they first came."""
    for name in dict.fromkeys(name for part in parts for name in part):
        yield Row(group, f"  of which {name}, {where}", unit, tuple(part[name] for part in parts if name in part))


HEADS = ("what", "p50", "p95", "n", "to last", "aim", "", "note")


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2g}"


def _with_unit(value: float | None, unit: str) -> str:
    return DASH if value is None else f"{number(value)} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the numbers come from."""

    cpu: str
    cores: int
    gpu: str  # "" where there is none
    no_gpu: str  # why there is none
    python: str
    torch: str
    textual: str
    kernel: str
    load: float  # 1-minute load average when the benchmark began
    wall: str = field(default_factory=lambda: datetime.datetime.now().astimezone().isoformat(timespec="minutes"))

    @staticmethod
    def find() -> Machine:
        """Look at this machine. Imports neither torch nor Textual: their versions are read from their metadata."""
        from aisp.engine.telemetry import Nvml

        nvml = Nvml()
        devices = nvml.devices()
        names = sorted({device.name for device in devices})
        gpu = f"{len(devices)} x {', '.join(names)}, driver {nvml.driver}" if devices else ""
        return Machine(
            cpu=_cpu_name(),
            cores=len(os.sched_getaffinity(0)),
            gpu=gpu,
            no_gpu="" if devices else nvml.note,
            python=platform.python_version(),
            torch=_version("torch"),
            textual=_version("textual"),
            kernel=".".join(platform.release().split(".")[:2]),
            load=os.getloadavg()[0],
        )

    def lines(self) -> list[str]:
        """A few lines for people."""
        return [
            f"CPU       {self.cpu}, {self.cores} cores, load {self.load:.1f} at the start",
            f"GPU       {self.gpu or f'no GPU: {self.no_gpu}'}",
            f"software  Python {self.python}, torch {self.torch}, Textual {self.textual}, Linux {self.kernel}",
            f"terminal  {COLUMNS}x{LINES}, a pseudo-terminal",
            f"date      {self.wall}",
        ]

    def document(self) -> dict[str, object]:
        """The same as plain data."""
        return {name: getattr(self, name) for name in self.__slots__} | {"terminal": f"{COLUMNS}x{LINES}"}


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return DASH


def text(machine: Machine, rows: Sequence[Row]) -> str:
    """The table for a terminal."""
    cells = [list(HEADS), *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS) - 1)]
    out = [*machine.lines(), ""]
    group = ""
    for position, line in enumerate(cells):
        row = rows[position - 1] if position else None
        if row is not None and row.group != group:
            group = row.group
            out += ["", f"{group}"]
        first, *middle = (part.ljust(width) for part, width in zip(line, widths, strict=False))
        out.append("  ".join([f"  {first}", *middle, line[-1]]).rstrip())
    return "\n".join(out)


def markdown(machine: Machine, rows: Sequence[Row]) -> str:
    """The table for a page."""
    out = ["```text", *machine.lines(), "```", ""]
    out += ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    for row in rows:
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells()) + " |")
    return "\n".join(out)


def document(machine: Machine, rows: Sequence[Row]) -> dict[str, object]:
    """Both as plain data, for `--json`."""
    return {"machine": machine.document(), "rows": [row.document() for row in rows]}
