"""Two trees measured in turns in one call, so that a machine's drift meets both: here, there, there, here.

A difference is told as one where the readings of the two trees do not overlap.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aisp.tui import plain
from tests.proofs.bench.table import DASH, number
from tests.proofs.bench.terminal import ROOT

HERE, THERE = "here", "there"
ORDER = (HERE, THERE, THERE, HERE)
MODULES = ("tests.proofs.bench", "tests.bench")  # where older trees have the benchmark
HEADS = ("what", HERE, THERE, "here / there", "")


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure: the medians of each tree's sittings, in the order taken."""

    what: str
    unit: str
    here: tuple[float, ...]
    there: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """Mean here over mean there; None where one of them has none, or is 0."""
        if not self.here or not self.there or not sum(self.there):
            return None
        return (sum(self.here) / len(self.here)) / (sum(self.there) / len(self.there))

    @property
    def apart(self) -> bool:
        """Whether no reading of one tree lies among the other's."""
        if not self.here or not self.there:
            return False
        return max(self.here) < min(self.there) or max(self.there) < min(self.here)

    def cells(self) -> list[str]:
        """What, here, there, their ratio, and whether they are apart."""
        here, there = (", ".join(map(number, values)) or DASH for values in (self.here, self.there))
        ratio = DASH if self.ratio is None else f"{self.ratio:.2f}x"
        return [f"{self.what}, {self.unit}", here, there, ratio, "apart" if self.apart else "overlap"]


@contextlib.contextmanager
def tree(what: str) -> Iterator[Path]:
    """The folder of that name, or that commit's files in a temporary folder.

    Raises:
        ValueError: there is neither.
    """
    if Path(what).is_dir():
        yield Path(what).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="aisp-bench-tree-") as folder:
        packed = Path(folder) / "tree.tar"
        done = subprocess.run(
            ["git", "archive", "--format=tar", f"--output={packed}", what, "--"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ValueError(f"{what} is neither a folder nor a commit: {done.stderr.strip()}")
        with tarfile.open(packed) as archive:
            archive.extractall(Path(folder) / "tree", filter="data")
        yield Path(folder) / "tree"


def module_of(folder: Path) -> str:
    """The benchmark of a tree. Raises ValueError where there is none."""
    for name in MODULES:
        if (folder / name.replace(".", "/") / "__main__.py").exists():
            return name
    raise ValueError(f"{folder} has no {' nor '.join(MODULES)}")


def sitting(folder: Path, words: Sequence[str]) -> list[dict[str, object]]:
    """The rows of one sitting of a tree, in a process of its own, as `--json` prints them."""
    done = subprocess.run(
        [sys.executable, "-m", module_of(folder), "--json", *words],
        cwd=folder, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(folder)}, text=True, check=False,
    )  # fmt: skip
    rows: list[dict[str, object]] = json.loads(done.stdout)["rows"]
    return rows


def compare(folder: Path, words: Sequence[str]) -> Iterator[list[Pair]]:
    """Every figure that one of the two trees has, after each sitting: whoever is cut off has what was measured."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for place in ORDER:
        print(f"bench: {place} ...", file=sys.stderr, flush=True)
        for row in sitting(ROOT if place == HERE else folder, words):
            if isinstance(row["p50"], float | int):
                name = str(row["what"]).strip(), str(row["unit"])
                found.setdefault(name, {HERE: [], THERE: []})[place].append(float(row["p50"]))
        yield [Pair(what, unit, tuple(by[HERE]), tuple(by[THERE])) for (what, unit), by in found.items()]


def text(pairs: Sequence[Pair]) -> str:
    """The table for a terminal."""
    return "\n".join(plain.table(HEADS, [pair.cells() for pair in pairs]))
