"""What to type to do something with a target once more. Every command that is printed for that has its words here.

A shipped lesson is named by its id, and one's own work by the path of its folder, or of the file that it is. What is
printed runs as it stands, in any folder and whatever signs a path has.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.model import Role
from aisp.store.results.reading import cache_of
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.store.record import Run

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%")
_FLUSHES: Mapping[Cache | None, tuple[str, ...]] = {Cache.WARM: ("--warm",), Cache.DIRTY: ("--flush", "dirty")}


def named(target_id: str, folder: Path) -> str:
    """What a target is called in a command: a shipped lesson by its id, one's own by its folder or file."""
    from aisp.kernels.catalog import shipped_root  # the loader: only where a command is shown

    return target_id if folder.is_relative_to(shipped_root()) else str(folder)


def command(verb: str, target_id: str, folder: Path, *options: str) -> str:
    """A command of `aisp` about one target, for a shell.

    Args:
        verb: "run", "fuzz".
        folder: of the target, or the file that it is.
        options: what follows the target, word by word.
    """
    return shell("aisp", *verb.split(), named(target_id, folder), *options)


def again(run: Run) -> str:
    """The command that measures a stored run's target as that run did; "" where it is not there, see `gone`."""
    folder = Path(os.fsdecode(run.folder))
    if not folder.exists():  # of another machine, or another checkout
        from aisp.kernels.catalog import list_ids  # as above

        if (shipped := list_ids().get(run.target)) is None:
            return ""
        folder = shipped
    options = ["--case", run.case] if run.case else []
    options += ["--quick"] if run.quick else []
    options += ["--device", "cpu"] if run.device == "cpu" else []
    rungs = [arm for arm in run.arms if not arm.twin and arm.role is not Role.BASELINE]
    if any(arm.role in (Role.CHEAT, Role.WRONG) for arm in rungs):  # which run only where they are named
        options += ["--rungs", ",".join(arm.rung for arm in rungs)]
    rule, without = run.manifest.get("stop_rule"), run.manifest.get("without")
    options += _FLUSHES.get(cache_of(rule) if isinstance(rule, Mapping) else None, ())
    options += ["--validity", run.policy] if run.policy != "strict" else []
    options += [word for check in (without if isinstance(without, list) else ()) for word in ("--without", check)]
    return command("run", run.target, folder, *options)


def gone(run: Run) -> str:
    """Why a stored run cannot be made once more, and what is left of it."""
    where = clean_line(run.folder, limit=4096) or "its folder"
    return f"{where} is not on this machine; `aisp diff {run.id}` shows the sources that ran"


def shell(*words: str) -> str:
    """Words as one types them."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A word as a shell takes it for what it is, on one line and with nothing that a terminal would act upon."""
    if clean_line(word, limit=len(word) + 1) == word:
        return shlex.quote(word)
    return "$'" + "".join(chr(byte) if byte in _PLAIN else f"\\x{byte:02x}" for byte in os.fsencode(word)) + "'"
