"""Protections taken out, one at a time, in a copy of the sources: a scene must break, else nobody would miss it.

Each is removed by an exact replacement that must match once, so that a protection which moves is not forgotten. The
same scenes are played in an unchanged copy first: what does not hold there shows nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAIN = Path(__file__).parents[3]
SOURCES = ("checks", "engine", "kernels", "store", "tests", "tui", "pyproject.toml")
PATIENCE_S = 600.0


@dataclass(frozen=True)
class Protection:
    """One thing that stands between a fault and its harm.

    Attributes:
        name: what it is.
        what: what the sources are like without it.
        edits: (file, text, what stands there instead).
        rows: rows of the matrix whose scenes are played without it.
    """

    name: str
    what: str
    edits: tuple[tuple[str, str, str], ...]
    rows: tuple[int, ...]


PROTECTIONS = (
    Protection(
        "workers die with the engine",
        "no PR_SET_PDEATHSIG in a worker",
        (
            (
                "engine/worker/__main__.py",
                "    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)\n",
                "",
            ),
        ),
        (14,),
    ),
    Protection(
        "the file at the path is the store",
        "the writer does not look whether its file is still there",
        (("store/place.py", "        if not self.fits():\n", "        if False:\n"),),
        (53,),
    ),
    Protection(
        "a lock that was removed is taken again",
        "the engine does not look at its lock",
        (("engine/lock.py", "        if self.lost:\n", "        if True:\n"),),
        (58,),
    ),
    Protection(
        "what a worker leaves behind is swept",
        "the engine's sweep finds nobody",
        (
            (
                "engine/spawner.py",
                "strays = [pid for pid in _child_pids() if pid not in _children]",
                "strays: list[int] = []",
            ),
        ),
        (12, 13),
    ),
    Protection(
        "the kernel's word on a caller's uid",
        "every caller is taken for the same user",
        (("engine/connections.py", "return paths.peer_uid(connection) == os.getuid()", "return True"),),
        (38,),
    ),
    Protection(
        "the socket's folder is closed to others",
        "folders are made 0755 and left so",
        (
            ("engine/paths.py", "path.mkdir(mode=0o700)", "path.mkdir(mode=0o755)"),
            ("engine/paths.py", "os.fchmod(folder, 0o700)", "pass"),
        ),
        (38,),
    ),
    Protection(
        "reports are sealed",
        "a seal is not compared with the key's",
        (
            (
                "engine/protocol/framing.py",
                "if not hmac.compare_digest(digest.digest(), sealed[_NUMBER.size : SEAL_BYTES]):",
                "if False:",
            ),
        ),
        (43,),
    ),
)


def copy(folder: Path, protection: Protection | None) -> Path:
    """The sources in `folder`, without that protection.

    Raises:
        ValueError: the text that stands for the protection is not there exactly once.
    """
    folder.mkdir(parents=True)
    for name in SOURCES:
        source = MAIN / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    for name, text, instead in protection.edits if protection is not None else ():
        path = folder / name
        found = path.read_text("utf-8")
        if found.count(text) != 1:
            raise ValueError(f"{name} has {text!r} {found.count(text)} times, not once: it was changed; change it here")
        path.write_text(found.replace(text, instead), "utf-8")
    return folder


def play(folder: Path, rows: Sequence[int]) -> list[dict[str, Any]]:
    """What the scenes of these rows come to with the sources in `folder`; no row where the program did not end."""
    told = folder / "rows.json"
    command = [sys.executable, "-m", "tests.proofs.evil", "matrix", "--rows", str(told), "--only", *map(str, rows)]
    ended = subprocess.run(command, cwd=folder, timeout=PATIENCE_S, capture_output=True, check=False)
    if not told.exists():
        raise RuntimeError(f"no scene was played in {folder}: {ended.stderr.decode(errors='replace')[-2000:]}")
    found: list[dict[str, Any]] = json.loads(told.read_text("utf-8"))
    return found


def take_out(
    home: Path,
    chosen: Sequence[Protection] = PROTECTIONS,
    *,
    played: Callable[[Path, Sequence[int]], list[dict[str, Any]]] = play,
) -> list[dict[str, Any]]:
    """Per protection, which scenes noticed that it was out and which did not.

    Raises:
        RuntimeError: a scene does not hold in the unchanged copy either.
    """
    rows = sorted({row for protection in chosen for row in protection.rows})
    whole = played(copy(home / "whole", None), rows)
    broken = [f"{_id(row)}: {row['seen']}" for row in whole if not row["passed"]]
    if broken:
        raise RuntimeError(f"with every protection in place: {'; '.join(broken)}")
    told = []
    for number, protection in enumerate(chosen):
        found = played(copy(home / str(number), protection), protection.rows)
        noticed = [{"id": _id(row), "seen": row["seen"]} for row in found if not row["passed"]]
        held = [_id(row) for row in found if row["passed"]]
        told.append({"name": protection.name, "what": protection.what, "noticed": noticed, "held": held})
        missed = ", ".join(scene["id"] for scene in noticed)
        print(f"{protection.what}: {'missed by ' + missed if missed else 'NOBODY MISSES IT'}", flush=True)
        shutil.rmtree(home / str(number), ignore_errors=True)
    return told


def _id(row: dict[str, Any]) -> str:
    return f"{row['row']:02d}_{row['name']}"
