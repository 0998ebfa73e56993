"""Starts one of our own processes so that it imports what was installed and nothing else.

    python -I engine/start.py MODULE WORDS...

Isolated (-I), the interpreter heeds no PYTHON* variable and no packages of the user's own, and has neither the working
folder nor the script's on its import path: the standard library comes first, then site-packages. Our package comes from
where this file lies, before anything else of its name, in a checkout as in a wheel. The folder that holds it is not on
the path, so nothing else in it can be imported. This file imports only the standard library: it is executed by its
path.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGE = "aisp"
FILE = str(Path(__file__).absolute())  # by the name that we were imported by: links are not followed
FOLDER = Path(FILE).parent.parent
ISOLATED = ("-I", "-u")  # -u: what a process prints is read as it is printed


class OurPackage:
    """Finds our package in one folder, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._path = [str(folder)]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        return PathFinder.find_spec(name, self._path) if name == PACKAGE else None


def command(module: str, *words: str) -> list[str]:
    """The words that start `module` of ours as a program."""
    return [sys.executable, *ISOLATED, FILE, module, *words]


def import_failure(error: ImportError) -> str:
    """What is missing, as a sentence: the line of ours that needed it, and what Python said."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(FOLDER))]
    failure = next(
        (f"`{frame.line}` failed" for frame in reversed(ours) if "import" in (frame.line or "")), "an import failed"
    )
    return f"{failure}: {type(error).__name__}: {error}; `aisp doctor` tells what is missing"


def main() -> None:
    """Become the program that the first word names."""
    sys.meta_path.insert(0, OurPackage(FOLDER.parent))
    module = sys.argv.pop(1)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ImportError as error:
        sys.exit(f"aisp: {module} cannot start: {import_failure(error)}")


if __name__ == "__main__":
    main()
