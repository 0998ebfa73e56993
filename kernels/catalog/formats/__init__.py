"""Problem formats of others, read as they are: which one a path is in, and what a folder holds, importing nothing.

A module per dialect (`shared.Dialect`) makes of a problem and a candidate the files of a folder in our own layout
(`onefile.Parts`), so that nothing behind the catalogue knows that there are dialects. Foreign text is read by its
syntax tree.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..model import Problem
from . import backendbench, gpumode, kernelbench, multikernel, robust, trace
from .shared import Dialect, Listed, Opened, Part

__all__ = [
    "DIALECTS",
    "Dialect",
    "Listed",
    "Opened",
    "Part",
    "answered",
    "answers",
    "listed",
    "named",
    "next_move",
    "recognise",
    "wanted",
]

DIALECTS: tuple[Dialect, ...] = (robust, backendbench, gpumode, trace, kernelbench, multikernel)
"""In the order in which they are asked: where two would take a path, the one that asks more of it stands first."""
MAX_CHECKOUTS = 256
"""Checkouts in one folder that are looked into."""


def recognise(path: Path) -> tuple[Dialect, Part] | None:
    """The first dialect that takes a file or a folder, and as what; None where none does, or it cannot be read."""
    for dialect in DIALECTS:
        part = dialect.part(path)
        if part is not None:
            return dialect, part
    found = next(listed(path), None) if path.is_dir() else None  # checkouts, each of which is a collection
    return None if found is None else (found[0], Part.COLLECTION)


def next_move(path: Path) -> Problem | None:
    """That a path is in a format of others, and so no target by itself, with the command that judges what is there;
    None where it is in none."""
    taken = recognise(path)
    if taken is None:
        return None
    dialect, part = taken
    quoted = shlex.quote(str(path))
    told, command = {
        Part.PROBLEM: (f"is a {dialect.TITLE} problem, and no answer to it", f"aisp run ANSWER --against {quoted}"),
        Part.CANDIDATE: (f"is an answer in the form of {dialect.TITLE}", f"aisp run {quoted} --against PROBLEM"),
        Part.COLLECTION: (f"holds {dialect.TITLE} problems", f"aisp judge {quoted}"),
        Part.RUNS: (f"holds answers in the form of {dialect.TITLE}", f"aisp judge {quoted} --against PROBLEMS"),
    }[part]
    return Problem(path, "", told, f"`{command}`")


def answered(problem: Path, candidate: Path) -> Dialect | None:
    """The dialect in which a candidate is judged: the first in which the other path is a problem, before that the first
    in which the candidate is one too. None where it is no problem in any."""
    taken = [dialect for dialect in DIALECTS if dialect.part(problem) is Part.PROBLEM]
    both = (dialect for dialect in taken if dialect.part(candidate) is Part.CANDIDATE)
    return next(both, taken[0] if taken else None)


def answers(folder: Path) -> list[Path]:
    """The candidates below a folder that name their problem themselves."""
    return trace.answers(folder) if folder.is_dir() else []


def named(problems: Path, candidates: Sequence[Path]) -> dict[Path, Path]:
    """The problem that each candidate itself names, of a folder of problems or of one; those that name none, or one
    that is not there, are left out."""
    return trace.problems_of([path for path in candidates if path.is_file()], problems)


def wanted(candidate: Path) -> str:
    """The name of the problem that a candidate itself names; "" where it names none."""
    return trace.wanted(candidate) if candidate.is_file() else ""


def listed(folder: Path) -> Iterator[tuple[Dialect, Listed]]:
    """The problems of every dialect below a folder and the checkouts (with a .git) that lie in it. A path is told once,
    by the first dialect that has it."""
    told: set[str] = set()
    for place in (folder, *_checkouts(folder)):
        for dialect in DIALECTS:
            for each in dialect.collection(place):
                if (path := os.fspath(each.path)) not in told:
                    told.add(path)
                    yield dialect, each


def _checkouts(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [folder / name for name in names[:MAX_CHECKOUTS] if (folder / name / ".git").exists()]
