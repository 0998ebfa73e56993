"""What of a lesson can decide the oracle's answer on a rung of it, as one hash that is recorded beside the answer."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aisp.kernels import catalog
from aisp.kernels.catalog import frontmatter
from aisp.kernels.catalog.model import Target
from aisp.kernels.catalog.sources import LESSON

DECIDES_NOTHING = ("title", "techniques", "goal", "expect", "link", "link_in", "link_out")
RUNGS_DECIDE_NOTHING = ("summary", "formerly", "expect", "parameters")
"""Of a front matter and of its rungs. All else counts, so that a new key does."""

_OURS = re.compile(rb"\baisp\.kernels(?:\.| import )([\w.]+)")
_EARLIER_NAMES = re.compile(rb"\baisp\.(?=kernels\b)")  # the package was called so when most lessons were asked


def now(roots: Sequence[Path] | None = None) -> dict[str, str]:
    """The hash of each lesson as it is on disk, by its target; of the shipped ones where no roots are given."""
    return {target.id: of(target) for target in catalog.load(roots).targets}


def of(target: Target) -> str:
    """16 hex digits over the files that a run of the target depends on, over the modules of `kernels` that they name,
    and over what the front matter says of cases and judgement. The lesson's words are left out."""
    files = catalog.read_sources(target)
    matter = deciding(files.pop(LESSON))
    shared = _shared(files.values())
    hashed = hashlib.sha256()
    # Unsorted: the order of [inputs] is that of run()'s arguments.
    for name, data in {LESSON: json.dumps(matter, default=str).encode(), **files, **shared}.items():
        data = _EARLIER_NAMES.sub(b"", data)
        hashed.update(f"{name}\0{len(data)}\0".encode() + data)
    return hashed.hexdigest()[:16]


def deciding(lesson: bytes) -> dict[str, Any]:
    """The front matter of a lesson.md without what decides nothing."""
    text = frontmatter.definition(lesson).decode().strip()
    matter = tomllib.loads(text.removeprefix("+++").removesuffix("+++"))
    rungs = {
        name: {key: value for key, value in notes.items() if key not in RUNGS_DECIDE_NOTHING}
        for name, notes in matter.pop("rungs", {}).items()
    }
    kept = {key: value for key, value in matter.items() if key not in DECIDES_NOTHING}
    return kept | {"rungs": {name: notes for name, notes in rungs.items() if notes}}


def _shared(files: Iterable[bytes]) -> Mapping[str, bytes]:
    """The modules of the package `kernels` that these files name, as `aisp.kernels.cuda`, by their path in it."""
    found: dict[str, bytes] = {}
    root = catalog.shipped_root()
    for dotted in sorted({match.decode().strip(".") for data in files for match in _OURS.findall(data)}):
        parts = dotted.split(".")
        for count in range(1, len(parts) + 1):
            path = root.joinpath(*parts[:count]).with_suffix(".py")
            if path.is_file():
                found[f"kernels/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return found
