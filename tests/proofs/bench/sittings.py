"""What earlier sittings of the benchmark found: a file for each kind of machine in docs/speed/, a line for each figure.

A line is a JSON object: "wall", "commit", "figure", "unit", "p50", "p95" and "n". Figures are compared on one kind of
machine alone, the GPU's or the CPU's with its number of cores; two machines of one kind may differ by some 30 %.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.proofs.bench.table import DASH, Machine, Row, number
from tests.proofs.bench.terminal import ROOT

FOLDER = ROOT / "docs" / "speed"
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one sitting; `n` repetitions, `p95` None where there was one."""

    wall: str
    commit: str
    figure: str
    unit: str
    p50: float
    p95: float | None
    n: int

    @property
    def name(self) -> tuple[str, str]:
        """What is compared from sitting to sitting: the quantity and its unit."""
        return self.figure, self.unit


def kind(machine: Machine) -> str:
    """The machines that figures are compared on."""
    gpu = re.sub(r"^\d+ x |, driver .*$", "", machine.gpu)
    return gpu or f"{machine.cpu}, {machine.cores} cores"


def file_of(machine: Machine, folder: Path) -> Path:
    """Where the figures of machines like this one lie."""
    return folder / (re.sub(r"[^a-z0-9]+", "_", kind(machine).lower()).strip("_") + ".jsonl")


def commit_of(tree: Path = ROOT) -> str:
    """The commit of the tree that is measured, with a "+" behind it where files differ from it; a dash without git."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
            cwd=tree, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return DASH
    return found.stdout.strip()


def read(path: Path) -> list[Figure]:
    """All figures, oldest first; none where there is no such file."""
    if not path.exists():
        return []
    return [Figure(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def append(path: Path, machine: Machine, commit: str, rows: Iterable[Row]) -> None:
    """Add this sitting's figures; what could not be measured leaves no line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            if row.p50 is not None:
                figure = Figure(machine.wall, commit, row.what.strip(), row.unit, row.p50, row.p95, len(row.samples))
                file.write(json.dumps(asdict(figure), ensure_ascii=False) + "\n")


def beside_last(rows: Iterable[Row], before: Sequence[Figure]) -> list[Row]:
    """The rows, each with the median of the last sitting that had it."""
    last = {figure.name: figure.p50 for figure in before}
    return [replace(row, before=last.get((row.what.strip(), row.unit))) for row in rows]


def history(figures: Sequence[Figure]) -> str:
    """Markdown: every figure's medians over the sittings as bars from 0, the first and the last in figures."""
    by_name: dict[tuple[str, str], dict[str, Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.name, {})[figure.wall] = figure
    sittings: dict[str, str] = {}
    for figure in figures:
        sittings.setdefault(figure.wall, figure.commit)
    out = ["| what | sittings | first | last | last / first |", "|---|---|---|---|---|"]
    for (what, unit), known in by_name.items():
        most = max(figure.p50 for figure in known.values())
        found = list(known.values())
        first, last = found[0], found[-1]
        ratio = f"{last.p50 / first.p50:.2f}x" if first.p50 and len(found) > 1 else DASH
        bars = "".join(_bar(known[wall].p50, most) if wall in known else " " for wall in sittings)
        out.append(f"| {what} | `{bars}` | {number(first.p50)} {unit} | {number(last.p50)} {unit} | {ratio} |")
    commits = ", ".join(f"{commit} ({wall[:10]})" for wall, commit in sittings.items())
    return "\n".join([*out, "", f"Sittings, oldest first: {commits}."])


def _bar(value: float, most: float) -> str:
    return BARS[min(len(BARS) - 1, int(value / most * len(BARS)))] if most else BARS[0]


def drawn(folder: Path) -> str:
    """Markdown: the history of every kind of machine that has a file there."""
    parts = [f"### {file.stem.replace('_', ' ')}\n\n{history(read(file))}" for file in sorted(folder.glob("*.jsonl"))]
    return "\n\n".join(parts)
