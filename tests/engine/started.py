"""Engines and workers that begin with a test's own code: `python -m tests.engine.started FOLDER MODULE WORDS...`.

The product starts its processes isolated (engine.start), so nothing that a test puts into the environment is imported.
`instead` turns such a start into an ordinary one of another program, in which the import path is this repository's;
this module is that program where a test wants the `sitecustomize` of a folder to run first, in the engine and in each
of its workers.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from aisp.engine import start

ROOT = str(Path(start.__file__).parents[2])
PROGRAMS = ("aisp.engine.server", "aisp.engine.worker", "aisp.engine.worker.nursery")  # that an engine consists of
SITE = "AISP_TEST_SITE"  # names the folder, in the environment of the engine


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables with which `python -m` and `python -c` find the repository's packages, whatever the working folder."""
    return {**(os.environ if given is None else given), "PYTHONPATH": ROOT}


def instead(words: Sequence[str], replaced: Mapping[str, Sequence[str]]) -> list[str] | None:
    """`python -m` with the words that stand for the module which the product starts; None for any other program."""
    if start.FILE not in words:
        return None
    module, *rest = words[words.index(start.FILE) + 1 :]
    if module not in replaced:
        return None
    return [sys.executable, "-P", "-u", "-m", *replaced[module], *rest]


@contextlib.contextmanager
def programs(replaced: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Whatever this process starts meanwhile is another program, where `replaced` has one for its module."""
    real = subprocess.Popen

    class Popen(real[bytes]):  # type: ignore[misc]  # a type, since others subscribe it
        def __init__(self, words: Sequence[str], **rest: Any) -> None:
            other = instead(words, replaced)
            if other is not None:
                rest["env"] = environment(rest.get("env"))
            super().__init__(words if other is None else other, **rest)

    with mock.patch.object(subprocess, "Popen", Popen):
        yield


def with_site(folder: str) -> contextlib.AbstractContextManager[None]:
    """Engines that are started meanwhile, and their workers, import the `sitecustomize` of this folder first."""
    return programs({name: ["tests.engine.started", folder, name] for name in PROGRAMS})


def main() -> None:
    """See the module."""
    folder, module = sys.argv[1:3]
    del sys.argv[1:3]
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules.pop("sitecustomize", None)  # the machine's own
    __import__("sitecustomize")
    begin: Callable[[], contextlib.AbstractContextManager[None]]
    begin = (lambda: with_site(folder)) if module == "aisp.engine.server" else contextlib.nullcontext
    with begin():
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
