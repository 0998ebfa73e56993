"""Problem formats of others, read as they are: which one a file or a folder is in, without importing anything.

A module per dialect makes of a problem and a candidate the files of a folder in our own layout (`onefile.Parts`), so
that nothing behind the catalogue knows that there are dialects. Foreign text is read by its syntax tree.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path

from aisp.kernels.catalog import onefile

from . import kernelbench

_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_INPUTS = re.compile(rb"^def[ \t]+get_inputs[ \t]*\(", re.MULTILINE)
_OURS = re.compile(rb"^def[ \t]+reference[ \t]*\(", re.MULTILINE)
_CANDIDATE = re.compile(rb"^class[ \t]+ModelNew[ \t]*[(:]", re.MULTILINE)


class Part(enum.StrEnum):
    """What a path is, of KernelBench: the one dialect so far."""

    PROBLEM = "problem"
    CANDIDATE = "candidate"  # an answer to a problem, which it does not name
    COLLECTION = "collection"  # a folder of problems


def recognise(path: Path) -> Part | None:
    """What a file is by what it defines, and a folder by the names in it; None where it is in no format of others, or
    cannot be read."""
    if path.is_dir():
        found = next(kernelbench.collection(path), None)
        return Part.COLLECTION if found is not None else None
    if not onefile.is_one_file(path):
        return None
    try:
        with path.open("rb") as file:
            data = file.read(onefile.MAX_BYTES)
    except OSError:
        return None
    if _OURS.search(data):
        return None
    if _CANDIDATE.search(data):  # which often repeats the Model and the inputs that it was asked about
        return Part.CANDIDATE
    return Part.PROBLEM if _MODEL.search(data) and _INPUTS.search(data) else None
