"""KernelBench's generations: a folder of answers, and what its harness claimed of each.

    runs/a_model/level_1_problem_12_sample_0_kernel.py     class ModelNew
    runs/a_model/eval_results.json                         {"12": [{"sample_id": 0, "compiled": true, ...}]}

Answers are found by the names of their files. The claims are what the JSON says, in any of the three shapes that it has
had: per problem a list of samples, one sample, or samples by number. They are shown and never believed.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import kernelbench
from .shared import Listed, regular

RESULTS = "eval_results.json"
MAX_RESULTS_BYTES = 64 * 2**20
MAX_DIGITS = 6  # of a problem's number
MAX_RUNS = 1000  # folders of one folder that are looked into
_ANSWER = re.compile(r"level_(\d{1,6})_problem_(\d{1,6})_sample_(\d{1,6})_kernel\.py\Z")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What KernelBench's harness said of an answer; None for what it did not say.

    Attributes:
        runtime_ms, reference_ms: mean times of ModelNew and of Model.
    """

    compiled: bool | None = None
    correct: bool | None = None
    runtime_ms: float | None = None
    reference_ms: float | None = None

    @property
    def speedup(self) -> float | None:
        """Model's time over ModelNew's, where both are known."""
        if self.runtime_ms is None or self.reference_ms is None:
            return None
        return self.reference_ms / self.runtime_ms


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer of a run of KernelBench.

    Attributes:
        run: the name of its folder.
        claimed: None where nothing was said of it.
        reason: why nothing could be read of what was said; "" where it could.
    """

    run: str
    level: int
    problem: int
    sample: int
    path: Path
    claimed: Claimed | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """Unique among the answers of its run: "level_1_problem_12_sample_0"."""
        return self.path.name.removesuffix("_kernel.py")


def generations(folder: Path) -> Iterator[Generation]:
    """The answers in a run's folder, in a folder of runs, or in a checkout's `runs`, by run, level, problem, sample."""
    for place in _places(folder):
        matches = (_ANSWER.match(name) for name in kernelbench.names_in(place))
        found = sorted((int(m[1]), int(m[2]), int(m[3]), m[0]) for m in matches if m is not None)
        if not found:
            continue
        claims, reason = _claims(place / RESULTS)
        for level, problem, sample, name in found:
            claimed = claims.get((problem, sample))
            yield Generation(place.name, level, problem, sample, place / name, claimed, reason)


def is_runs(folder: Path) -> bool:
    """Whether a folder holds answers, or folders of them."""
    return any(_ANSWER.match(name) for place in _places(folder) for name in kernelbench.names_in(place))


def problems(checkout: Path) -> Mapping[tuple[int, int], Listed]:
    """The problems of a checkout by level and number; of two with the same, the first."""
    found: dict[tuple[int, int], Listed] = {}
    for each in kernelbench.collection(checkout):
        if each.level is not None and each.number is not None:
            found.setdefault((each.level, each.number), each)
    return found


def _places(folder: Path) -> Iterator[Path]:
    """The folder, those in it, and those in its `runs`; links to folders are not followed."""
    yield folder
    for head in (folder, folder / "runs"):
        try:
            with os.scandir(head) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
        yield from (head / name for name in names[:MAX_RUNS])


# -- claims ------------------------------------------------------------------------------------------------------------


def _claims(path: Path) -> tuple[dict[tuple[int, int], Claimed], str]:
    """What a file of results claims, by problem and sample; and why it claims nothing, "" where there is none."""
    if not path.exists():
        return {}, ""
    data = regular(path, MAX_RESULTS_BYTES + 1)
    if len(data) > MAX_RESULTS_BYTES:
        return {}, f"{RESULTS} has more than {MAX_RESULTS_BYTES:,} bytes"
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return {}, f"{RESULTS} is not JSON: {error}"
    if not isinstance(document, dict):
        return {}, f"{RESULTS} is no object by problem"
    return {key: claimed for problem, held in document.items() for key, claimed in _of_problem(problem, held)}, ""


def _of_problem(problem: str, held: Any) -> Iterator[tuple[tuple[int, int], Claimed]]:
    if not (problem.isascii() and problem.isdigit() and len(problem) <= MAX_DIGITS):
        return
    if isinstance(held, dict):
        held = [held] if "compiled" in held else list(held.values())
    for each in held if isinstance(held, list) else ():
        sample = each.get("sample_id", 0) if isinstance(each, dict) else None
        if isinstance(each, dict) and isinstance(sample, int):
            reference = _time(each.get("ref_runtime"))
            claimed = Claimed(
                _flag(each, "compiled"), _flag(each, "correctness"), _time(each.get("runtime")), reference
            )
            yield (int(problem), sample), claimed


def _flag(held: Mapping[str, Any], name: str) -> bool | None:
    value = held.get(name)
    return value if isinstance(value, bool) else None


def _time(value: Any) -> float | None:
    """A time in ms; None for -1, which stands for none there."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if known else None
